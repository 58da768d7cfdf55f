package remote

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestHereGetsNoSecrets: a drill's program on the operator's machine gets nothing of the operator's environment
// except PATH.
func TestHereGetsNoSecrets(t *testing.T) {
	tier.NeedsHost(t)
	for _, key := range []string{"GPUAASCTL_TOKEN", "SSH_AUTH_SOCK", "HOME", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(key, "of the operator")
	}
	out, err := Local().Exec(t.Context(), step.Exec{Argv: []string{"env"}})
	if err != nil || out.Code != 0 {
		t.Fatal(out, err)
	}
	var keys []string
	for line := range strings.Lines(out.Text) {
		key, _, _ := strings.Cut(line, "=")
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"LC_ALL", "PATH"}) {
		t.Errorf("it gets %v", keys)
	}
}
