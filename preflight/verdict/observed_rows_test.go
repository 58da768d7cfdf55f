package verdict

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

// TestMovedNode: SSH is silent because the running agent does not have the dialled address, unless that may be a NAT's.
func TestMovedNode(t *testing.T) {
	for _, tc := range []struct {
		dialled, books, agent string
		moved                 bool
	}{
		{"10.0.0.5", "10.0.0.5", `["10.0.0.9"]`, true},
		{"10.0.0.5", "10.0.0.5", `["10.0.0.9","10.0.0.5"]`, false},
		{"10.0.0.5", "10.0.0.5", `[]`, false},
		{"203.0.113.5", "203.0.113.5", `["10.0.0.9"]`, false},
		{"10.0.0.5", "10.0.0.6", `["10.0.0.9"]`, false},
		{"node.test", "10.0.0.5", `["10.0.0.9"]`, false},
	} {
		ssh := &diag.Fact{ID: "node_ops_access/ssh", Request: diag.Request{Op: diag.OpSSH}, Failure: diag.TCPTimeout,
			Phase: "tcp",
			TCP:   &diag.TCPFacts{Remote: tc.dialled + ":22"}}
		model := diag.Fact{ID: "node_heartbeat/read_model", At: diag.At(noon), HTTP: &diag.HTTPFacts{Status: 200,
			Fields: map[string]string{
				"node.private_ip": tc.books, "node.agent_addresses": tc.agent, "node.last_seen_at": noon.Format(time.RFC3339)}}}
		task := diag.Fact{ID: "node_task_roundtrip/task", HTTP: &diag.HTTPFacts{Status: 200,
			Fields: map[string]string{"task.status": "completed"}}}
		c := hops.BuiltIn().NewCase(diag.Subject{NodeHost: tc.dialled},
			diag.Plan{Policy: map[string]int64{hop.PolicyStaleAfter: 60}},
			diag.EndedCompleted,
			[]diag.Fact{*ssh, model, task})
		if _, text := moved(c, ssh); (text != "") != tc.moved {
			t.Errorf("%+v: %q", tc, text)
		}
	}
}

// TestObservedRowsAreClosed: every row names a signal and failures that exist, and a field; no two rows are equal.
func TestObservedRowsAreClosed(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range observedRows {
		if len(row.signals) == 0 || row.field == "" || row.holds == nil {
			t.Errorf("%+v", row)
		}
		for _, s := range row.signals {
			if _, ok := diag.LookupSignal(s); !ok {
				t.Errorf("no signal %q", s)
			}
			for _, f := range row.failures {
				if f != diag.OK && !slices.Contains(diag.Failures[:], f) {
					t.Errorf("%s: no failure %q", s, f)
				}
			}
			if key := string(s) + " " + row.field; seen[key] && row.field != "cert.leaf" {
				t.Errorf("%s twice", key)
			} else {
				seen[key] = true
			}
		}
	}
}

// noon is when the facts of tests were measured.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
