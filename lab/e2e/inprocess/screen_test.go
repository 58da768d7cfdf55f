//go:build linux

package inprocess

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/tools/testkit/screentest"
)

// onTerminal starts the built program on a terminal.
func onTerminal(t *testing.T, tool string, argv ...string) *screentest.Terminal {
	t.Helper()
	cmd := exec.Command(tool, argv...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "TERM=xterm", "LC_ALL=C.UTF-8"}
	return screentest.Start(t, cmd)
}

// TestWalkAgainFromTheExplorer opens a report of an old fault; the key r then walks the hop in the current world.
func TestWalkAgainFromTheExplorer(t *testing.T) {
	t.Parallel()
	tool := build(t)
	w := start(t, options{})
	w.agent.run(t, "failed/failed")
	bad := w.walk(t)
	if resultOf(t, bad, diag.HopNodeReadiness).Status != diag.StatusFail {
		t.Fatalf("the agent's unit failed, and the walk does not see it:\n%s", describe(bad))
	}
	file := filepath.Join(t.TempDir(), "report.json")
	text, err := json.Marshal(bad)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(text))
	w.agent.run(t, "active/running")

	s := onTerminal(t, tool, "preflight", "view", file, "--profile", w.profile, "--deadline", walkLimit.String())
	s.Await("› ✘  5 node_readiness")
	s.Press("r")
	s.Await("now ✔")
	s.Await("walked again: 5 node_readiness ✔")
	s.Press("g") // the walk as a whole is not repeated
	s.Await("› ✘ the walk")
	s.Press("r")
	s.Await("choose a hop")
	s.Press("b")
	s.Await("› ✘  5 node_readiness") // the report is unchanged
	w.agent.run(t, "failed/failed")  // once more
	s.Press("r")
	s.Await("now ✘")
	s.Press("q")
	s.Ends(0)
}

// TestWatchOfARecord: on a terminal, watching the record shows a screen that follows the agent's writes, survives
// a broken connection, and ends with the terminal.
func TestWatchOfARecord(t *testing.T) {
	t.Parallel()
	tool := build(t)
	w := start(t, options{})
	folder := w.load(t).Agent.Record
	agent := recorder.Open(recorder.Config{Dir: folder, Boot: "4c7f9f2e-0000-4000-8000-000000000001", NodeID: nodeID})
	defer agent.Close()
	decide := func(e diag.RecordEntry) {
		t.Helper()
		if err := agent.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	refused := diag.RecordEntry{Reason: diag.RecAPIUnreachable, About: "heartbeat", Decision: "retry", Attempt: 1,
		Failure: diag.TCPRefused, Detail: "connect: connection refused"}
	decide(refused)

	argv := []string{"diag", "watch", nodeID, "--profile", w.profile, "--every", "200ms", "--deadline", walkLimit.String()}
	s := onTerminal(t, tool, argv...)
	s.Await("record of " + nodeID)
	s.Await("api_unreachable")
	s.Press("j")
	s.Await("connection refused")
	decide(diag.RecordEntry{Reason: diag.RecServerTLSUntrusted, About: "heartbeat", Decision: "retry", Attempt: 1,
		Failure: diag.TLSUnknownCA, Detail: "signed by nobody that is known"})
	s.Await("server_tls_untrust") // as far as there is room
	s.Await("› ✘")                // the selected row stays selected
	s.Press("e")
	s.Await("[api_unreachable]")
	s.Press("\x1b[A\x1b[A") // up twice: the record as a whole
	s.Await("› ✔ the record")
	w.ssh.Drop()
	decide(diag.RecordEntry{About: "heartbeat", Decision: record.DecisionContact})
	s.Await("heartbeat contact")
	s.Press("1")
	s.Await("copied [1]: gpuaasctl diag show " + nodeID)
	s.Press("q")
	s.Ends(0)

	s = onTerminal(t, tool, argv...)
	s.Await("record of " + nodeID)
	s.Press("\x03")
	s.Ends(130)

	s = onTerminal(t, tool, argv...)
	s.Await("record of " + nodeID)
	s.Close()
	s.Ends(130)
}
