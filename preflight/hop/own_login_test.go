package hop

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/profile"
)

// TestTheLoginOfANodeOfItsOwn: a command to type on a node uses that node's own login settings.
func TestTheLoginOfANodeOfItsOwn(t *testing.T) {
	p := profile.Profile{SSH: profile.SSH{User: "ops"}, Nodes: map[string]profile.Node{
		"n1": {Host: "a"}, "n2": {Host: "b", Port: 2222}, "n3": {Host: "c", Port: 2223, User: "root"},
	}}
	for node, want := range map[string]string{"n1": "ssh ops@a sudo -n", "n2": "ssh -p 2222 ops@b sudo -n",
		"n3": "ssh -p 2223 root@c"} {
		if got := NewSubject(p, node, "", "", "").Expected["ssh"]; got != want {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
}
