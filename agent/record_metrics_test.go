package agent

import (
	"os"
	"strings"
	"testing"
)

// TestEveryCounterIsPrinted: each counter of the agent, as its heartbeats report them, is in the textfile and in the
// docs.
func TestEveryCounterIsPrinted(t *testing.T) {
	page, err := os.ReadFile("../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	counters, printed := (&State{}).counters(), map[string]bool{}
	text := metricsText(WriteMetrics{Counters: counters})
	for _, m := range metrics {
		printed[m.counter] = true
		if _, ok := counters[m.counter]; !ok {
			t.Errorf("%s is printed and never counted", m.counter)
		}
		if !strings.Contains(text, "# HELP "+m.name+" "+m.help+"\n# TYPE "+m.name+" counter\n"+m.name+" ") {
			t.Errorf("no %s in\n%s", m.name, text)
		}
		short := strings.TrimPrefix(m.name, "gpuaas_agent_enrollment") // as the table abbreviates it
		if !strings.Contains(string(page), "`"+m.name+"`") && !strings.Contains(string(page), "`"+short+"`") {
			t.Errorf("docs/contract.md has no `%s`", m.name)
		}
	}
	for name := range counters {
		if !printed[name] {
			t.Errorf("%s is counted and not printed", name)
		}
	}
}
