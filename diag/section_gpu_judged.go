package diag

import "encoding/json"

// GPUJudged is what a policy makes of a node's GPUs, where this tool judges them and no platform does.
type GPUJudged struct {
	Health string `json:"health"` // HEALTHY | DEGRADED | UNHEALTHY | UNKNOWN
	Policy string `json:"policy"` // a built-in one, or a file
	SHA256 string `json:"sha256,omitempty"`
	Tables string `json:"xid_tables,omitempty"` // digest of the tables of XIDs
	// the admission document, as a platform that judges writes it
	Document json.RawMessage `json:"document,omitempty"`
}

// Words is the health and the policy.
func (j *GPUJudged) Words() []Line {
	return []Line{line("gpus judged", j.Health, pair("policy ", j.Policy), pair("sha256 ", Digits(j.SHA256)))}
}

// Traits has the policy and the tables: what is found by other ones does not compare.
func (j *GPUJudged) Traits(*Fact) []Trait {
	return []Trait{
		{ChangePolicy, "gpu_judged.sha256", j.SHA256},
		{ChangePolicy, "gpu_judged.xid_tables", j.Tables},
	}
}
