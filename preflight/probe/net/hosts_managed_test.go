package net

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/ops/endpoints"
)

// TestManagedBlock: the probe recognizes the block of `gpuaasctl node endpoints`, whatever surrounds it.
func TestManagedBlock(t *testing.T) {
	plan, err := endpoints.Make("127.0.0.1 localhost\n10.0.0.2 hand.test\n",
		[]endpoints.Entry{{Name: "node-api.test", Address: "10.0.0.11"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, managed := range map[string]bool{"node-api.test": true, "hand.test": false} {
		if a := readHosts([]byte(plan.After+"10.0.0.3 later.test\n"), name); len(a.addrs) != 1 || a.managed != managed {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if endpoints.Begin != hostsBegin || endpoints.End != hostsEnd {
		t.Error("two spellings of the markers")
	}
}
