package host

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// TestUnitAtItsLimit: a main process that has exhausted its open files, and one that has not.
func TestUnitAtItsLimit(t *testing.T) {
	full := kit.WaitingIn(t, []string{"env"}, ":")
	open := openFilesOf(full)
	if err := unix.Prlimit(full, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(open), Max: uint64(open)}, nil); err != nil {
		t.Fatal(err)
	}
	s := unitShortage(full, host.Unit{})
	if s == nil || s.Resource != diag.OpenFiles || s.Scope != diag.ScopeProcess || *s.Limit != open || *s.Used != open ||
		s.Holders[0].Name != "cat" {
		t.Errorf("at its limit: %+v", s)
	}
	if s := unitShortage(kit.WaitingIn(t, []string{"env"}, ":"),
		host.Unit{"TasksCurrent": "[not set]", "TasksMax": "28909"}); s != nil {
		t.Errorf("with room: %+v", s)
	}
	s = unitShortage(kit.WaitingIn(t, []string{"env"}, ":"), host.Unit{"TasksCurrent": "6", "TasksMax": "6"})
	if s == nil || s.Resource != diag.Processes || *s.Limit != 6 {
		t.Errorf("tasks: %+v", s)
	}
}

// TestConfinementOfAUnit reads systemd's spellings.
func TestConfinementOfAUnit(t *testing.T) {
	p := &Prober{}
	pid := kit.WaitingIn(t, []string{"env"}, ":", "HTTPS_PROXY=http://login:secret@proxy.test:3128")
	c := p.confinement(kit.Patient(t), pid,
		host.Unit{"RestrictAddressFamilies": "~", "PrivateNetwork": "no", "JoinsNamespaceOf": "other.service"})
	if c == nil || !slices.Equal(c.Proxies, []string{"HTTPS_PROXY"}) || c.AddressFamilies != "" ||
		c.JoinsNetworkOf != "" || c.OwnNetwork {
		t.Errorf("%+v", c)
	}
	if c := p.confinement(kit.Patient(t), kit.WaitingIn(t, []string{"env"}, ":"), host.Unit{}); c != nil {
		t.Errorf("nothing set: %+v", c)
	}
	for value, want := range map[string]bool{
		"": false, "~": false, "~mount umount2": false, "~connect": true, "~socket:EPERM": true,
		"read write socket connect": false, "read write socket": true, "read write": true,
	} {
		if got := filtersSockets(value); got != want {
			t.Errorf("SystemCallFilter=%s: %t", value, got)
		}
	}
	kit.NeedsRoot(t)
	alone := kit.WaitingIn(t, []string{"unshare", "-n"}, ":")
	if c := p.confinement(kit.Patient(t), alone,
		host.Unit{"PrivateNetwork": "yes", "RestrictAddressFamilies": "none"}); c == nil || !c.OwnNetwork ||
		!c.PrivateNetwork || c.AddressFamilies != "none" {
		t.Errorf("alone: %+v", c)
	}
}
