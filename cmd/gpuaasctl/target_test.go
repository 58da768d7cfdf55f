package main

import "testing"

// TestAgainIsTheSameNode: a command to paste reaches the node that this one reached.
func TestAgainIsTheSameNode(t *testing.T) {
	j := &job{profileArg: "lab", hostArg: "10.0.0.5"}
	j.Env.Subject.NodeID = "n1"
	if got, want := j.again("node", "endpoints", "apply", "--undo"), "gpuaasctl node endpoints apply n1 --profile lab --node-host 10.0.0.5 --undo"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	j.hostArg = ""
	if got, want := j.again("diag", "trust"), "gpuaasctl diag trust n1 --profile lab"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
