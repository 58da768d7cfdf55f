package diag

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

var filledValues = MapValues(map[string]string{
	"node_id": "compute-node-01", "node_host": "10.0.0.7", "profile": "my lab",
	"api_url": "https://node-api.gpuaas.test", "terminal_url": "https://term.gpuaas.test:18443/x",
	"ssh": "ssh -p 2222 ops@10.0.0.7 sudo -n", "os_user": "al ice; reboot", "unit": "",
})

func TestFill(t *testing.T) {
	for in, want := range map[string]string{
		"node {node_id}":               "node compute-node-01",
		"profile {profile}":            "profile my lab",
		"a[, session {session_id},] b": "a b",
		"[session {session_id}|the session of {node_id}|x] b":   "the session of compute-node-01 b",
		"[session {session_id}|correlation {correlation_id}] b": " b",
		"keeps {unknown} and { alone":                           "keeps {unknown} and { alone",
		"a {session_id} b":                                      "",
	} {
		got, ok := fillText(in, filledValues, nil)
		if ok != (want != "") || (ok && got != want) {
			t.Errorf("fillText(%q)\n got %s, %v\nwant %s", in, got, ok, want)
		}
	}
}

func TestFillCommand(t *testing.T) {
	const walk = "gpuaasctl preflight --profile 'my lab' --node-id compute-node-01"
	for in, want := range map[string]string{
		"gpuaasctl --profile {profile}": "gpuaasctl --profile 'my lab'",
		"curl {api_host} {api_addr} {terminal_addr}": "curl node-api.gpuaas.test " +
			"node-api.gpuaas.test:443 term.gpuaas.test:18443",
		"{ssh} true": "ssh -p 2222 ops@10.0.0.7 sudo -n true",
		"{exec} getent passwd {os_user}": "gpuaasctl ssh exec compute-node-01 --profile 'my lab' -- " +
			"getent passwd 'al ice; reboot'",
		"{preflight} --only x":                                    walk + " --only x",
		"{preflight} --allocation-id {os_user} --only x":          walk + " --allocation-id 'al ice; reboot' --only x",
		"journalctl -u {unit}":                                    "journalctl -u gpuaas-node-agent.service",
		"gpuaasctl diag timeline {target} --session {session_id}": "",
	} {
		if got, ok := FillCommand(in, filledValues); got != want || ok != (want != "") {
			t.Errorf("FillCommand(%q)\n got %s, %v\nwant %s", in, got, ok, want)
		}
	}
}

func TestFillLeavesOutWhatQuotingCannotMakeSafe(t *testing.T) {
	for _, bad := range []string{"-oProxyCommand=reboot", "a\nb", "\x1b[2J", "`reboot`"} {
		if got, ok := FillCommand("ssh {node_host}", MapValues(map[string]string{"node_host": bad})); ok || got != "" {
			t.Errorf("%q gives %q", bad, got)
		}
	}
}

// TestStepWithoutAValue: a step of any table has all its commands or none, and is still a sentence without any value:
// nothing is left of a template, and no command has a word that a shell takes for a redirection.
func TestStepWithoutAValue(t *testing.T) {
	for name, vars := range map[string]Values{"nothing": nil, "general": General, "some": filledValues} {
		for _, step := range tableSteps() {
			next, ok := step.Filled(vars)
			n, all := len(next.Commands()), len(step.Commands)
			if !ok || (n != all && (n != 0 || name == "general")) {
				t.Errorf("%s: %q has the text %v, %d of %d commands", name, step.Text, ok, n, len(step.Commands))
			}
			if left := strings.IndexAny(next.Text+strings.Join(next.Commands(), ""), "<>{}|[]"); left >= 0 {
				t.Errorf("%s: %q", name, next.Prose())
			}
			if strings.Contains(next.Text, "  ") || strings.HasSuffix(next.Text, " ") {
				t.Errorf("%s: %q has a gap", name, next.Text)
			}
		}
	}
}

// tableSteps returns the steps of all tables in this package.
func tableSteps() (all []Step) {
	for _, row := range Signals() {
		all = append(all, row.Recovery...)
	}
	for i := range lackRows {
		all = append(all, lackRows[i].Recovery...)
	}
	for i := range causeSteps {
		all = append(all, causeSteps[i].step)
	}
	return append(all, stepCause, stepConsole, stepAPIFirst, stepBundle, stepReadReport)
}

// FuzzQuote runs quoted text through a real shell, quoted once and twice.
func FuzzQuote(f *testing.F) {
	tier.NeedsHost(f)
	for _, s := range []string{"", "a", "a b", "it's", `"$(reboot)"`, "\\", "*", "~", "a;b|c&d", "ä–", "-n", "\t\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) {
			t.Skip("no argument holds NUL")
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s. "+Quote(s)).Output()
		if err != nil || string(out) != s+"." {
			t.Fatalf("one shell made %q of %q (%v)", out, s, err)
		}
		out, err = exec.CommandContext(t.Context(), "sh", "-c", "sh -c "+Quote("printf %s. "+Quote(s))).Output()
		if err != nil || string(out) != s+"." {
			t.Fatalf("two shells made %q of %q (%v)", out, s, err)
		}
	})
}
