package preflight

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// inJSON is a server's refusal in JSON, with a code of its own or "".
func inJSON(status int, code string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		refusal(status, code)(f)
		f.HTTP.ContentType = "application/json"
	}
}

// instead is an answer in place of an upgrade.
func instead(f *diag.Fact, answer func(*diag.Fact)) {
	answer(f)
	f.Failure, f.Phase, f.PTY, f.WS = diag.WSUpgradeRejected, "ws", nil, &diag.WSFacts{Status: f.HTTP.Status}
}

func inPlaceOfUpgrade(answer func(*diag.Fact)) func(*diag.Fact) {
	return func(f *diag.Fact) { instead(f, answer) }
}

// shown is an answer to a request whose listener asked for the node's certificate, and got it.
func shown(answer func(*diag.Fact)) func(*diag.Fact) {
	return func(f *diag.Fact) {
		refusedShown(403, "")(f)
		answer(f)
	}
}

// taken has the listener ask for the certificate, and get it.
func taken(f *diag.Fact) {
	if yes := true; f.TLS == nil {
		f.TLS = &diag.TLSFacts{Verified: true, CertRequested: &yes}
	}
	f.TLS.CertSent = "serial"
}

// deniedLast is the read model of a node whose last request was denied.
func deniedLast(code string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.HTTP.Fields["node.last_denial_code"] = code
		f.HTTP.Fields["node.last_denial_at"] = noon.Add(-time.Second).Format(time.RFC3339Nano)
	}
}

