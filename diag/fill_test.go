package diag

import (
	"os/exec"
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	vars := map[string]string{
		"node_id": "compute-node-01", "node_host": "10.0.0.7", "profile": "my lab",
		"api_url": "https://node-api.gpuaas.test", "terminal_url": "https://term.gpuaas.test:18443/x",
		"ssh": "ssh -p 2222 ops@10.0.0.7 sudo -n", "os_user": "al ice; reboot", "unit": "",
	}
	for _, c := range []struct{ in, want string }{
		{"node {node_id}", "node compute-node-01"},
		{"a {session_id} b", "a <session_id> b"},
		{"profile {profile}", "profile my lab"},
		{"`gpuaasctl --profile {profile}`", "`gpuaasctl --profile 'my lab'`"},
		{"`curl {api_host} {api_addr} {terminal_addr}`",
			"`curl node-api.gpuaas.test node-api.gpuaas.test:443 term.gpuaas.test:18443`"},
		{"`{ssh} true`", "`ssh -p 2222 ops@10.0.0.7 sudo -n true`"},
		{"`{exec} getent passwd {os_user}`",
			"`gpuaasctl ssh exec compute-node-01 --profile 'my lab' -- getent passwd 'al ice; reboot'`"},
		{"`{preflight} --only x`", "`gpuaasctl preflight --profile 'my lab' --node-id compute-node-01 --only x`"},
		{"{preflight} --allocation-id {os_user} --only x",
			"gpuaasctl preflight --profile 'my lab' --node-id compute-node-01 --allocation-id 'al ice; reboot' --only x"},
		{"keeps {unknown} and { alone", "keeps {unknown} and { alone"},
	} {
		if got := Fill(c.in, Given(vars)); got != c.want {
			t.Errorf("Fill(%q)\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

func TestFillLeavesOutWhatQuotingCannotMakeSafe(t *testing.T) {
	for _, bad := range []string{"-oProxyCommand=reboot", "a\nb", "\x1b[2J", "`reboot`"} {
		if got := Fill("`ssh {node_host}`", Given(map[string]string{"node_host": bad})); got != "`ssh <node_host>`" {
			t.Errorf("%q gives %q", bad, got)
		}
	}
}

// FuzzQuote runs quoted text through a real shell, quoted once and twice.
func FuzzQuote(f *testing.F) {
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
