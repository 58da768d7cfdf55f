package probe

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestLoginsOwnNetwork: a login in a network namespace measures from the machine's. If it may not leave its own, the
// result is marked as such, and never reported as the machine's.
func TestLoginsOwnNetwork(t *testing.T) {
	tier.NeedsHost(t)
	const inside = "GPUAASCTL_TEST_LOGIN_NETWORK"
	if to := os.Getenv(inside); to != "" {
		loginsNetwork(t, to, os.Getenv(inside+"_BOUND") != "")
		return
	}
	kit.NeedsRoot(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, bound := range map[string]string{"may leave it": "",
		"may not": "setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin"} {
		t.Run(name, func(t *testing.T) {
			// The machine's process 1 is simulated by the first process of a PID namespace, which stays in our network
			// namespace.
			cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
				"unshare --net "+bound+" \"$0\" '-test.run=^TestLoginsOwnNetwork$' -test.v; exit $?", os.Args[0])
			cmd.Env = append(os.Environ(), inside+"="+l.Addr().String(), inside+"_BOUND="+bound)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
				t.Fatalf("in a network of its own: %v\n%s", err, out)
			}
		})
	}
}

// loginsNetwork dials a listener on the machine.
func loginsNetwork(t *testing.T, to string, bound bool) {
	t.Helper()
	fakes := kit.NewFakes(t)
	fakes.Unit(t, "agent.service", "LoadState=loaded", "ActiveState=inactive", "SubState=dead", "MainPID=0")
	c := serving(t, Config{Unit: "agent.service", Exec: insideArgs})
	file := kit.TempFile(t, "text")
	for _, want := range []struct {
		req  diag.Request
		view string
	}{
		{diag.Request{ID: "host", Op: diag.OpTCP, Target: to, View: diag.ViewHost}, ""},
		{diag.Request{ID: "agent", Op: diag.OpTCP, Target: to}, ViewNoProcess},
		{diag.Request{ID: "file", Op: diag.OpFile, Target: file}, ViewNoProcess},
	} {
		view, word := want.view, diag.OK
		if bound && want.req.Op == diag.OpTCP {
			view, word = ViewLoginNetwork, diag.TCPNetUnreachable // its loopback is down
		}
		if f := c.Probe(t.Context(), []diag.Request{want.req})[0]; f.AgentView != view || f.Failure != word {
			t.Errorf("%s: view %q, %q %s; want %q, %q", f.ID, f.AgentView, f.Failure, f.Detail, view, word)
		}
	}
}
