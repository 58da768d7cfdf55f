package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// WriteJSON writes v as one indented document that is harmless on a terminal: what a terminal would obey is escaped,
// and reads back as it was.
func WriteJSON(w io.Writer, v any) error {
	b, err := encode(v, "  ")
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

func writeJSON(w io.Writer, r *diag.Report) error { return WriteJSON(w, r) }

// Line kinds of the ndjson format.
const (
	KindHop     = "PreflightHop"
	KindVerdict = "PreflightVerdict"
)

// HopLine is one hop as a line of ndjson.
type HopLine struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	RunID      string         `json:"run_id"`
	NodeID     string         `json:"node_id,omitempty"`
	Hop        diag.HopResult `json:"hop"`
}

// VerdictLine is the last line of ndjson: everything of the report but hops and facts.
type VerdictLine struct {
	APIVersion     string               `json:"apiVersion"`
	Kind           string               `json:"kind"`
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
	var out []byte
	for i := range r.Hops {
		b, err := encode(HopLine{diag.APIVersion, KindHop, r.Run.ID, r.Subject.NodeID, r.Hops[i]}, "")
		if err != nil {
			return err
		}
		out = append(out, b...)
	}
	b, err := encode(VerdictLine{
		diag.APIVersion, KindVerdict, r.Run, r.Subject, r.Plan, r.Vantages, r.Evidence, r.EvidenceCut, r.Verdict, r.Classification, r.Dashboard, r.Diff, r.Redaction,
	}, "")
	if err != nil {
		return err
	}
	_, err = w.Write(append(out, b...))
	return err
}
