//go:build linux

package inprocess

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/compare"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
)

// watcher returns a watch of the world as the command line creates it.
func (w *world) watcher(t *testing.T) *ops.Watcher {
	t.Helper()
	p, _, err := profile.Load(w.profile, profile.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := ops.ReadSecrets(t.Context(), p, true)
	if err != nil {
		t.Fatal(err)
	}
	site := ops.New(ops.Site{Profile: p, Secrets: secrets, Tool: sshtest.Version, Libexec: w.helpers})
	watch := site.Node(nodeID, alloc).Watch(walkLimit)
	t.Cleanup(func() { watch.Close(t.Context()) })
	return watch
}

// until repeats a walk until it is as expected: on a busy machine a login may exceed its time limit.
func until(t *testing.T, watch *ops.Watcher, what string, is func(*diag.Report) bool) *diag.Report {
	t.Helper()
	var r *diag.Report
	for deadline := time.Now().Add(walkLimit); time.Now().Before(deadline); {
		if r = watch.Walk(t.Context(), ops.WalkOptions{Watch: true}); is(r) {
			return r
		}
	}
	t.Fatalf("no walk that %s:\n%s", what, describe(r))
	return nil
}

func passes(r *diag.Report) bool { return r.Verdict.Outcome == diag.OutcomePass }

// TestWatch: walks share one login, leave nothing on the platform, see a fault and its end, and reconnect after a
// broken connection without a false alarm.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := start(t, options{process: true})
	watch := w.watcher(t)
	good := until(t, watch, "passes", passes)
	logins := w.ssh.Logins()
	again := until(t, watch, "passes again", passes)
	if again.Run.ID == good.Run.ID || again.Run.CorrelationID == good.Run.CorrelationID {
		t.Errorf("both walks are %s, %s", again.Run.ID, again.Run.CorrelationID)
	}
	if got := w.ssh.Logins(); got != logins && again.Run.DurationMS < 4000 { // slower logins may have been repeated
		t.Errorf("the second walk logged in again: %d logins, before it %d", got, logins)
	}
	for _, r := range []*diag.Report{good, again} {
		changesNothing(t, r)
	}
	if changes := compare.WatchChanges(good, again); len(changes) > 0 {
		t.Errorf("nothing changed, and it lists %+v", changes)
	}

	w.ssh.Drop()
	r := watch.Walk(t.Context(), ops.WalkOptions{Watch: true})
	if resultOf(t, r, diag.HopNodeOpsAccess).Status == diag.StatusFail && r.Run.DurationMS < 4000 {
		t.Errorf("a connection that broke between walks is a fault:\n%s", describe(r))
	}
	until(t, watch, "passes on a new connection", passes)

	w.agent.run(t, "failed/failed")
	bad := until(t, watch, "sees that the agent's unit failed", func(r *diag.Report) bool {
		return resultOf(t, r, diag.HopNodeReadiness).Status == diag.StatusFail
	})
	if c := compare.WatchChanges(again, bad); len(c) == 0 || c[0].Hop != "" || c[0].Now.Status != diag.StatusFail {
		t.Errorf("the changes are %+v", c)
	}
	w.agent.run(t, "active/running")
	until(t, watch, "passes when the unit runs", passes)
}

// changesNothing checks that a walk sent no request with an effect, and that no hop passes without a measurement.
func changesNothing(t *testing.T, r *diag.Report) {
	t.Helper()
	for _, f := range r.Facts {
		if (f.Request.Method != "" && f.Request.Method != "GET") || f.Request.Write > 0 || f.Request.Op == diag.OpSession {
			t.Errorf("%s asks %s %s and writes %d bytes", f.ID, f.Request.Op, f.Request.Method, f.Request.Write)
		}
	}
	for _, id := range []diag.HopID{diag.HopNodeTaskRoundtrip, diag.HopTerminalTokenMint, diag.HopBrowserTerminalWS,
		diag.HopTerminalOpenTask, diag.HopGatewayNodeStream} {
		if h := resultOf(t, r, id); h.Status != diag.StatusSkipped {
			t.Errorf("%s is %s in a walk that does not ask it", id, h.Status)
		}
	}
	if !slices.ContainsFunc(r.Facts, func(f diag.Fact) bool { return f.Vantage == hop.Node }) {
		t.Error("nothing was asked on the node")
	}
}
