//go:build linux

package inprocess

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
)

// TestCorrelation: a walk has one id, which appears at every component that it used, and everything recorded under
// it is collected.
func TestCorrelation(t *testing.T) {
	t.Parallel()
	w := start(t, options{})
	earlier := w.walk(t) // stands for the user's failed request
	j := w.prepare(t)
	j.env.Subject.CorrelationID = earlier.Run.CorrelationID
	r := j.run(t.Context(), t)
	if r.Verdict.Outcome != diag.OutcomePass {
		t.Fatalf("\n%s", describe(r))
	}
	id := r.Run.CorrelationID
	checkEvidence(t, r, id)
	if !slices.ContainsFunc(r.Evidence, func(e diag.EvidenceLine) bool {
		return e.CorrelationID == earlier.Run.CorrelationID
	}) {
		t.Error("nothing of the request that the operator named was pulled in")
	}
	for _, f := range r.Facts {
		if f.HTTP != nil && f.HTTP.Status != 400 && strings.HasPrefix(f.ID, "app_") == (f.HTTP.Correlation == id) {
			t.Errorf("%s was answered under the id %q", f.ID, f.HTTP.Correlation)
		}
		if f.HTTP != nil && f.Request.Header["X-Correlation-Id"] != id {
			t.Errorf("%s went out under the id %q", f.ID, f.Request.Header["X-Correlation-Id"])
		}
	}
	checkLogs(t, w, id)
}

// checkEvidence checks that the report has the walk's task and its terminal session, step by step.
func checkEvidence(t *testing.T, r *diag.Report, id string) {
	t.Helper()
	task, session := "", ""
	for _, f := range r.Facts {
		switch f.ID {
		case "node_task_roundtrip/enqueue":
			task = f.HTTP.Fields["task.id"]
		case "terminal_token_mint/mint":
			session = f.HTTP.Fields["token.session_id"]
		}
	}
	var last time.Time
	saw := map[string]bool{}
	for _, e := range r.Evidence {
		if e.At.Before(last) {
			t.Errorf("evidence out of order at %v", e)
		}
		last = e.At.Time
		if e.CorrelationID == id && (e.TaskID == task || e.SessionID == session) {
			saw[e.Kind] = true
		}
	}
	for _, kind := range []string{"task.queued", "task.dispatched", "task.completed", "terminal.token_minted",
		"terminal.browser_connected", "terminal.node_stream_connected", "terminal.pty_ready"} {
		if !saw[kind] {
			t.Errorf("the report's evidence lacks %s of task %s and session %s: %v", kind, task, session, r.Evidence)
		}
	}
}

// checkLogs requires the id in the request log of every listener, and in the agent's results of its two tasks. Lines
// are written when a request is over, which may be a moment after the walk.
func checkLogs(t *testing.T, w *world, id string) {
	t.Helper()
	want := []string{"listener api", "listener gateway", "listener node_api", "listener node_terminal", "type noop",
		"type terminal.open"}
	var missing []string
	if !await(t.Context(), 30*time.Second, func() bool {
		saw := map[string]bool{}
		for _, log := range []*logtest.Log{w.platformLog, w.agentLog} {
			for line := range strings.Lines(log.String()) {
				var l map[string]any
				if json.Unmarshal([]byte(line), &l) != nil || l["correlation_id"] != id {
					continue
				}
				for _, key := range []string{"listener", "type"} {
					if v, ok := l[key].(string); ok {
						saw[key+" "+v] = true
					}
				}
			}
		}
		missing = slices.DeleteFunc(slices.Clone(want), func(s string) bool { return saw[s] })
		return len(missing) == 0
	}) {
		t.Errorf("no log line under the walk's id for %v\n%s", missing, w.agentLog)
	}
}
