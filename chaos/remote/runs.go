package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// runsWithin bounds reading all journals of a machine.
const runsWithin = 15 * time.Second

// KeptRun is a drill that has a folder on a machine.
type KeptRun struct {
	Run    string
	Status *step.Status // nil: it cannot be read
	Error  string       // why
}

// Runs returns the machine's drills, by any operator. It pushes nothing: each drill is read by its own copy of the
// program.
func (m *Machine) Runs(ctx context.Context) ([]KeptRun, error) {
	a, err := m.exec(ctx, vantage.Script{Text: runsScript, Args: []string{m.cfg.state}, Within: runsWithin,
		Keep: replyKept})
	if err != nil {
		return nil, fmt.Errorf("drills of %s: %w", m.ID(), err)
	}
	if _, whole := a.Note("exit"); !whole {
		return nil, fmt.Errorf("drills of %s: %w", m.ID(), errors.New("the connection ended before all were read"))
	}
	var all []KeptRun
	for line := range bytes.Lines(a.Output) {
		run, said, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if step.ValidName(run) {
			all = append(all, found(run, said))
		}
	}
	return all, nil
}

// found parses the status that a drill's program prints.
func found(run, said string) KeptRun {
	var r step.Reply
	f := KeptRun{Run: run}
	switch err := bounded.Unmarshal([]byte(said), &r, bounded.Line()); {
	case said == "":
		f.Error = "its folder has no program"
	case err != nil || r.Schema != step.ReplySchema:
		f.Error = "its program printed: " + said[:min(len(said), 200)]
	case r.Refused != nil:
		f.Error = r.Refused.Text
	case r.Error != "":
		f.Error = r.Error
	default:
		f.Status = r.Status
	}
	return f
}
