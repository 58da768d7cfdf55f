package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// WriteJSON writes d as one indented document that is safe on a terminal: control characters are escaped, and decode to
// the original values.
func WriteJSON(w io.Writer, d diag.Document) error {
	b, err := encode(d, "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return clean.JSON(b.Bytes()), nil
}

// Line kinds of the ndjson format.
const (
	KindHop         = "PreflightHop"
	KindVerdict     = "PreflightVerdict"
	KindProvisional = "PreflightProvisional"
)

// ProvisionalLine is the blame as far as the walk has got. These lines precede the lines of the report, which confirm
// or correct them.
type ProvisionalLine struct {
	diag.Head

	RunID   string       `json:"run_id"`
	NodeID  string       `json:"node_id,omitempty"`
	AtMS    diag.Millis  `json:"at_ms"`           // since the walk's start
	Blame   *diag.Blame  `json:"blame,omitempty"` // without confidence; absent: taken back
	Waiting []diag.HopID `json:"waiting"`         // hops that are not done
}

// Provisional returns a ProvisionalLine as a line.
func Provisional(run, node string, at time.Duration, blame *diag.Blame, waiting []diag.HopID) []byte {
	line, err := encode(ProvisionalLine{diag.NewHead(KindProvisional), run, node, diag.Measured(at), blame, waiting}, "")
	if err != nil {
		return nil // the types above always encode
	}
	return line
}

// HopLine is one hop as a line of ndjson.
type HopLine struct {
	diag.Head

	RunID  string         `json:"run_id"`
	NodeID string         `json:"node_id,omitempty"`
	Hop    diag.HopResult `json:"hop"`
}

// VerdictLine is the last line of ndjson: the report without hops and facts.
type VerdictLine struct {
	diag.Head

	Run            diag.Run             `json:"run"`
	Subject        diag.Subject         `json:"subject"`
	Plan           diag.Plan            `json:"plan"`
	Vantages       []diag.VantageInfo   `json:"vantages"`
	Evidence       []diag.EvidenceLine  `json:"evidence,omitempty"`
	EvidenceCut    bool                 `json:"evidence_cut,omitempty"`
	Verdict        diag.Verdict         `json:"verdict"`
	Classification *diag.Classification `json:"classification,omitempty"`
	Dashboard      diag.Dashboard       `json:"dashboard"`
	Diff           *diag.Diff           `json:"diff,omitempty"`
	Redaction      diag.Redaction       `json:"redaction"`
}

func writeNDJSON(w io.Writer, r *diag.Report) error {
	var lines []diag.Document
	for i := range r.Hops {
		lines = append(lines, HopLine{diag.NewHead(KindHop), r.Run.ID, r.Subject.NodeID, r.Hops[i]})
	}
	return WriteLines(w, append(lines, VerdictLine{
		diag.NewHead(KindVerdict), r.Run, r.Subject, r.Plan, r.Vantages, r.Evidence, r.EvidenceCut, r.Verdict,
		r.Classification, r.Dashboard, r.Diff, r.Redaction,
	}))
}

// WriteLines writes each document on one line, escaped as in WriteJSON.
func WriteLines(w io.Writer, lines []diag.Document) error {
	var out []byte
	for _, l := range lines {
		b, err := encode(l, "")
		if err != nil {
			return err
		}
		out = append(out, b...)
	}
	_, err := w.Write(out)
	return err
}
