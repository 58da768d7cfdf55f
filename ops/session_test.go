package ops

import "testing"

// TestCommandIsAboutTheSameNode: a command to paste reaches the same node as this session.
func TestCommandIsAboutTheSameNode(t *testing.T) {
	site := New(Site{Chosen: "lab"})
	s := site.About(Target{Node: "n1", Host: "10.0.0.5"})
	if got, want := s.Command("node", "endpoints", "apply", "--undo"),
		"gpuaasctl node endpoints apply n1 --profile lab --node-host 10.0.0.5 --undo"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := site.Node("n1", "").Command("diag", "trust"), "gpuaasctl diag trust n1 --profile lab"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
