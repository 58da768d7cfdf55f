package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// maxEventLine bounds one line of a history.
const maxEventLine = 1 << 20

// NDJSON encodes events, or facts, one JSON object per line.
func NDJSON[T any](all []T) ([]byte, error) {
	var b bytes.Buffer
	for i := range all {
		line, err := json.Marshal(&all[i])
		if err != nil {
			return nil, err
		}
		b.Write(clean.JSON(line))
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// JSON encodes a file of a bundle.
func JSON(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(clean.JSON(data), '\n'), err
}

// ReadNDJSON parses events as NDJSON encodes them.
func ReadNDJSON(data []byte) ([]Event, error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxEventLine)
	var events []Event
	all := bounded.NewLines(bounded.History())
	for n := 1; lines.Scan(); n++ {
		var e Event
		if err := all.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}
