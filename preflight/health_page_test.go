package preflight

import (
	"strconv"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

const (
	reachFact    = "node_runtime_api_reachability/reach"
	otherRouteOf = publicFact + "~" + reading.CounterOtherRoute
)

// refusedUpgrade is a session that no gateway accepts.
func refusedUpgrade(status int) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Failure, f.Phase, f.PTY = diag.WSUpgradeRejected, "ws", nil
		f.HTTP, f.WS = &diag.HTTPFacts{Status: status}, &diag.WSFacts{Status: status}
	}
}

// pages are the ways in which a health page alone is not well.
func pages() map[string]func(*diag.Fact) {
	none := int64(0)
	all := map[string]func(*diag.Fact){
		"closes": answerWith(diag.HTTPClosed, "http", 0, nil),
		"hangs": func(f *diag.Fact) {
			failWith(diag.HTTPTimeout, "http")(f)
			f.TCP.Resent = &none
		},
	}
	for _, status := range []int{404, 410, 421, 500, 502, 503} {
		all[strconv.Itoa(status)] = answerWith(diag.HTTPStatus, "http", status, nil)
	}
	return all
}

// TestAHealthPageDecidesNothingAboutAServiceThatWorks: such a page is a warning, at the terminal's edge and at the node
// ingress.
func TestAHealthPageDecidesNothingAboutAServiceThatWorks(t *testing.T) {
	for name, page := range pages() {
		for step, hop := range map[string]diag.HopID{
			publicFact: diag.HopTerminalPublicRoute, reachFact: diag.HopNodeRuntimeAPI,
		} {
			r := walkWith(t, answers{step: page, otherRouteOf: func(*diag.Fact) {}})
			h := hopOf(r, hop)
			answered := step == reachFact && h.Status == diag.StatusPass // a 4xx to a request without a certificate
			if v := r.Verdict; v.Blame != nil || (!answered && (v.Outcome != diag.OutcomeWarn || h.Status != diag.StatusWarn)) {
				t.Errorf("%s, %s: %s\n%s", step, name, v.Outcome, describe(r))
			}
			if again, err := verdict.Replay(hops.BuiltIn(), r); err != nil || again.Verdict.Outcome != r.Verdict.Outcome {
				t.Errorf("%s, %s: replay: %v", step, name, err)
			}
		}
	}
}

// TestAHealthPageIsTheFaultWhereNothingWorks: without a service that works, the walk is as if only the page had been
// requested.
func TestAHealthPageIsTheFaultWhereNothingWorks(t *testing.T) {
	for name, page := range pages() {
		r := walkWith(t, answers{publicFact: page, sessionFact: refusedUpgrade(502), otherRouteOf: func(*diag.Fact) {}})
		v, ws := r.Verdict, hopOf(r, diag.HopBrowserTerminalWS)
		if v.Blame == nil || v.Blame.Hop != diag.HopTerminalPublicRoute || len(v.OtherFindings) > 0 ||
			ws.Because != "session: needs terminal_public_route, which is fail" || ws.Status != diag.StatusNotReached {
			t.Errorf("terminal, %s:\n%s", name, describe(r))
		}
	}
	broken := answerWith(diag.HTTPStatus, "http", 503, nil)
	r := walkWith(t, with(silentAgent(), answers{reachFact: broken, waitFact: broken}))
	wait := hopOf(r, diag.HopNodeRecoveryStatus)
	if v := r.Verdict; v.Blame == nil || v.Blame.Hop != diag.HopNodeRuntimeAPI || len(v.OtherFindings) > 0 ||
		wait.Because != "task_wait: needs node_runtime_api_reachability, which is fail" {
		t.Errorf("node API:\n%s", describe(r))
	}
	// A login or a limiter in front of the page is in front of the service as well.
	for _, page := range []func(*diag.Fact){
		answerWith(diag.HTTPEdgeAuth, "http", 302, nil), answerWith(diag.HTTPRateLimited, "http", 429, nil),
	} {
		ws := hopOf(walkWith(t, answers{publicFact: page}), diag.HopBrowserTerminalWS)
		if ws.Status != diag.StatusNotReached {
			t.Errorf("a session was tried: %s %s", ws.Status, ws.Text)
		}
	}
}
