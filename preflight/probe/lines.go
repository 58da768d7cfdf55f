package probe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// MaxLine bounds one line of the protocol: several times the size of a request with an inline trust bundle.
const MaxLine = 4 << 20

// Hello is the first line that a node's probe writes: which probe measures, and the time on the node.
type Hello struct {
	Version  string    `json:"version"`
	UID      int       `json:"uid"`
	PID      int       `json:"pid"`
	AgentPID int       `json:"agent_pid"` // 0: no agent runs
	BootID   string    `json:"boot_id"`
	Now      diag.Time `json:"now"`
}

// inLine is one line to the node: a request, or the id of a request that was abandoned.
type inLine struct {
	diag.Request
	Cancel string `json:"cancel,omitempty"`
}

// outLine is one line from the node: exactly one of hello, error and a fact.
type outLine struct {
	Hello *Hello `json:"hello,omitempty"`
	Error string `json:"error,omitempty"`
	ID    string `json:"id,omitempty"`
}

// errLineTooLong reports a line over MaxLine; the lines after it can still be read.
var errLineTooLong = errors.New("the line is too long")

// readLine returns the next line without its end. It also returns a last line without one.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			tooLong = true
		}
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0):
			return nil, err
		case tooLong:
			return nil, errLineTooLong
		}
		return bytes.TrimSpace(line), nil
	}
}

// decodeRequest decodes one line to the node. It refuses an input that this build does not know, since a measurement
// without it would be another one. It returns the id even with an error, if the line has one.
func decodeRequest(line []byte) (inLine, error) {
	var in inLine
	err := bounded.Strict(line, &in, bounded.Line())
	if errors.Is(err, bounded.ErrMore) {
		err = errors.New("more than one value on a line")
	}
	if err != nil {
		var named struct {
			ID string `json:"id"`
		}
		_ = bounded.Unmarshal(line, &named, bounded.Line())
		return inLine{Request: diag.Request{ID: named.ID}}, fmt.Errorf("reading a request: %w", err)
	}
	if in.Cancel == "" && in.Op == "" {
		return in, errors.New("reading a request: it names no op")
	}
	return in, nil
}

// errOverBudget ends a connection whose node sends more than any real one does.
var errOverBudget = errors.New(
	"the node's answers are larger than this tool keeps for one connection (16 MiB at once, " +
		"a list element counted as 1 KiB)")

// budget is the remaining size of one connection's answers, see bounded.LinkBudget. It grows with time, since a
// connection may be kept for days.
type budget struct {
	left int
	at   time.Time // time of the last answer
}

// spend spends cost; it returns false if the budget does not suffice. Then the connection ends.
func (b *budget) spend(cost int, now time.Time) bool {
	if !b.at.IsZero() {
		grown := now.Sub(b.at).Seconds() * bounded.LinkRefill
		b.left = int(min(float64(b.left)+grown, bounded.LinkBudget))
	}
	b.at = now
	b.left -= cost
	return b.left >= 0
}
