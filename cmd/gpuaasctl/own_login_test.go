package main

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestEveryWayToANodeUsesItsOwnLogin: walks, ssh trust and drills get to a node by its own port and user.
func TestEveryWayToANodeUsesItsOwnLogin(t *testing.T) {
	j := &job{}
	j.Env.Profile = profile.Profile{
		SSH: profile.SSH{User: "ops", Port: 22, Identity: "/k"}, PlatformSSH: profile.SSH{Host: "p", User: "edge", Port: 23},
		Nodes: map[string]profile.Node{"n1": {Host: "a", User: "root", Port: 2222}, "n2": {Host: "b"}},
	}
	own, shared := profile.SSH{User: "root", Port: 2222, Identity: "/k"}, profile.SSH{User: "ops", Port: 22, Identity: "/k"}
	for node, want := range map[string]profile.SSH{"n1": own, "n2": shared} {
		j.Env.Subject = preflight.NewSubject(j.Env.Profile, node, "", "", "")
		if got := j.nodeConfig().SSH; got != want {
			t.Errorf("a walk of %s: %+v", node, got)
		}
		if got := nodeConfig(j.Env.Profile, node, "").SSH; got != want {
			t.Errorf("ssh trust %s: %+v", node, got)
		}
		if got := j.machineConfig(chaos.Machine{Role: chaos.RoleNode, ID: node}).SSH; got != want {
			t.Errorf("a drill on %s: %+v", node, got)
		}
	}
	if got := j.machineConfig(chaos.Machine{Role: chaos.RolePlatform, ID: chaos.Platform}).SSH; got != j.Env.Profile.PlatformSSH {
		t.Errorf("a drill on the platform: %+v", got)
	}
}
