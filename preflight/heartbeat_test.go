package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestLateHeartbeat: the walk waits for a heartbeat that is just past its limit, and does not wait for one that is well
// past it. If the next one comes, all texts about the node are from the second reading.
func TestLateHeartbeat(t *testing.T) {
	limit := 120 * time.Second
	for name, c := range map[string]struct {
		age    time.Duration // of the last heartbeat when the node was read
		next   time.Duration // the same when it was read again; 0: the next one did not come
		again  bool          // it is read again
		status diag.Status
		text   string
	}{
		"in time":            {limit, 0, false, diag.StatusPass, "last heartbeat 2m0s ago"},
		"late":               {limit + time.Second, time.Second, true, diag.StatusPass, "last heartbeat 1s ago"},
		"missing":            {limit + time.Second, 0, true, diag.StatusFail, "last heartbeat 2m1s ago"},
		"an old one at last": {limit + time.Second, limit + time.Second, true, diag.StatusFail, "last heartbeat 2m1s ago"},
		"well past":          {2 * limit, time.Second, false, diag.StatusFail, "last heartbeat 4m0s ago"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			at := func(f *diag.Fact, age time.Duration) {
				f.HTTP.Fields["node.last_heartbeat_at"] = noon.Add(-age).Format(time.RFC3339Nano)
				f.HTTP.Fields["node.last_seen_at"] = f.HTTP.Fields["node.last_heartbeat_at"]
				if f.HTTP.Fields["node.check_heartbeat"] = string(diag.MarkPass); age > limit {
					f.HTTP.Fields["node.check_heartbeat"] = string(diag.MarkFail)
				}
			}
			r := walkWith(t, answers{
				"node_task_roundtrip/task":  nobodyClaims,
				"node_heartbeat/read_model": func(f *diag.Fact) { at(f, c.age) },
				"node_heartbeat/read_again": func(f *diag.Fact) {
					asked = true
					if p := f.Request.Poll; p == nil || p.Unlike != noon.Add(-c.age).Format(time.RFC3339Nano) {
						t.Errorf("it does not wait for another heartbeat: %+v", p)
					}
					if at(f, c.next); c.next == 0 {
						at(f, c.age)
						f.Failure, f.Phase = diag.HTTPTimeout, "poll"
					}
				},
			})
			h := hopOf(r, diag.HopNodeHeartbeat)
			if h.Status != c.status || !strings.Contains(h.Text, c.text) || asked != c.again {
				t.Errorf("%s, asked again %v: %s", h.Status, asked, h.Text)
			}
			if p := r.Classification.Checklist[0]; (p.Status == diag.MarkPass) != (c.status == diag.StatusPass) ||
				strings.Contains(p.Text, "own checklist") {
				t.Errorf("%s is %s: %s", p.ID, p.Status, p.Text)
			}
		})
	}
}

// TestHeartbeatAndLastContactAreTwoFacts: an agent whose heartbeats are refused still waits for tasks. The last contact
// is not a heartbeat, and if the platform's own checklist contradicts the measurement, the text has both.
func TestHeartbeatAndLastContactAreTwoFacts(t *testing.T) {
	ago := func(d time.Duration) string { return noon.Add(-d).Format(time.RFC3339Nano) }
	for name, c := range map[string]struct {
		contact, heartbeat, text string
		status                   diag.Status
		point                    diag.Mark
		outcome                  diag.Outcome
		reason                   diag.ReasonCode
		words                    []string
	}{
		"both fresh": {ago(time.Second), ago(3 * time.Second), "pass", diag.StatusPass, diag.MarkPass, diag.OutcomePass,
			diag.ReasonNone, []string{"last heartbeat 3s ago"}},
		"heartbeats are refused": {ago(5 * time.Second), ago(10 * time.Minute), "fail", diag.StatusFail, diag.MarkFail,
			diag.OutcomeFail, diag.ReasonNodeAgentUnreachable,
			[]string{"last heartbeat 10m0s ago", "last contact 5s ago", "only its heartbeat is overdue"}},
		"no contact": {ago(10 * time.Minute), ago(20 * time.Minute), "fail", diag.StatusFail, diag.MarkFail, diag.OutcomeFail,
			diag.ReasonNodeAgentUnreachable, []string{"last heartbeat 20m0s ago"}},
		"the platform's policy is stricter": {ago(time.Second), ago(30 * time.Second), "fail", diag.StatusWarn, diag.MarkPass,
			diag.OutcomeWarn, diag.ReasonNone, []string{"last heartbeat 30s ago", "the platform's own checklist says"}},
		"contact alone, and the platform says fail": {ago(5 * time.Second), "", "fail", diag.StatusWarn, diag.MarkFail,
			diag.OutcomeWarn, diag.ReasonNone, []string{"last contact 5s ago", "the platform's own checklist says"}},
		"contact alone, and the platform says pass": {ago(5 * time.Second), "", "pass", diag.StatusPass, diag.MarkPass,
			diag.OutcomePass, diag.ReasonNone,
			[]string{"last contact 5s ago", "the platform's checklist calls the heartbeat current"}},
		"contact alone": {ago(5 * time.Second), "", "", diag.StatusPass, diag.MarkUnknown, diag.OutcomePass, diag.ReasonNone,
			[]string{"last contact 5s ago", "when the last heartbeat came is not known"}},
		"a heartbeat alone": {"", ago(4 * time.Second), "", diag.StatusPass, diag.MarkPass, diag.OutcomePass, diag.ReasonNone,
			[]string{"last heartbeat 4s ago"}},
	} {
		t.Run(name, func(t *testing.T) {
			claims := func(f *diag.Fact) {
				if c.contact == ago(10*time.Minute) {
					nobodyClaims(f)
				}
			}
			r := walkWith(t, answers{"node_task_roundtrip/task": claims, "node_heartbeat/read_model": func(f *diag.Fact) {
				for field, value := range map[string]string{"node.last_seen_at": c.contact, "node.last_heartbeat_at": c.heartbeat,
					"node.check_heartbeat": c.text} {
					if f.HTTP.Fields[field] = value; value == "" {
						delete(f.HTTP.Fields, field)
					}
				}
			}})
			h := hopOf(r, diag.HopNodeHeartbeat)
			if h.Status != c.status || r.Verdict.Outcome != c.outcome || r.Classification.Reason != c.reason {
				t.Errorf("%s, outcome %s, reason %s: %s", h.Status, r.Verdict.Outcome, r.Classification.Reason, h.Text)
			}
			if p := r.Classification.Checklist[0]; p.Status != c.point {
				t.Errorf("%s is %s: %s", p.ID, p.Status, p.Text)
			}
			for _, want := range c.words {
				if !strings.Contains(h.Text, want) {
					t.Errorf("%q lacks %q", h.Text, want)
				}
			}
			if c.heartbeat == "" && strings.Contains(h.Text, "last heartbeat 5") {
				t.Errorf("a contact is called a heartbeat: %s", h.Text)
			}
		})
	}
}
