package reading

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Health of a GPU or of a node, as a policy judges it.
const (
	GPUHealthy   = "HEALTHY"
	GPUDegraded  = "DEGRADED"
	GPUUnhealthy = "UNHEALTHY"
	GPUUnknown   = "UNKNOWN"
)

// gpuShadow is the mode of a policy whose judgement has no effect.
const gpuShadow = "shadow"

// GPUAdmission is a policy's judgement of a node's GPUs, for a gate that decides whether the node gets work. JudgedBy
// judged; this type only holds the result.
type GPUAdmission struct {
	Node     string        `json:"node"`
	JudgedBy string        `json:"judged_by"` // platform | gpuaasctl
	Health   string        `json:"health"`
	Status   string        `json:"status,omitempty"` // whether the node gets new work, by the platform
	Before   string        `json:"before,omitempty"` // of an unhealthy node: the status that it returns to
	Policy   GPUPolicy     `json:"policy"`
	Tables   string        `json:"xid_tables,omitempty"` // digest of the tables of XIDs and SXIDs
	Decided  *GPUFinding   `json:"decided_by,omitempty"`
	GPUs     []GPUHealthOf `json:"gpus"`
	Expected *int          `json:"gpus_expected,omitempty"` // absent: no number was given
	Findings []GPUFinding  `json:"findings"`                // the worst first
	Past     []GPUFinding  `json:"past,omitempty"`          // errors that are over, and why
	Notes    []string      `json:"notes,omitempty"`
	Sampled  diag.Time     `json:"sampled_at,omitzero"` // the newest sample of a GPU
	Judged   diag.Time     `json:"judged_at,omitzero"`
	Now      diag.Time     `json:"now,omitzero"` // by the clock of Sampled and Judged

	Listed int `json:"-"` // number of GPUs in the document
}

// GPUPolicy is the policy that was applied.
type GPUPolicy struct {
	Name    string   `json:"name,omitempty"`
	SHA256  string   `json:"sha256,omitempty"`
	Mode    string   `json:"mode,omitempty"`
	Refused []string `json:"refused,omitempty"` // errors of the present policy file; the previous one is applied
}

// Shadow reports whether the policy's judgement has no effect.
func (p *GPUPolicy) Shadow() bool { return p.Mode == gpuShadow }

// AdmissionOf returns the admission document of a fact; nil if the fact has none. Text that is not a list, or is too
// long for one, is left out.
func AdmissionOf(node string, f *diag.Fact) *GPUAdmission {
	a := HeadOf(node, f)
	if a != nil {
		readList(f.HTTP.Fields["gpu.findings"], &a.Findings)
		readList(f.HTTP.Fields["gpu.past"], &a.Past)
		readList(f.HTTP.Fields["gpu.notes"], &a.Notes)
	}
	return a
}

// HeadOf is AdmissionOf without the findings and the notes, which the hop's judge does not need.
func HeadOf(node string, f *diag.Fact) *GPUAdmission {
	if !f.Passed() || f.HTTP == nil || f.HTTP.Fields["gpu.health"] == "" {
		return nil
	}
	v := f.HTTP.Fields
	a := &GPUAdmission{
		Node: node, JudgedBy: JudgedByPlatform, Health: strings.ToUpper(v["gpu.health"]),
		Status: v["gpu.node_status"], Before: v["gpu.node_before"],
		Policy: GPUPolicy{Name: v["gpu.policy"], SHA256: v["gpu.policy_sha256"], Mode: strings.ToLower(v["gpu.mode"])},
		Tables: v["gpu.xid_tables"], Expected: Count(v["gpu.expected"]), GPUs: []GPUHealthOf{}, Findings: []GPUFinding{},
		Sampled: timeIn(v["gpu.sampled_at"]), Judged: timeIn(v["gpu.judged_at"]), Now: timeIn(v["gpu.now"]),
	}
	decided := GPUFinding{
		Subject: GPUSubject{About: v["gpu.decided_about"], What: v["gpu.decided_what"], Index: Count(v["gpu.decided_index"]),
			UUID: v["gpu.decided_uuid"], PCI: v["gpu.decided_pci"]},
		Health: a.Health, Rule: v["gpu.decided_rule"], Why: v["gpu.decided_why"],
	}
	if decided.Subject.What != "" || decided.Why != "" {
		a.Decided = &decided
	}
	readList(v["gpu.policy_refused"], &a.Policy.Refused)
	var gpus []json.RawMessage
	readList(v["gpu.gpus"], &gpus)
	a.Listed = len(gpus)
	readList(v["gpu.gpus"], &a.GPUs)
	return a
}

// Values of GPUAdmission.JudgedBy.
const (
	JudgedByPlatform = "platform"
	judgedHere       = "gpuaasctl"
)

