package chaos

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/node"
)

func TestPathsAreTheMachines(t *testing.T) {
	if p := node.HostPaths(); p.State != StateDir || p.Consent != ConsentFile {
		t.Errorf("%+v, want %s and %s", p, StateDir, ConsentFile)
	}
}
