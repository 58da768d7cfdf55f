// Package history stores finished reports on the operator's machine, so that a later walk can show what changed. It is
// one SQLite file, which any number of processes can use at once.
//
// It neither judges nor compares: package preflight does, from the stored reports. The caller decides whether an error
// matters; no walk depends on the history. Its callers are ops and cmd/gpuaasctl.
package history

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Retention limits: enough reports to recognize noise, few enough that the file needs no maintenance.
const (
	PerSubject = 50        // reports
	TotalBytes = 256 << 20 // compressed reports, over all subjects
)

// ErrNone means that no stored report matches.
var ErrNone = errors.New("no such report is kept")

// InputError is a mistake of the caller or damage to one report: the id of several reports, a report that cannot be
// decoded or be a baseline. It is no fault of the program, nor of the file as a whole.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// Path returns the path of the history: below $XDG_STATE_HOME, else in an ordinary user's home, or for root next to the
// lab's state. env returns the value of a variable.
func Path(env func(string) string, root bool) (string, error) {
	base := env("XDG_STATE_HOME")
	switch {
	case filepath.IsAbs(base): // the XDG specification ignores a relative one
	case root:
		base = "/var/lib"
	case env("HOME") != "":
		base = filepath.Join(env("HOME"), ".local", "state")
	default:
		return "", errors.New("neither XDG_STATE_HOME nor HOME says where the history is")
	}
	return filepath.Join(base, "gpuaasctl", "reports.db"), nil
}

// Subject is the key of stored reports. Environment is the profile's name, or without a profile the API's base URL.
type Subject struct{ Environment, Node, Allocation string }

// SubjectOf returns the subject of a report.
func SubjectOf(s diag.Subject) Subject {
	return Subject{
		Environment: cmp.Or(s.EnvironmentProfile, s.Expected["api_base"]),
		Node:        cmp.Or(s.NodeID, s.NodeHost), Allocation: s.AllocationID,
	}
}

// Shape identifies what a plan walks: every hop and step that is not left out. Two walks of one shape measured the same
// things.
func Shape(p diag.Plan) string {
	var b strings.Builder
	for _, h := range p.Hops {
		if h.Skip != "" {
			continue
		}
		steps := slices.DeleteFunc(slices.Clone(h.Steps), func(s string) bool { return h.Left[s] != "" })
		fmt.Fprintf(&b, "%s(%s)", h.ID, strings.Join(steps, ","))
	}
	return b.String()
}

// KindEntry heads an Entry.
const KindEntry = "HistoryEntry"

// Entry is a stored report without its facts.
type Entry struct {
	diag.Head

	RunID          string       `json:"run_id"`
	Environment    string       `json:"environment,omitempty"`
	NodeID         string       `json:"node_id,omitempty"`
	AllocationID   string       `json:"allocation_id,omitempty"`
	StartedAt      diag.Time    `json:"started_at"`
	EndedAt        diag.Time    `json:"ended_at"`
	DurationMS     diag.Millis  `json:"duration_ms"`
	Outcome        diag.Outcome `json:"outcome"`
	FirstFailedHop diag.HopID   `json:"first_failed_hop,omitempty"`
	BlameHop       diag.HopID   `json:"blame_hop,omitempty"`
	BlameSignal    diag.Signal  `json:"blame_signal,omitempty"`
	Good           bool         `json:"good"`  // may be a baseline
	Whole          bool         `json:"whole"` // nothing was left out on request
	Bytes          int64        `json:"bytes"` // packed
	subject        Subject
}

// entry sums up a report. The caller decides good and whole.
func entry(r *diag.Report, good, whole bool) Entry {
	e := Entry{
		Head: diag.NewHead(KindEntry), RunID: r.Run.ID, StartedAt: r.Run.StartedAt, EndedAt: r.Run.EndedAt,
		DurationMS: r.Run.DurationMS, Outcome: r.Verdict.Outcome, FirstFailedHop: r.Verdict.FirstFailedHop, Good: good,
		Whole: whole, subject: SubjectOf(r.Subject),
	}
	if b := r.Verdict.Blame; b != nil {
		e.BlameHop, e.BlameSignal = b.Hop, b.Signal
	}
	return e
}

// pack encodes a report for the file. Secrets marshal as placeholders, so none is stored.
func pack(r *diag.Report) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(json.NewEncoder(z).Encode(r), z.Close()); err != nil {
		return nil, fmt.Errorf("pack report: %w", err)
	}
	return b.Bytes(), nil
}

// unpack decodes a report; damaged data is an error.
func unpack(packed []byte) (*diag.Report, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack report: %w", err)
	}
	text, err := bounded.Read(z, bounded.DocumentBytes)
	if err != nil {
		return nil, fmt.Errorf("unpack report: %w", err)
	}
	r := &diag.Report{}
	if err := bounded.Unmarshal(text, r, bounded.Document()); err != nil {
		return nil, fmt.Errorf("read kept report: %w", err)
	}
	return r, nil
}

// millis is a time as stored.
func millis(t diag.Time) int64 { return t.UnixMilli() }

// stored is a stored time.
func stored(ms int64) diag.Time { return diag.At(time.UnixMilli(ms)) }
