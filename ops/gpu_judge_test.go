package ops

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestBuiltInPoliciesAreThoseOfTheProgram: a profile is checked without the program, by the same names.
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

// TestOnlyAFileIsAPolicy: what is no regular file is not waited for.
func TestOnlyAFileIsAPolicy(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/dev/null", "/nowhere/at/all.yaml"} {
		if _, err := readPolicy(path); err == nil || !strings.Contains(err.Error(), "read the policy") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
