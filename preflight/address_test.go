package preflight

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOnePlaceAddressesThePlatform: only Env.PathURL makes the URL of a request, since it knows what this platform
// does not have. The task of a drill takes the API's URL from its machine.
func TestOnePlaceAddressesThePlatform(t *testing.T) {
	own := map[string]bool{"preflight/hop/env.go": true, "preflight/hop/plan_left.go": true, "chaos/fault_tasks.go": true,
		"chaos/fault_guest_agent.go": true, "chaos/fault_release.go": true, // they refuse if the path is absent
	}
	filled := regexp.MustCompile(`\b(Mapping|m|mapping)\.Path\(`)
	seen := 0
	for _, folder := range []string{"preflight/hop", "preflight/reading", "preflight/world", "preflight/hops",
		"preflight/verdict",
		"preflight/walk", "preflight/compare", "cmd/gpuaasctl", "cmd/gpuaasctl/internal/cmd/*", "ops", "diag/trust",
		"diag/evidence", "chaos", "chaos/remote", "chaos/drill", "ops/endpoints"} {
		files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(filepath.ToSlash(file), "../")
			if strings.HasSuffix(name, "_test.go") || !filled.Match(text) {
				continue
			}
			seen++
			if !own[name] {
				t.Errorf("%s fills in a path of the mapping: use Env.API or Env.URL, which know what is absent", name)
			}
		}
	}
	if seen != len(own) {
		t.Errorf("%d files fill in a path, %d are expected to", seen, len(own))
	}
}
