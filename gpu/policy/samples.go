package policy

import (
	"strings"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// LoadSample parses a sample as gpuaas-gpu-probe writes it; of several lines it uses the last one.
func LoadSample(path string, data []byte) (*report.Sample, error) {
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	s, err := report.DecodeSample([]byte(lines[len(lines)-1]))
	if err != nil {
		return nil, &strictyaml.Error{Path: path, Line: len(lines), Message: err.Error()}
	}
	return s, nil
}

// LoadEvents parses events, one on each line.
func LoadEvents(path string, data []byte) ([]report.Event, error) {
	var all []report.Event
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		if strings.TrimSpace(line) == "" {
			continue
		}
		e, err := report.DecodeEvent([]byte(line))
		if err != nil {
			return nil, &strictyaml.Error{Path: path, Line: n, Message: err.Error()}
		}
		all = append(all, *e)
	}
	return all, nil
}
