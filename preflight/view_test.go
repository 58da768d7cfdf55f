package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestWhatOnlyTheAgentSees: where a login's view of the same files is well, nobody enrolls the node again or clears its
// disk: the agent's unit is at fault. Where both fail, the machine is.
func TestWhatOnlyTheAgentSees(t *testing.T) {
	const disk, identity = "node_readiness/disk", "node_recovery_status/identity"
	readOnly := func(f *diag.Fact) { f.Failure, f.Phase, f.Errno = diag.DiskReadOnly, "write", "EROFS" }
	const wait = "node_recovery_status/task_wait"
	noPair := func(f *diag.Fact) { f.Failure, f.Phase, f.HTTP = diag.FileUnparseable, "cert", nil }
	noKey := func(f *diag.Fact) { f.Failure, f.Phase = diag.FileUnparseable, "key" }
	for name, c := range map[string]struct {
		answers     answers
		side        diag.Side
		owner       string
		given, left string
	}{
		"a folder that only the agent may not write": {answers{disk: readOnly}, diag.SideAgent, "node runtime",
			"systemctl cat", "--vacuum-size"},
		"a file system that nobody may write": {answers{disk: readOnly, disk + "~host-view": readOnly}, "",
			"node runtime, observability", "findmnt", "--vacuum-size"},
		"a file system without inodes": {answers{disk: func(f *diag.Fact) {
			f.Failure, f.Phase, f.Errno = diag.DiskInodes, "write", "ENOSPC"
		}, disk + "~host-view": func(f *diag.Fact) { f.Failure, f.Phase, f.Errno = diag.DiskInodes, "write", "ENOSPC" }}, "",
			"node runtime, observability", "df -i", "df -h"},
		"a key that only the agent cannot read": {answers{identity: noKey, wait: noPair}, diag.SideAgent, "node runtime",
			"systemctl cat", "node reenroll"},
		"a key that nobody can read": {answers{identity: noKey, identity + "~host-view": noKey, wait: noPair}, "",
			"PKI, node enrollment", "node reenroll", "systemctl cat"},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, c.answers)
			v := r.Verdict
			if v.Blame == nil || v.Owner != c.owner {
				t.Fatalf("owner %q, want %q\n%s", v.Owner, c.owner, describe(r))
			}
			steps := strings.Join(v.Recovery, "\n")
			if !strings.Contains(steps, c.given) || strings.Contains(steps, c.left) {
				t.Errorf("want %q and no %q:\n%s", c.given, c.left, steps)
			}
			for _, h := range r.Hops {
				if h.ID == v.Blame.Hop && (h.Side != c.side ||
					strings.Contains(h.Text, "a login's view") != (c.side == diag.SideAgent)) {
					t.Errorf("side %q, want %q: %s", h.Side, c.side, h.Text)
				}
			}
			replaysToItself(t, r)
		})
	}
}

// TestNothingWasSent: a credential that the node cannot load is not refused by a listener.
func TestNothingWasSent(t *testing.T) {
	r := walkWith(t, answers{"node_terminal_reachability/stream": func(f *diag.Fact) {
		f.Failure, f.Phase, f.WS, f.HTTP = diag.FileUnparseable, "cert", nil, nil
	}})
	for _, h := range r.Hops {
		if h.ID == diag.HopNodeTerminalReachability && (h.Status != diag.StatusFail || strings.Contains(h.Text, "refuses")) {
			t.Errorf("%s %s", h.Status, h.Text)
		}
	}
}
