//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/golden"
	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// fault is injected and reverted manually, by shell commands on the machine with its own tools. check succeeds
// only while the fault is in effect, and never uses the project's own probes.
type fault struct {
	on       string
	do, undo string
	check    string
	prepare  func(t *testing.T, l *lab.Lab, machine string) // files that the fault needs on the walked node
	and      *fault                                         // also injected on another machine

	// noSecond: the second opinion does not see the fault, since it probes from a login and one file system, or
	// would trigger it again in its own session. In that case check asks the affected component: the agent's
	// journal, or the kernel.
	noSecond bool
}

// eventually repeats a check until it succeeds: a restarted unit takes a moment. It gives up before `on` does.
func eventually(check string) string {
	return "n=0; until ( " + check + " ); do n=$((n+1)); [ $n -lt 500 ] || exit 1; sleep 0.1; done"
}

// startedByHand clears the effect of killing the agent. For ten minutes after several kills, however far apart,
// the agent counts as in a crash loop unless an operator starts it.
const startedByHand = "[ $(systemctl show -P NRestarts gpuaas-node-agent) = 0 ] || " +
	"systemctl restart gpuaas-node-agent"

// serving waits until the node's agent has answered a task, which proves that it polls again after the fault was
// injected.
func serving(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	task := api(t, l, "/v1/admin/nodes/"+machine+"/tasks", `{"type":"noop","payload":{},"ttl_seconds":60}`)
	var got struct{ Status string }
	for began := time.Now(); time.Since(began) < settle; time.Sleep(100 * time.Millisecond) {
		if get(t, l, fmt.Sprintf("/v1/admin/tasks/%s", task["id"]), &got); got.Status == "completed" {
			return
		}
	}
	t.Fatalf("%s does not answer tasks: the last one is %s", machine, got.Status)
}

// TestFaults injects one fault at a time on a node, walks, reverts it, and waits until the chain is green again.
func TestFaults(t *testing.T) {
	l := needLab(t)
	keep(t, "healthy", l, marshal(t, green(t, node)))
	for _, want := range golden.Faults() {
		f, ok := faults(node)[want.Name]
		if !ok {
			t.Errorf("%s: nobody does it", want.Name)
			continue
		}
		t.Run(want.Name, func(t *testing.T) {
			walked := node
			switch {
			case f.on == split:
				walked = split
			case f.on == node && f.and == nil:
				walked = ownNode(t, l)
				f = faults(walked)[want.Name]
			}
			f.try(t, l, walked, want)
		})
	}
}

// try injects the fault, and compares the walk with what is expected.
func (f fault) try(t *testing.T, l *lab.Lab, walked string, want golden.Expect) {
	if f.prepare != nil {
		f.prepare(t, l, walked)
	}
	on(t, l, walked, startedByHand)
	green(t, walked)
	defer green(t, walked)
	for f := &f; f != nil; f = f.and {
		defer on(t, l, f.on, f.undo)
		on(t, l, f.on, f.do)
		on(t, l, f.on, eventually(f.check))
	}
	if slices.Contains(want.Green, diag.HopNodeTaskRoundtrip) {
		serving(t, l, walked)
	}
	var second func() map[diag.HopID]string
	if !f.noSecond {
		second = oracle(t, l, walked)
	}
	began := time.Now()
	r, code, written := walk(t, walked)
	t.Logf("%s walked in %s: %s", walked, time.Since(began).Round(time.Millisecond), r.Verdict.Confidence)
	if code != 3 {
		t.Errorf("exit %d, want 3", code)
	}
	for _, problem := range want.Check(r) {
		t.Error(problem)
	}
	if problem := golden.Supports()["reports/"+want.Name+".json"].Check(r, r.Run.RulesVersion); problem != "" {
		t.Error(problem)
	}
	if second != nil {
		agree(t, l, walked, r, second())
	}
	noSecrets(t, l, written)
	on(t, l, f.on, f.check) // still in effect: the walk repaired nothing
	if t.Failed() {
		t.Log("\n" + describe(r))
		return
	}
	keep(t, want.Name, l, written)
}

// keep writes a recording when asked to.
func keep(t *testing.T, name string, l *lab.Lab, written []byte) {
	t.Helper()
	if !goldentest.Writing() {
		return
	}
	noSecrets(t, l, written)
	// Hide where this machine stores the lab's files.
	written = bytes.ReplaceAll(written, []byte(secretsDir(t, l)), []byte("/lab"))
	if err := os.WriteFile(filepath.Join("..", "..", "golden", "reports", name+".json"), written, 0o644); err != nil {
		t.Fatal(err)
	}
}

// noSecrets looks for every secret of the lab in what was written.
func noSecrets(t *testing.T, l *lab.Lab, written []byte) {
	t.Helper()
	for _, secret := range secrets(t, l) {
		if bytes.Contains(written, []byte(secret)) {
			t.Errorf("a secret is in the report (%d characters, not shown)", len(secret))
		}
	}
	if strings.Contains(string(written), "PRIVATE KEY") {
		t.Error("a private key is in the report")
	}
}
