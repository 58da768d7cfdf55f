package platform

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/status"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// Head of the admission document.
const (
	gpuAPIVersion = "gpuaas/v1"
	kindAdmission = "GPUAdmission"
)

// gpuAdmission is the evidence about a node's GPUs for a gate that decides whether the node gets work. It contains
// no decision.
type gpuAdmission struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Node       string        `json:"node"`
	Status     status.Status `json:"status"`           // whether the node gets new work
	Before     status.Status `json:"before,omitempty"` // of an unhealthy node: the status that it returns to
	Health     policy.Health `json:"health"`           // by the policy, now

	Policy    gpuPolicyView `json:"policy"`
	XIDTables string        `json:"xid_tables,omitempty"` // digest of the tables of XIDs and SXIDs

	DecidedBy *policy.Finding    `json:"decided_by,omitempty"`
	GPUs      []policy.GPUHealth `json:"gpus"`
	Findings  []policy.Finding   `json:"findings"`       // the worst first
	Past      []policy.Finding   `json:"past,omitempty"` // errors that are over, and why
	Notes     []string           `json:"notes,omitempty"`
	Expected  *int               `json:"gpus_expected,omitempty"` // absent: not configured
	// what was not reported, lost or unreadable during this boot
	Dropped []report.Dropped `json:"dropped,omitempty"`

	SampledAt diag.Time `json:"sampled_at,omitzero"` // of the newest sample
	JudgedAt  diag.Time `json:"judged_at,omitzero"`
	Now       diag.Time `json:"now"`
}

type gpuPolicyView struct {
	Name   string      `json:"name"`
	SHA256 string      `json:"sha256,omitempty"`
	Mode   policy.Mode `json:"mode"`
	// problems of the current file, if it was rejected; the previous policy stays in force
	Refused []string `json:"refused,omitempty"`
}

// getGPU answers with the admission document of a node.
func (p *Platform) getGPU(w http.ResponseWriter, r *http.Request) error {
	if p.cfg.GPU.Policy == "" {
		return web.Errorf(http.StatusNotFound, "gpu_not_judged", "this platform judges no GPUs")
	}
	ctx, id := r.Context(), r.PathValue("id")
	if _, err := p.store.Node(ctx, id); err != nil {
		return notFound(err, "node")
	}
	n, err := p.store.GPUNode(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	n.NodeID = id
	dropped, err := p.store.GPUDropped(ctx, id)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, p.admission(n, dropped))
}

func (p *Platform) admission(n store.GPUNode, dropped []report.Dropped) gpuAdmission {
	j, now := n.Judged.Judgement, p.now()
	a := gpuAdmission{APIVersion: gpuAPIVersion, Kind: kindAdmission, Node: n.NodeID, Status: n.Status.Now(),
		Before: n.Status.Before, Health: j.Health, XIDTables: j.Catalogue, DecidedBy: j.Decided, GPUs: j.GPUs,
		Policy:   gpuPolicyView{Name: p.cfg.GPU.Policy, SHA256: j.Digest, Mode: p.cfg.GPU.Mode, Refused: p.gpus.mistakes()},
		Findings: j.Findings, Past: j.Past, Notes: j.Notes, Dropped: dropped, SampledAt: when(n.Judged.SampledAt),
		JudgedAt: when(n.Judged.At), Now: diag.At(now)}
	if count, known := p.gpus.expected[n.NodeID]; known {
		a.Expected = &count
	}
	if a.GPUs == nil {
		a.GPUs = []policy.GPUHealth{}
	}
	why := ""
	switch age := now.Sub(n.Judged.At); {
	case n.Seq == 0:
		why = "the node has reported nothing about GPUs"
	case n.Judged.At.IsZero():
		why = "what the node has reported is not judged yet"
	case age > gpuJudgementAge:
		why = fmt.Sprintf("the last judgement is %s old", age.Round(1e9))
	default:
		return a
	}
	f := policy.Finding{Subject: policy.Subject{About: policy.AboutNode, What: "the judgement"}, Health: policy.Unknown,
		Why: why}
	a.Findings = append([]policy.Finding{f}, a.Findings...)
	if a.Health == "" || policy.Worse(policy.Unknown, a.Health) {
		a.Health, a.DecidedBy = policy.Unknown, &f
	}
	return a
}
