package ops

import (
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestEveryWayToANodeUsesItsOwnLogin: walks, host key checks and drills use the node's own port and user.
func TestEveryWayToANodeUsesItsOwnLogin(t *testing.T) {
	s := New(Site{Profile: profile.Profile{
		SSH: profile.SSH{User: "ops", Port: 22, Identity: "/k"}, PlatformSSH: profile.SSH{Host: "p", User: "edge", Port: 23},
		Nodes: map[string]profile.Node{"n1": {Host: "a", User: "root", Port: 2222}, "n2": {Host: "b"}},
	}})
	own, shared := profile.SSH{User: "root", Port: 2222, Identity: "/k"},
		profile.SSH{User: "ops", Port: 22, Identity: "/k"}
	for node, want := range map[string]profile.SSH{"n1": own, "n2": shared} {
		if got := s.Node(node, "").nodeConfig().SSH; got != want {
			t.Errorf("a walk of %s: %+v", node, got)
		}
		if got := s.Host(node, "").SSH; got != want {
			t.Errorf("the host key of %s: %+v", node, got)
		}
		if got := s.machineConfig(chaos.Machine{Role: chaos.RoleNode, ID: node}).SSH; got != want {
			t.Errorf("a drill on %s: %+v", node, got)
		}
	}
	if got := s.machineConfig(chaos.Machine{Role: chaos.RolePlatform, ID: chaos.Platform}).
		SSH; got != s.Profile.PlatformSSH {
		t.Errorf("a drill on the platform: %+v", got)
	}
}

// TestTrustOfADrillsMachine: the command that accepts an unknown host key reaches the same machine.
func TestTrustOfADrillsMachine(t *testing.T) {
	s := New(Site{Chosen: "two", Profile: profile.Profile{
		Name: "two", Nodes: map[string]profile.Node{"n1": {Host: "192.0.2.1"}}, SSH: profile.SSH{User: "ops"},
		PlatformSSH: profile.SSH{Host: "192.0.2.9", User: "root"},
	}})
	for _, m := range s.Machines() {
		drills, trusted := s.machineConfig(m), s.Host(m.ID, "")
		if drills.Host != trusted.Host || drills.SSH.User != trusted.SSH.User ||
			!slices.Equal(drills.TrustArgs, []string{"--profile", "two"}) {
			t.Errorf("%s: a drill goes to %s@%s, `ssh trust %s %v` to %s@%s",
				m.ID, drills.SSH.User, drills.Host, m.ID, drills.TrustArgs, trusted.SSH.User, trusted.Host)
		}
	}
}
