// Package trust explains drift between the certificates of one environment: what a listener presents, what a node
// trusts, who signed the node's certificate, which CAs the ingress accepts, and what the profile pins. Its input is
// facts; its output is a table, the links between the rows, and a verdict.
//
// It measures nothing: the facts are those of a walk (package preflight) and of the few questions that Ask and AskNext
// add. So it can also explain a report that was recorded long ago. Callers are `gpuaasctl diag trust`, and callers that
// must know whether re-enrolling a node can help.
package trust

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Kind is the "kind" of a written report.
const Kind = "TrustReport"

// Report is the explanation. Everything except Run is derived from Subject and Facts.
type Report struct {
	diag.Head

	Run     *diag.Run    `json:"run,omitempty"`
	Subject diag.Subject `json:"subject"`
	Rows    []Row        `json:"table"`
	Links   []Link       `json:"links"`
	Verdict Verdict      `json:"verdict"`
	Facts   []diag.Fact  `json:"facts"`
}

// Row is one certificate, or the place of one that was not measured.
type Row struct {
	ID          string    `json:"id"` // what the certificate is: node_api_leaf, node_bundle, ...
	Title       string    `json:"title"`
	From        string    `json:"from"`             // the source: node | operator | platform | profile
	Where       string    `json:"where,omitempty"`  // file, endpoint or key
	Fingerprint string    `json:"sha256,omitempty"` // of the DER, lower-case hex; empty if only a name is known
	Subject     string    `json:"subject,omitempty"`
	Issuer      string    `json:"issuer,omitempty"`
	Serial      string    `json:"serial,omitempty"`
	NotBefore   diag.Time `json:"not_before,omitzero"`
	NotAfter    diag.Time `json:"not_after,omitzero"`
	Note        string    `json:"note,omitempty"`
	Missing     string    `json:"missing,omitempty"` // why it was not measured; all other values are then absent
}

// Status is the state of a link. Only pass is green.
type Status string

// The closed list of statuses. NotSet: a pin or a path that was not given, so there is nothing to compare, which is not
// a fault.
const (
	Pass    Status = "pass"
	Fail    Status = "fail"
	Unknown Status = "unknown"
	NotSet  Status = "not_set"
)

// Link is one comparison: what must match between two of the rows.
type Link struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Status   Status   `json:"status"`
	Text     string   `json:"text"`
	Cause    Cause    `json:"corner,omitempty"` // for a failing link: what changed
	Evidence []string `json:"evidence,omitempty"`
}

// Outcome of a report.
type Outcome string

// The outcomes. One failing link makes a mismatch, whatever else is unknown.
const (
	Match    Outcome = "match"
	Mismatch Outcome = "mismatch"
	Unclear  Outcome = "unknown"
)

// Verdict is the first link that does not match, what changed, and the repair in order.
type Verdict struct {
	Outcome Outcome         `json:"outcome"`
	First   string          `json:"first_link,omitempty"`
	Text    string          `json:"text"`
	Cause   Cause           `json:"corner,omitempty"`
	Moved   string          `json:"moved,omitempty"`  // the cause in words
	Signal  diag.Signal     `json:"signal,omitempty"` // the signal whose runbook entry has more
	Repair  []Repair        `json:"repair,omitempty"` // control plane, then profile, then node
	Facts   []string        `json:"evidence,omitempty"`
	Owner   string          `json:"owner,omitempty"`
	Runbook string          `json:"runbook,omitempty"`
	Others  []Cause         `json:"other_corners,omitempty"` // independent faults besides the first
	Unknown []string        `json:"unknown,omitempty"`       // links that could not be measured
	Reason  diag.ReasonCode `json:"reason,omitempty"`
}

// Explain judges the facts about subject. The report keeps a reference to facts.
func Explain(subject diag.Subject, facts []diag.Fact) *Report {
	s := newScene(subject, facts)
	r := &Report{Head: diag.NewHead(Kind), Subject: subject, Facts: facts, Rows: s.rows(), Links: s.links()}
	if r.Facts == nil {
		r.Facts = []diag.Fact{}
	}
	r.Verdict = s.verdict(r.Links)
	return r
}

// ControlPlane returns the link between the CA that signs nodes and the CAs that the ingress accepts. While it fails,
// no new certificate helps a node, and the control plane must be repaired first.
func (r *Report) ControlPlane() Link {
	i := slices.IndexFunc(r.Links, func(l Link) bool { return l.ID == linkIngress })
	return r.Links[i]
}