// TestRefusalsOfServersOnTheWay: a refusal that nothing shows to be the platform's is the edge's, and no denial.
func TestRefusalsOfServersOnTheWay(t *testing.T) {
	const (
		edge    = "edge and route profile"
		gateway = edge + ", terminal gateway"
		api     = "control plane API, edge and route profile"
		stream  = "node_terminal_reachability/stream"
	)
	page := pageOf(403, diag.HTTPStatus)
	everywhere := func(answer func(*diag.Fact)) answers {
		all := answers{publicFact: answer, sessionFact: inPlaceOfUpgrade(answer), waitFact: shown(answer),
			stream: inPlaceOfUpgrade(shown(answer)), reachFact: answer}
		for _, id := range []string{healthFact, authFact, allocationFact, readModelFact, mintFact, taskFact} {
			all[id] = answer
		}
		return all
	}
	type row struct {
		answers answers
		signal  diag.Signal // "": no blame
		owner   string
		says    string
	}
	rows := map[string]row{
		"302 for the upgrade": {answers{sessionFact: inPlaceOfUpgrade(func(f *diag.Fact) {
			f.HTTP = &diag.HTTPFacts{Status: 302, Location: "sso.test/x"}
		})}, diag.SigUpgradeFailed, gateway, "to sso.test/x"},
		"a page for the upgrade": {answers{sessionFact: inPlaceOfUpgrade(page)}, diag.SigUpgradeFailed, gateway,
			"refuses is not known"},
		"403 for the upgrade": {answers{sessionFact: refusedUpgrade(403)}, diag.SigUpgradeFailed, gateway,
			"nothing of the platform"},
		"a foreign code for the upgrade": {answers{sessionFact: inPlaceOfUpgrade(inJSON(403, "blocked_by_waf"))},
			diag.SigUpgradeFailed, gateway, "not known to be the platform's"},
		"a code of the gateway": {answers{sessionFact: inPlaceOfUpgrade(inJSON(404, "session_not_found"))},
			diag.SigUpgradeFailed, "terminal gateway, edge", ""},
		"302 for the node's stream": {answers{stream: inPlaceOfUpgrade(shown(func(f *diag.Fact) {
			f.HTTP = &diag.HTTPFacts{Status: 302, Location: "sso.test/x"}
		}))}, diag.SigNodeStreamTimeout, gateway, "as no terminal gateway does"},
		"a page for everything": {everywhere(page), diag.SigAPIUnreachable, edge + ", control plane API",
			"as the API answers the operator"},
		"JSON for everything": {everywhere(inJSON(403, "blocked")), diag.SigAPIUnreachable, edge + ", control plane API",
			"as the API answers the operator"},
		"403 without a body for everything": {everywhere(refusal(403, "")), diag.SigAPIUnreachable,
			edge + ", control plane API", "as the API answers the operator"},
		"a page for the task wait": {answers{waitFact: shown(page)}, diag.SigAPIUnreachable,
			edge + ", control plane API", "the terminal gateway accepts the same certificate"},
	}
	onceIn := func(step string, refused func(*diag.Fact), more answers) answers {
		more[step], more[step+"~2"] = refused, taken
		return more
	}
	const mixed = "one of several servers"
	revoked := refusedShown(403, "revoked")
	rows["one of several servers denies"] = row{onceIn(waitFact, revoked, answers{}), diag.SigAPIUnreachable, api, mixed}
	rows["one of several servers denies, and records it"] = row{
		onceIn(waitFact, revoked, answers{readModelFact: deniedLast("revoked")}), diag.SigAPIUnreachable, api, mixed}
	rows["a denial in the read model, of a node that is let in"] = row{
		answers{readModelFact: deniedLast("revoked"), waitFact: taken}, "", "", ""}
	rows["one of several servers has a page"] = row{onceIn(waitFact, shown(page), answers{}), diag.SigAPIUnreachable,
		edge + ", control plane API", mixed}
	rows["one of several servers denies as expired"] = row{onceIn(waitFact, refusedShown(403, "expired"), answers{}),
		diag.SigAPIUnreachable, api, mixed}
	rows["one of several gateways denies"] = row{onceIn(stream, revoked, answers{}), diag.SigNodeStreamMTLS,
		gateway + ", PKI", mixed}
	rows["the gateway alone denies"] = row{answers{stream: revoked}, diag.SigNodeStreamMTLS, gateway + ", PKI",
		"the node ingress accepts the same certificate"}
	rows["the gateway alone denies a browser"] = row{
		answers{sessionFact: inPlaceOfUpgrade(inJSON(403, "node_expired"))}, diag.SigUpgradeFailed,
		"terminal gateway, edge", "whether the platform denies this node is not known"}
	rows["one of several APIs refuses the token"] = row{answers{authFact: refusal(401, "invalid_token"),
		authFact + "~2": func(*diag.Fact) {}}, diag.SigControlPlaneUnreachable, api, mixed}
	rows["one of several APIs refuses the allocation"] = row{answers{allocationFact: refusal(403, "forbidden"),
		allocationFact + "~2": func(*diag.Fact) {}}, "", api, ""}
	for _, status := range []int{409, 410, 423, 451} {
		for _, code := range []string{"", "weird"} {
			name := fmt.Sprintf("%d %s for ", status, code)
			for what, id := range map[string]string{"the allocation": allocationFact, "the node": readModelFact,
				"the task": "node_task_roundtrip/enqueue"} {
				rows[name+what] = row{answers{id: inJSON(status, code)}, "", api, ""}
			}
			mint := row{answers{mintFact: inJSON(status, code)}, diag.SigTokenMintFailed, api, ""}
			if status == 409 || status == 423 {
				mint.signal = ""
			}
			rows[name+"the terminal token"] = mint
		}
	}
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			v := walkWith(t, tc.answers).Verdict
			signal, text := diag.Signal(""), ""
			if v.Blame != nil {
				signal, text = v.Blame.Signal, v.Blame.Text
			}
			steps := strings.Join(v.Recovery, "\n")
			if signal != tc.signal || v.Owner != tc.owner || !strings.Contains(text, tc.says) || len(v.OtherFindings) > 0 ||
				v.Reason == diag.ReasonIdentityRejectedRecoverable || strings.Contains(steps, "reenroll") {
				t.Errorf("%s, owner %q, reason %s, others %+v: %s\n%s", signal, v.Owner, v.Reason, v.OtherFindings, text, steps)
			}
		})
	}
}

// TestAClosedHealthPageIsNoFilter: a health page that is closed to all does not show that a refusal of the node is a
// filter's; only another request of the operator would.
func TestAClosedHealthPageIsNoFilter(t *testing.T) {
	page := pageOf(403, diag.HTTPStatus)
	for _, token := range []bool{true, false} {
		r := walkWith(t, answers{healthFact: page, authFact: page, waitFact: shown(page),
			"node_terminal_reachability/stream": inPlaceOfUpgrade(shown(page))})
		if !token {
			r.Facts = slices.DeleteFunc(r.Facts, func(f diag.Fact) bool { return f.ID == authFact })
			verdict.Judge(hops.BuiltIn(), r)
		}
		text := hopOf(r, diag.HopNodeRecoveryStatus).Text
		if strings.Contains(text, "and not the node's certificate") != token {
			t.Errorf("with a token %t: %s", token, text)
		}
	}
}
