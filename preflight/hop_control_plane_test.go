package preflight

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// TestControlPlaneAccessFitsItsReport combines what operator and node see of the API: text, owner and steps of one
// report never contradict each other.
func TestControlPlaneAccessFitsItsReport(t *testing.T) {
	both := func(do func(*diag.Fact)) answers {
		return answers{"control_plane_access/healthz": do, "control_plane_access/auth": do}
	}
	refused, timeout := failWith(diag.TCPRefused, "tcp"), failWith(diag.TCPTimeout, "tcp")
	nodeDNS := func(f *diag.Fact) {
		failWith(diag.DNSTimeout, "dns")(f)
	}
	alert := func(f *diag.Fact) {
		failWith(diag.MTLSCertRequired, "mtls")(f)
	}
	const elsewhere = "at another address, answers the node, so the fault is at this one or on the operator's network path"
	const platform, way, down = "control plane API", "on the operator's network path", "the control plane is at fault"
	ownWay := regexp.MustCompile(`VPN|\bDNS\b|look-up|\broute\b|another network`)
	for _, tc := range []struct {
		name    string
		answers answers
		outcome diag.Outcome
		owner   string // prefix
		text    string
		never   []string
		steps   *regexp.Regexp // no step may match it
	}{
		{"the node's DNS is broken as well, and at its address the API answers the node",
			with(both(timeout), answers{"node_runtime_api_reachability/reach": nodeDNS}), diag.OutcomeFail, "operator access, ",
			elsewhere, []string{down}, nil},
		{"the node's listener wants a certificate, by an alert",
			with(both(refused), answers{"node_runtime_api_reachability/reach": alert}), diag.OutcomeFail, "operator access, ",
			elsewhere, []string{down}, nil},
		{"a task wait of 204", both(refused), diag.OutcomeFail, "operator access, ", elsewhere, []string{down}, nil},
		{"nobody gets an answer", with(both(refused), answers{
			"node_runtime_api_reachability/reach": refused, "node_runtime_api_reachability/reach~from-operator": refused,
		}), diag.OutcomeFail, platform, down, []string{way}, ownWay},
		{"502 for both", with(both(answerOf(502, diag.HTTPEdgePage)),
			answers{"node_recovery_status/task_wait": answerOf(502, diag.HTTPEdgePage)}),
			diag.OutcomeFail, platform, down, []string{way}, ownWay},
		{"502 for the operator", both(answerOf(502, diag.HTTPEdgePage)), diag.OutcomeFail, platform, "HTTP 502",
			[]string{way, down}, ownWay},
		{"503 for the operator", both(answerOf(503, diag.HTTPStatus)), diag.OutcomeFail, platform, "HTTP 503",
			[]string{way, down}, ownWay},
		{"429 for the operator", both(answerOf(429, diag.HTTPRateLimited)), diag.OutcomeInconclusive, "operator access",
			"HTTP 429", []string{way, down}, ownWay},
		{"a redirect that is no login", both(answerOf(302, diag.HTTPStatus)), diag.OutcomeFail, platform, "HTTP 302",
			[]string{way, down}, ownWay},
		{"a redirect to a login", both(answerOf(302, diag.HTTPEdgeAuth)), diag.OutcomeInconclusive, "operator access", "",
			[]string{way, down}, ownWay},
		{"the API takes the connection and says nothing", both(failWith(diag.HTTPTimeout, "http")), diag.OutcomeFail,
			platform, "", []string{way, down}, ownWay},
		{"a health page that wants a login, and a token that is accepted",
			answers{"control_plane_access/healthz": answerOf(401, diag.HTTPStatus)}, diag.OutcomePass, "", "",
			[]string{way, down}, nil},
		{"a health page that wants a login, and nothing else to ask",
			answers{"control_plane_access/healthz": answerOf(401, diag.HTTPStatus),
				"control_plane_access/auth": answerOf(404, diag.HTTPStatus)},
			diag.OutcomeInconclusive, "operator access", "wants a login", []string{way, down}, nil},
		{"only the operator's own read fails", answers{"control_plane_access/auth": answerOf(500, diag.HTTPStatus)},
			diag.OutcomeFail, platform, "", []string{way, down}, ownWay},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := walkWith(t, tc.answers)
			v, text := r.Verdict, hopOf(r, diag.HopControlPlaneAccess)
			found := text.Text + text.Because
			if v.Outcome != tc.outcome || !strings.HasPrefix(v.Owner, tc.owner) {
				t.Errorf("outcome %s, owner %q; want %s, %q\n%s", v.Outcome, v.Owner, tc.outcome, tc.owner, describe(r))
			}
			if !strings.Contains(found, tc.text) {
				t.Errorf("%q does not say %q", found, tc.text)
			}
			for _, words := range tc.never {
				if strings.Contains(found, words) {
					t.Errorf("%q says %q", found, words)
				}
			}
			if len(v.Recovery) == 0 && tc.outcome != diag.OutcomePass {
				t.Error("no step")
			}
			for _, step := range v.Recovery {
				if tc.steps != nil && tc.steps.MatchString(step) {
					t.Errorf("a step looks for what was seen to work: %s", step)
				}
			}
			replaysToItself(t, r)
		})
	}
}

// TestOperatorsWayIsOfOneAddress: an answer of the node API to the node puts the fault on the operator's path only if
// both request one address; for another listener it shows nothing.
func TestOperatorsWayIsOfOneAddress(t *testing.T) {
	for name, one := range map[string]bool{"one address": true, "two": false} {
		e := testEnv()
		asked := func(f *diag.Fact) {
			if one {
				f.Target = e.Profile.APIBase
			}
		}
		r := inMadeUpTime(t, func(t *testing.T) *diag.Report {
			silent := failWith(diag.TCPTimeout, "tcp")
			return walkFrom(t.Context(), e, map[string]hop.Vantage{hop.Platform: &scripted{name: hop.Platform},
				hop.Node: &scripted{name: hop.Node, answers: answers{hop.FactID(diag.HopNodeRuntimeAPI, hop.StepReach): asked}},
				hop.Operator: &scripted{name: hop.Operator, answers: answers{
					"control_plane_access/healthz": silent, "control_plane_access/auth": silent}}})
		})
		b := r.Verdict.Blame
		if b == nil || strings.HasSuffix(b.Text, "so the fault is on the operator's network path") != one ||
			(r.Verdict.Owner == "operator access") != one {
			t.Errorf("%s: owner %s, %+v", name, r.Verdict.Owner, b)
		}
	}
}