// JudgedHere returns the admission document of this tool's own judgement of the node's facts; nil if it made none.
func JudgedHere(node string, judged, facts *diag.Fact) *GPUAdmission {
	if !judged.Passed() || judged.GPUJudged == nil {
		return nil
	}
	j := judged.GPUJudged
	a := &GPUAdmission{Node: node, JudgedBy: judgedHere, Health: j.Health, Tables: j.Tables,
		Policy: GPUPolicy{Name: j.Policy, SHA256: j.SHA256, Mode: "enforce"}, GPUs: []GPUHealthOf{}, Findings: []GPUFinding{},
		Judged: judged.Request.Since, Now: judged.Request.Since}
	var doc struct {
		Decided  *GPUFinding   `json:"decided_by"`
		GPUs     []GPUHealthOf `json:"gpus"`
		Findings []GPUFinding  `json:"findings"`
		Past     []GPUFinding  `json:"past"`
		Notes    []string      `json:"notes"`
	}
	if bounded.Unmarshal(j.Document, &doc, bounded.Answer()) != nil {
		return nil
	}
	a.Decided, a.Past, a.Notes = doc.Decided, doc.Past, doc.Notes
	a.Listed = len(doc.GPUs)
	a.GPUs, a.Findings = append(a.GPUs, doc.GPUs...), append(a.Findings, doc.Findings...)
	if facts != nil && facts.GPU != nil && !facts.GPU.EarlierBoot {
		a.Sampled, a.Expected = facts.GPU.SampledAt, facts.GPU.Expected
	}
	return a
}

// readList decodes a JSON list; for other text, into stays unchanged.
func readList(text string, into any) {
	if strings.HasPrefix(text, "[") && text != "[]" {
		_ = bounded.Unmarshal([]byte(text), into, bounded.Small()) // fields of another type are skipped
	}
}

func timeIn(text string) diag.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return diag.Time{}
	}
	return diag.At(t)
}

// XID returns the number of the XID or SXID that a finding is about, "" if it is about something else.
func (f *GPUFinding) XID() string {
	if f == nil {
		return ""
	}
	if m := xidWords().FindStringSubmatch(f.Subject.What); m != nil {
		return m[1]
	}
	return ""
}

// xidWords matches the name of an XID or SXID at the start of a finding's subject.
var xidWords = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^s?xid (\d{1,6})\b`) })

// Words describes a finding for people: what, on which GPU, by which rule.
func (f *GPUFinding) Words() string {
	if f == nil {
		return "no finding is named"
	}
	words := cmp.Or(OneLine(f.Subject.What), "it")
	if of := f.Subject.gpu(); of != "" {
		words += " " + of
	}
	if f.Why != "" {
		words += ": " + OneLine(f.Why)
	}
	if f.Rule != "" {
		words += " (rule " + OneLine(f.Rule) + ")"
	}
	return words
}

// gpu names the GPU of a finding by index, PCI address and UUID, as far as known; "" if the finding is about no GPU.
func (s *GPUSubject) gpu() string {
	var ids []string
	name := ""
	if s.Index != nil {
		name = fmt.Sprint("GPU ", *s.Index)
	}
	if name != "" && name != s.What {
		ids = append(ids, name)
	}
	for _, id := range []string{s.PCI, s.UUID} {
		if id != "" {
			ids = append(ids, OneLine(id))
		}
	}
	if len(ids) == 0 {
		return ""
	}
	if ids[0] == name {
		return "of " + strings.Join(ids, ", ")
	}
	return "(" + strings.Join(ids, ", ") + ")"
}

// NotHealthy names each GPU that is not healthy, in the document's order, by what is known of it: its index, PCI
// address and UUID.
func (a *GPUAdmission) NotHealthy() []string {
	var names []string
	for i := range a.GPUs {
		if g := &a.GPUs[i]; g.Health != GPUHealthy {
			names = append(names, g.Name())
		}
	}
	return names
}

// Unreported returns how many of the expected GPUs the document does not have.
func (a *GPUAdmission) Unreported() int {
	if a.Expected == nil {
		return 0
	}
	return max(0, *a.Expected-a.Listed)
}

// Name names a GPU by its index, PCI address and UUID, as far as known.
func (s *GPUSubject) Name() string {
	var ids []string
	for _, id := range []string{s.PCI, s.UUID} {
		if id != "" {
			ids = append(ids, OneLine(id))
		}
	}
	known := strings.Join(ids, ", ")
	switch {
	case s.Index == nil:
		return cmp.Or(known, OneLine(s.What), "a GPU without a name")
	case known == "":
		return fmt.Sprint("GPU ", *s.Index)
	}
	return fmt.Sprintf("GPU %d (%s)", *s.Index, known)
}

// Same reports whether both subjects are the same GPU, by any name that both have. A PCI address outlives a driver's
// index.
func (s *GPUSubject) Same(o *GPUSubject) bool {
	switch {
	case s.UUID != "" && o.UUID != "":
		return s.UUID == o.UUID
	case s.PCI != "" && o.PCI != "":
		return s.PCI == o.PCI
	}
	return s.Index != nil && o.Index != nil && *s.Index == *o.Index
}

// Absent reports whether nothing was ever judged or sampled on the node, and no GPU is expected there.
func (a *GPUAdmission) Absent() bool {
	return a.Health == GPUUnknown && a.Judged.IsZero() && a.Sampled.IsZero() && a.Listed == 0 && !a.Expects()
}

// None reports whether the node is known to have no GPU: none is expected, and none was seen.
func (a *GPUAdmission) None() bool {
	return a.Health == GPUUnknown && a.Listed == 0 && a.Expected != nil && *a.Expected == 0
}

// Expects reports whether the node should have GPUs.
func (a *GPUAdmission) Expects() bool { return a.Expected != nil && *a.Expected > 0 }

// Known reports whether the judge knows the health, see GPUHealths.
func (a *GPUAdmission) Known() bool { return slices.Contains(GPUHealths(), a.Health) }

// GPUHealths lists the values of a health, the best first.
func GPUHealths() []string { return []string{GPUHealthy, GPUDegraded, GPUUnhealthy, GPUUnknown} }
