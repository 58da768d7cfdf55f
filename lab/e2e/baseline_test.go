//go:build linux

package e2e

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestWhatChanged changes something on a healthy machine with the machine's own tools: the walk still passes, and
// the comparison with the baseline shows exactly that change.
func TestWhatChanged(t *testing.T) {
	l := needLab(t)
	green(t, node)
	base := filepath.Join(t.TempDir(), "base.json")
	if _, code, _ := walk(t, node, "--report", base); code != 0 {
		t.Fatalf("exit %d", code)
	}
	const agent = "/usr/local/bin/gpuaas-agent"
	for _, c := range []struct {
		name, do, undo string
		kinds          []diag.ChangeKind
		code           int
	}{
		{name: "nothing", do: "true", undo: "true", code: 0},
		{
			name: "a line in the hosts file",
			do:   "cp /etc/hosts /run/hosts; echo '10.231.77.11 node-api.gpuaas.test' >>/etc/hosts",
			undo: "cat /run/hosts >/etc/hosts", kinds: []diag.ChangeKind{diag.ChangeDNSAnswer}, code: 6,
		},
		{
			name: "another program under the same version",
			do: "cp " + agent + " /run/agent; echo >>/run/agent; chmod 755 /run/agent; mv " + agent +
				" /run/agent.was; cp /run/agent " + agent + ".new; mv " + agent + ".new " + agent,
			undo:  "cp /run/agent.was " + agent + ".new; mv " + agent + ".new " + agent,
			kinds: []diag.ChangeKind{diag.ChangeAgentBuild}, code: 6,
		},
		{
			name: "a drop-in", do: "mkdir -p " + dropIns + "; printf '[Unit]\\nDescription=changed\\n' >" + dropIns +
				"/what.conf; systemctl daemon-reload",
			undo: "rm " + dropIns + "/what.conf; systemctl daemon-reload", kinds: []diag.ChangeKind{diag.ChangeUnit}, code: 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			on(t, l, node, c.do)
			t.Cleanup(func() { on(t, l, node, c.undo) })
			var r *diag.Report
			var code int
			for began := time.Now(); time.Since(began) < settle; time.Sleep(500 * time.Millisecond) {
				if r, code, _ = walk(t, node, "--baseline", base, "--fail-on", "regression"); code == c.code {
					break
				}
			}
			var kinds []diag.ChangeKind
			for _, ch := range r.Diff.Changes {
				if !slices.Contains(kinds, ch.Kind) {
					kinds = append(kinds, ch.Kind)
				}
			}
			if code != c.code || !r.Diff.Comparable || !slices.Equal(kinds, c.kinds) {
				t.Errorf("exit %d, changes %+v\n%s", code, r.Diff.Changes, describe(r))
			}
		})
	}
}
