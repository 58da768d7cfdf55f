package ops

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestBuiltInPoliciesAreThoseOfTheProgram: profiles are checked without the program, and so need the same names.
func TestBuiltInPoliciesAreThoseOfTheProgram(t *testing.T) {
	if !slices.Equal(profile.GPUPolicies(), policy.Builtins()) {
		t.Errorf("a profile knows %q, the program %q", profile.GPUPolicies(), policy.Builtins())
	}
	for _, name := range policy.Builtins() {
		if (profile.GPU{Policy: name}).IsFile() {
			t.Errorf("%s is taken for a file", name)
		}
	}
}

// TestOnlyAFileIsAPolicy: reading a policy that is not a regular file does not block.
func TestOnlyAFileIsAPolicy(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/dev/null", "/nowhere/at/all.yaml"} {
		if _, err := readPolicy(path); err == nil || !strings.Contains(err.Error(), "read the policy") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestOwnGPUsNeedsOnlyTheProfile: only the profile decides the address of a node; a node without an address has its own
// error, and is not called unreachable.
func TestOwnGPUsNeedsOnlyTheProfile(t *testing.T) {
	s := New(Site{Profile: profile.Profile{GPU: profile.GPU{Policy: "default"}, SSH: profile.SSH{Port: 1},
		Nodes: map[string]profile.Node{"n1": {Host: "127.0.0.1"}}}})
	for node, want := range map[string]any{"n1": new(*UnreadError), "n2": new(*NoHostError)} {
		if _, err := s.Node(node, "").GPUs(t.Context()); !errors.As(err, want) {
			t.Errorf("%s: %v", node, err)
		}
	}
}
