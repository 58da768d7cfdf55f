package scenarios_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
)

// TestTutorial: the drill that docs/write-a-drill.md writes is the one in docs/examples, it reads, and the mistakes
// that the page shows are in these words.
func TestTutorial(t *testing.T) {
	const name = "workload-cut-off.yaml"
	file := filepath.Join("..", "docs", "examples", name)
	text, page := read(t, file), read(t, filepath.Join("..", "docs", "write-a-drill.md"))
	s, err := chaos.Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page, "```yaml\n"+text+"```\n") {
		t.Errorf("the page shows another text than %s", file)
	}
	wrong := strings.NewReplacer("kind: net-block", "kind: net-blok", "detectWithin: 30s", "detectWithin: 2m").
		Replace(text)
	_, err = chaos.Parse(name, []byte(wrong))
	if err == nil {
		t.Fatal("the mistakes are none")
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.Contains(page, "gpuaasctl: "+strings.TrimSuffix(line, "\n")+"\n") {
			t.Errorf("the page does not show: %s", line)
		}
	}
	if !s.NeedsAllocation() || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("needs an allocation %v; %v", s.NeedsAllocation(), err)
	}
	all, err := chaos.Load(os.DirFS(filepath.Dir(file)), filepath.Dir(file))
	if err != nil || len(all) != 1 {
		t.Errorf("%d examples: %v", len(all), err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
