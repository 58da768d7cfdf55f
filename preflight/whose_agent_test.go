package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/profile"
)

const identityFact, binaryFact = "node_recovery_status/identity", "node_readiness/binary"

// ours is the node's program, which is gpuaas-agent, or another one that the profile declares.
func ours(is bool) func(*diag.Fact) {
	return func(f *diag.Fact) {
		if f.Binary.OurAgent = &is; !is {
			f.Request.Target, f.Request.Unit = "/opt/worker", "worker.service"
		}
	}
}

// TestWhoseFilesAreMissing: gpuaas-agent needs its files, so they are gone, also while it still reports by what it has
// read. Another agent that works has others, or needs none: the profile does not describe it, and nobody re-enrolls it.
func TestWhoseFilesAreMissing(t *testing.T) {
	noCert, noBundle := failWith(diag.FileMissing, "cert"), failWith(diag.FileMissing, "trust")
	asksNone := func(f *diag.Fact) {
		no := false
		f.Failure, f.Phase, f.HTTP = "", "", &diag.HTTPFacts{Status: 200}
		f.TLS = &diag.TLSFacts{Verified: true, CertRequested: &no}
	}
	wait := "node_recovery_status/task_wait"
	hidden := func(id string, a answers) answers { // a login sees the same
		out := answers{}
		for k, v := range a {
			out[k] = v
			if k == id || k == reach {
				out[k+"~host-view"] = v
			}
		}
		return out
	}
	both := hidden(identityFact, answers{identityFact: noCert, reach: noBundle, wait: noCert, streamFact: noCert})
	for name, tc := range map[string]struct {
		answers answers
		want    diag.Outcome
		text    string // of the blame, or why there is none
		owner   string
	}{
		"ours, its folder is gone": {with(both, answers{binaryFact: ours(true)}), diag.OutcomeFail,
			"neither /etc/gpuaas/cert.pem nor /etc/gpuaas/ca-bundle.crt is on the node, and its agent is gpuaas-agent, " +
				"which needs both to start; it still reports", "node runtime, node enrollment"},
		"another, its folder is elsewhere": {with(both, answers{binaryFact: ours(false)}), diag.OutcomeInconclusive,
			"has neither /etc/gpuaas/cert.pem nor /etc/gpuaas/ca-bundle.crt, while the agent of node-1 reports", ""},
		"unknown, its folder is elsewhere": {both, diag.OutcomeInconclusive, "has neither", ""},
		"another, with a bundle and no certificate": {with(answers{identityFact: noCert, wait: noCert, streamFact: noCert,
			reach: asksNone}, answers{binaryFact: ours(false)}), diag.OutcomeInconclusive,
			"its API asks for no certificate: if agents of this platform have none, set mapping.paths.task_wait", ""},
		"another, with its certificate elsewhere": {answers{identityFact: noCert, wait: noCert, streamFact: noCert,
			binaryFact: ours(false)}, diag.OutcomeInconclusive, "has no /etc/gpuaas/cert.pem, while", ""},
		"another, which trusts the host's roots": {answers{reach: noBundle, wait: noBundle, streamFact: noBundle,
			binaryFact: ours(false)}, diag.OutcomeInconclusive, "has no /etc/gpuaas/ca-bundle.crt, while", ""},
		"ours, its certificate is gone": {hidden(identityFact, answers{identityFact: noCert, wait: noCert,
			binaryFact: ours(true)}), diag.OutcomeFail, "the node's own credential is not usable: file_missing",
			"PKI, node enrollment"},
	} {
		r := walkWith(t, tc.answers)
		v := r.Verdict
		text := describe(r)
		if v.Blame != nil {
			text = v.Blame.Text
		}
		if v.Outcome != tc.want || !strings.Contains(text, tc.text) || (tc.owner != "" && v.Owner != tc.owner) {
			t.Errorf("%s: %s by %s, %+v\n%s", name, v.Outcome, v.Owner, v.Blame, describe(r))
		}
		if tc.want == diag.OutcomeInconclusive && strings.Contains(strings.Join(v.Recovery, " "), "reenroll") {
			t.Errorf("%s: %q", name, v.Recovery)
		}
	}
}

// TestNoCertificateIsAskedFor: where the platform has no path that takes a client certificate, none is read, and a node
// without one passes. Where it has one such path, it is.
func TestNoCertificateIsAskedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		paths []string
		asked bool
	}{
		"both":                 {nil, true},
		"without a task wait":  {[]string{profile.PathTaskWait}, true},
		"without a stream":     {[]string{profile.PathNodeTerminal}, true},
		"without both of them": {[]string{profile.PathTaskWait, profile.PathNodeTerminal}, false},
	} {
		e := testEnv()
		for _, p := range tc.paths {
			e.Profile.Mapping.Paths[p] = profile.Absent
		}
		world := answers{binaryFact: ours(false)}
		if !tc.asked {
			world[identityFact] = failWith(diag.FileMissing, "cert")
		}
		vantages := map[string]hop.Vantage{}
		for _, v := range []string{hop.Operator, hop.Node, hop.Platform} {
			vantages[v] = &scripted{name: v, answers: world}
		}
		r := inMadeUpTime(t, func(t *testing.T) *diag.Report { return walkFrom(t.Context(), e, vantages) })
		asked := false
		for _, f := range r.Facts {
			asked = asked || f.ID == identityFact
		}
		if h := hopOf(r, diag.HopNodeRecoveryStatus); asked != tc.asked || h.Status == diag.StatusFail ||
			(!tc.asked && h.Text != "the running agent's settings agree with the profile") {
			t.Errorf("%s: asked %t, %s: %s%s", name, asked, h.Status, h.Text, h.Because)
		}
		if k := r.Classification; k != nil && k.NeedsSomebody() {
			t.Errorf("%s: %s", name, k.Reason)
		}
	}
}
