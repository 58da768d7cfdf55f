package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/profile"
)

func evidenceOfLines(lines ...diag.EvidenceLine) func(*diag.Fact) {
	return func(f *diag.Fact) {
		b, err := json.Marshal(lines)
		if err != nil {
			panic(err)
		}
		f.HTTP.Fields["evidence.items"] = string(b)
	}
}

func line(at time.Duration, kind string) diag.EvidenceLine {
	return diag.EvidenceLine{At: diag.At(noon.Add(at)), Kind: kind}
}

// TestEvidenceOfTheFailingRequest: evidence is requested by every id that the operator named, and has no duplicates.
func TestEvidenceOfTheFailingRequest(t *testing.T) {
	e := testEnv()
	e.Subject.CorrelationID, e.Subject.SessionID = "failing-1", "sess-0"
	both := line(2*time.Second, "session_closed")
	operator := &scripted{name: hop.Operator, answers: answers{
		"evidence/corr-1":    evidenceOfLines(line(3*time.Second, "task_claimed"), line(3*time.Second, "task_claimed")),
		"evidence/failing-1": evidenceOfLines(line(0, "token_minted"), both),
		"evidence/sess-0":    evidenceOfLines(line(time.Second, "browser_connected"), both),
	}}
	for _, req := range walk.EvidenceRequests(e) {
		if req.ID == "evidence/sess-0" && !strings.HasSuffix(req.Target, "/v1/admin/evidence?session_id=sess-0") {
			t.Errorf("the session is asked for at %s", req.Target)
		}
	}
	lines, cut := walk.Evidence(t.Context(), e, operator)
	var kinds []string
	for _, l := range lines {
		kinds = append(kinds, l.Kind)
	}
	if got := strings.Join(kinds, " "); got != "token_minted browser_connected session_closed task_claimed task_claimed" ||
		cut {
		t.Errorf("evidence %s, cut %t", got, cut)
	}
}

// TestNoEvidenceIsAsked: a platform that has no evidence path gets no request, unless its session path is mapped.
func TestNoEvidenceIsAsked(t *testing.T) {
	e := testEnv()
	e.Subject.CorrelationID, e.Subject.SessionID = "failing-1", "sess-0"
	e.Profile.Mapping.Paths = map[string]string{profile.PathEvidence: profile.Absent}
	if reqs := walk.EvidenceRequests(e); len(reqs) > 0 {
		t.Errorf("asked at %s", reqs[0].Target)
	}
	e.Profile.Mapping.Paths[profile.PathSessionEvidence] = "/sessions/{session_id}/log"
	if reqs := walk.EvidenceRequests(e); len(reqs) != 1 || !strings.HasSuffix(reqs[0].Target, "/sessions/sess-0/log") {
		t.Errorf("asked %+v", reqs)
	}
}

// TestEvidenceKeepsTheNewest: if there is too much evidence, the oldest lines are dropped, and the report says so, also
// if the platform dropped them.
func TestEvidenceKeepsTheNewest(t *testing.T) {
	e := testEnv()
	var many []diag.EvidenceLine
	for i := range walk.MaxEvidence + 50 {
		many = append(many, line(time.Duration(i)*time.Second, fmt.Sprint("kind-", i)))
	}
	lines, cut := walk.Evidence(t.Context(), e,
		&scripted{name: hop.Operator, answers: answers{"evidence/corr-1": evidenceOfLines(many...)}})
	if len(lines) != walk.MaxEvidence || lines[0].Kind != "kind-50" ||
		lines[walk.MaxEvidence-1].Kind != fmt.Sprint("kind-", walk.MaxEvidence+49) || !cut {
		t.Errorf("%d lines from %s to %s, cut %t", len(lines), lines[0].Kind, lines[len(lines)-1].Kind, cut)
	}
	lines, cut = walk.Evidence(t.Context(), e,
		&scripted{name: hop.Operator, answers: answers{"evidence/corr-1": setField("evidence.truncated", "true")}})
	if len(lines) != 1 || !cut {
		t.Errorf("the platform cut it: %d lines, cut %t", len(lines), cut)
	}
}

// TestEvidencePulledBeforeTheEndIsKept: ctx ends after the walk, and the evidence that had come by then is kept.
func TestEvidencePulledBeforeTheEndIsKept(t *testing.T) {
	for range 50 { // a choice between two that are ready is made by chance
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		early := &walk.EarlyPull{Got: make(chan walk.Pulled, 1)}
		early.Got <- walk.Pulled{Lines: []diag.EvidenceLine{line(0, "task_claimed")}}
		j := testJob(map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator}, hop.Node: &scripted{name: hop.Node}})
		if got := j.Evidence(ctx, early, nil, diag.EndedInterrupted); len(got.Lines) != 1 {
			t.Fatalf("%d lines", len(got.Lines))
		}
	}
}

// TestAPullIsWaitedFor: a pull that runs when the walk is interrupted is waited for, even if it ends a little late; one
// that never ends is given up after a while, and one that never began is not waited for.
func TestAPullIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		early := &walk.EarlyPull{Got: make(chan walk.Pulled, 1)}
		time.AfterFunc(10*time.Millisecond, func() { early.Got <- walk.Pulled{Cut: true} })
		if have := early.Await(ctx); !have.Cut {
			t.Error("a pull that came a little late was left")
		}
		for name, e := range map[string]*walk.EarlyPull{"never ends": {Got: make(chan walk.Pulled)},
			"never began": {Open: 1}} {
			began := time.Now()
			if e.Await(ctx); time.Since(began) > time.Second {
				t.Errorf("%s: %s", name, time.Since(began))
			}
		}
	})
}
