package scenarios_test

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

func TestEveryFileReads(t *testing.T) {
	all, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 53 {
		t.Errorf("%d drills", len(all))
	}
}

// labWords name what only the lab's machines have: programs, units, folders, addresses.
var labWords = []string{"nginx", "redis", "dnsmasq", "gpuaas-platform", "gpuaas-agent-", "/etc/gpuaas", "gpuaas-lab",
	"gpu-fake", "nvml", "compute-node", "bare-node", "127.0.0.1:80", "10.231.77.", ".gpuaas.test", "user: gpuaas"}

// TestLabWordsAreInTheLabsDrillsOnly: a drill names the lab's own things if and only if it lies below lab/.
func TestLabWordsAreInTheLabsDrillsOnly(t *testing.T) {
	for dir, want := range map[string]bool{".": false, "lab": true} {
		names, err := fs.Glob(scenarios.Files, path.Join(dir, "*.yaml"))
		if err != nil || len(names) < 15 {
			t.Fatalf("%d drills in %s, %v", len(names), dir, err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(scenarios.Files, name)
			if err != nil {
				t.Fatal(err)
			}
			if word := labWord(string(text)); (word != "") != want {
				t.Errorf("%s: lab word %q; a drill of the lab lies below lab/, and another names variables of the profile", name,
					word)
			}
		}
	}
}

func labWord(text string) string {
	for _, w := range labWords {
		if strings.Contains(strings.ToLower(text), w) {
			return w
		}
	}
	return ""
}

func TestLabWord(t *testing.T) {
	for text, want := range map[string]string{
		"unit: nginx.service": "nginx", `probe: [redis-cli, ping]`: "redis", "kind: gpu-fake": "gpu-fake",
		"probe: [curl, \"http://127.0.0.1:8080\"]":            "127.0.0.1:80",
		"probe: [curl, \"http://127.0.0.1:${app_port}/\"]":    "",
		"probe: [cat, \"/var/lib/gpuaasctl/drill/${run}/x\"]": "",
	} {
		if got := labWord(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
