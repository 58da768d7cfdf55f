//go:build linux

package inprocess

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/trust"
	"github.com/gpuaas/gpuaasctl/ops/endpoints"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// explainTrust measures and explains as `diag trust` does.
func (w *world) explainTrust(t *testing.T) *trust.Report {
	t.Helper()
	j := w.prepare(t)
	ctx, cancel := context.WithTimeout(t.Context(), walkLimit)
	defer cancel()
	e, places := &j.env, map[string]hop.Vantage{hop.Operator: j.operator, hop.Node: j.node}
	plan := hops.BuiltIn().NewPlan(e.Profile, e.Subject, hop.Options{Token: true, SSH: true, Only: []diag.HopID{
		diag.HopControlPlaneAccess, diag.HopNodeHeartbeat, diag.HopNodeOpsAccess, diag.HopNodeRuntimeAPI,
		diag.HopNodeRecoveryStatus, diag.HopNodeTerminalReachability,
	}})
	facts, _ := walk.Walk(ctx, e, plan, places, nil)
	ask := func(qs []trust.Question) {
		for _, q := range qs {
			facts = append(facts, places[q.From].Probe(ctx, []diag.Request{q.Request})...)
		}
	}
	ask(trust.Ask(e.Subject, e.NodeCA, e.Profile.Trust.NodeCA))
	ask(trust.AskNext(e.Subject, facts))
	for _, v := range places {
		closeVantage(t, v)
	}
	return trust.Explain(e.Subject, facts)
}

func link(t *testing.T, r *trust.Report, id string) trust.Link {
	t.Helper()
	i := slices.IndexFunc(r.Links, func(l trust.Link) bool { return l.ID == id })
	if i < 0 {
		t.Fatalf("no link %s", id)
	}
	return r.Links[i]
}

// TestTrust: a real agent at a real platform matches; then one part changes, and exactly that part is named.
func TestTrust(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, first string
		cause       trust.Cause
		do          func(t *testing.T, w *world)
	}{
		{name: "healthy"},
		{"stale bundle", "leaf_issuer_in_node_bundle", trust.CauseBundle, func(t *testing.T, w *world) {
			// some other CA
			if err := os.WriteFile(filepath.Join(w.dir, "ca-bundle.crt"), w.platform.SigningCA(), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{"ingress takes another CA", "signing_ca_in_ingress_ca", trust.CauseIngress, func(t *testing.T, w *world) {
			w.platform.WriteIngressCA([]byte(w.platform.CAPEM))
			w.platform.Ingress.Trust([]byte(w.platform.CAPEM))
		}},
		{"ingress not reloaded", "node_cert_accepted_by_ingress", trust.CauseIngress, func(_ *testing.T, w *world) {
			w.platform.Ingress.Trust([]byte(w.platform.CAPEM)) // the platform's file still has the right one
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := start(t, options{})
			if tc.do != nil {
				tc.do(t, w)
			}
			r := w.explainTrust(t)
			v := r.Verdict
			if v.First != tc.first || v.Cause != tc.cause {
				t.Errorf("first %q, cause %q: %s", v.First, v.Cause, v.Text)
				for _, l := range r.Links {
					t.Logf("%-32s %-8s %-16s %s", l.ID, l.Status, l.Cause, l.Text)
				}
			}
			if l := link(t, r, "leaf_issuer_in_recovery_bundle"); l.Status != trust.NotSet {
				t.Errorf("this node has no recovery bundle, and the link says %s %s", l.Status, l.Text)
			}
		})
	}
}

// TestEndpointsOverSSH runs the scripts over the node's vantage: their output is complete although the login
// prints a greeting to the same stream, and an argument is passed unchanged whatever it contains.
func TestEndpointsOverSSH(t *testing.T) {
	t.Parallel()
	w := start(t, options{noAgent: true})
	j := w.prepare(t)
	node, ok := j.node.(*vantage.Node)
	if !ok {
		t.Fatal("the node's vantage is of another kind")
	}
	defer func() { _ = node.Close() }()
	dir := filepath.Join(t.TempDir(), "it's $(a) folder")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	hosts, log := filepath.Join(dir, "hosts"), filepath.Join(dir, "log", "endpoints.log")
	text := strings.Repeat("10.0.0.1 x # é\n", 5000)
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(script string, input string, args ...string) []string {
		said, err := node.Run(t.Context(), vantage.Script{Text: script, Args: args, Input: []byte(input)})
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	s, err := endpoints.ParseRead(run(endpoints.ReadScript, "", hosts, log))
	if err != nil || s.Text != text {
		t.Fatalf("%v: %d bytes", err, len(s.Text))
	}
	p, err := endpoints.Make(s.Text, []endpoints.Entry{{Name: "node-api.test", Address: "10.0.0.11"}})
	if err != nil {
		t.Fatal(err)
	}
	said := run(endpoints.ApplyScript, p.After, hosts, endpoints.Hash(text), endpoints.Hash(p.After), log,
		`{"by":"it's $(me)"}`)
	if err := endpoints.ParseApply(said, endpoints.Hash(p.After)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(log); err != nil || string(got) != `{"by":"it's $(me)"}`+"\n"+
		`{"by":"it's $(me)","done":true}`+"\n" {
		t.Errorf("the log says %q, %v", got, err)
	}
}
