//go:build linux

package inprocess

import (
	"testing"

	"github.com/skeema/knownhosts"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestLoginFaults: every failure of a login is a fault of this hop only, and hops that need no login are measured
// regardless. Logins without an answer are in package preflight, in virtual time.
func TestLoginFaults(t *testing.T) {
	t.Parallel()
	set := func(f sshtest.Fault) func(*testing.T, *world) {
		return func(_ *testing.T, w *world) { w.ssh.Set(f) }
	}
	for _, f := range []fault{
		{name: "garbage for a banner", options: options{ssh: sshtest.Config{Words: "220 mail.test ESMTP\r\n"}},
			do: set(sshtest.Words), failure: diag.SSHTransport, confidence: diag.Likely},
		{name: "turned away", options: options{ssh: sshtest.Config{Words: "Not allowed at this time\r\n"}},
			do: set(sshtest.Words), failure: diag.SSHPenalty, confidence: diag.Likely},
		{name: "closed at once", do: set(sshtest.CloseAtOnce), failure: diag.SSHTransport, confidence: diag.Likely},
		{name: "rejects the key", do: set(sshtest.RejectAuth), failure: diag.SSHAuth, confidence: diag.Likely},
		{name: "closes on the key", do: set(sshtest.CloseAtAuth), failure: diag.SSHTransport, confidence: diag.Likely},
		{name: "refuses the channel", do: set(sshtest.RefuseOpen), failure: diag.SSHExec, confidence: diag.Likely},
		{name: "refuses commands", do: set(sshtest.RefuseExec), failure: diag.SSHExec, confidence: diag.Likely},
		{name: "closes at the command", do: set(sshtest.CloseAtExec), failure: diag.SSHExec, confidence: diag.Likely},
		{name: "forced command", options: options{ssh: sshtest.Config{Words: "echo this account is for backups"}},
			do: set(sshtest.ForcedCommand), failure: diag.SSHExec, confidence: diag.Likely},
		{name: "nobody listens", do: func(t *testing.T, w *world) {
			w.ssh = sshtest.Nobody(t)
			w.writeProfile(options{})
		}, failure: diag.TCPRefused, confidence: diag.Likely},
		{name: "host key changed", do: func(t *testing.T, w *world) {
			other := sshtest.NewKey(t)
			write(t, w.load(t).SSH.KnownHosts, knownhosts.Line([]string{w.ssh.Addr}, other.PublicKey())+"\n")
		}, failure: diag.SSHHostKey, confidence: diag.Observed},
	} {
		f.hop, f.signal, f.green, f.options.process = diag.HopNodeOpsAccess, diag.SigOpsSSHFailed, remote, true
		t.Run(f.name, f.run)
	}
}

// load is the world's profile as the walk reads it.
func (w *world) load(t testing.TB) profile.Profile {
	t.Helper()
	p, _, err := profile.Load(w.profile, profile.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNoSystemd: without systemd the state of units is unknown, so neither health nor a fault is claimed.
func TestNoSystemd(t *testing.T) {
	t.Parallel()
	w := start(t, options{})
	w.agent.mute(t)
	w.workload.mute(t)
	r := w.walk(t)
	if r.Verdict.Outcome != diag.OutcomeInconclusive || r.Verdict.Blame != nil {
		t.Errorf("outcome %s, blame %v\n%s", r.Verdict.Outcome, r.Verdict.Blame, describe(r))
	}
	for _, id := range []diag.HopID{diag.HopNodeReadiness, diag.HopAppRuntimeLiveness} {
		if h := resultOf(t, r, id); h.Status != diag.StatusInconclusive || h.Because == "" {
			t.Errorf("%s is %s %q", id, h.Status, h.Because)
		}
	}
	if h := resultOf(t, r, diag.HopNodeRecoveryStatus); h.Status != diag.StatusPass {
		t.Errorf("%s is %s: %s%s", h.ID, h.Status, h.Text, h.Because)
	}
}

// TestSubjectUnknown: a node or an allocation that the platform does not have is reported as unknown, and not blamed
// on others.
func TestSubjectUnknown(t *testing.T) {
	t.Parallel()
	w := start(t, options{platform: func(o *platformtest.Options) { o.Allocations[0].ID = "alloc-other" }})
	r := w.walk(t)
	v := r.Verdict
	if h := resultOf(t, r, diag.HopAllocationBinding); v.Outcome != diag.OutcomeInconclusive ||
		h.Signal != diag.SigAllocationUnknown || v.Because != h.Because {
		t.Errorf("\n%s", describe(r))
	}
}
