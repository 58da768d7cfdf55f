package diag

import "encoding/json"

// GPUJudged is a policy's judgement of a node's GPUs, if this tool judges them and not the platform.
type GPUJudged struct {
	Health string `json:"health"` // HEALTHY | DEGRADED | UNHEALTHY | UNKNOWN
	Policy string `json:"policy"` // name of a built-in policy, or a file
	SHA256 string `json:"sha256,omitempty"`
	Tables string `json:"xid_tables,omitempty"` // digest of the XID tables
	// the admission document, as a platform that judges would write it
	Document json.RawMessage `json:"document,omitempty"`
}

// Words is the health and the policy.
func (j *GPUJudged) Words() []Line {
	return []Line{line("gpus judged", j.Health, pair("policy ", j.Policy), pair("sha256 ", Digits(j.SHA256)))}
}

// Properties returns the policy and the tables: judgements by different ones cannot be compared.
func (j *GPUJudged) Properties(*Fact) []Property {
	return []Property{
		{ChangePolicy, "gpu_judged.sha256", j.SHA256},
		{ChangePolicy, "gpu_judged.xid_tables", j.Tables},
	}
}
