package preflight

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// odd is a healthy world that differs from the reference platform in words, names, pages or addresses. Nothing in it is
// to blame; if the walk cannot decide, it is inconclusive.
type odd struct {
	answers answers
	want    diag.Outcome
}

func omits(names ...string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		for _, n := range names {
			delete(f.HTTP.Fields, n)
		}
	}
}

func allOf(changes ...func(*diag.Fact)) func(*diag.Fact) {
	return func(f *diag.Fact) {
		for _, change := range changes {
			change(f)
		}
	}
}

func statusIs(code int) func(*diag.Fact) { return func(f *diag.Fact) { f.HTTP.Status = code } }

// refusal is an answer of the platform or the workload itself, rather than of an edge.
func refusal(code int, word string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Failure, f.Phase = diag.HTTPStatus, "http"
		f.HTTP = &diag.HTTPFacts{Status: code, ErrorCode: word, Fields: map[string]string{"error.code": word}}
	}
}

// login is an edge's answer to a request with or without a cookie.
func login(cookie diag.Secret) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Failure, f.Phase, f.Request.Cookie = diag.HTTPEdgeAuth, "http", cookie
		f.HTTP, f.WS, f.PTY = &diag.HTTPFacts{Status: http.StatusFound}, nil, nil
	}
}

func unitIs(word diag.Failure, active, sub string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Failure, f.Phase = word, "systemctl"
		f.Unit = &diag.UnitFacts{Active: active, Sub: sub, Result: "success"}
	}
}

// unended is a poll that timed out at a status.
func unended(status string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.HTTP.Fields["task.status"], f.Failure, f.Phase = status, diag.HTTPTimeout, "poll"
	}
}

// streamRefusal is the answer of a terminal gateway to a session that does not exist.
func streamRefusal(code int, word string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.HTTP = &diag.HTTPFacts{Status: code, Fields: map[string]string{"error.code": word}}
	}
}

const (
	readModelFact  = "node_heartbeat/read_model"
	allocationFact = "allocation_binding/allocation"
	healthFact     = "control_plane_access/healthz"
	authFact       = "control_plane_access/auth"
	mintFact       = "terminal_token_mint/mint"
	publicFact     = "terminal_public_route/healthz"
	sessionFact    = "browser_terminal_ws/session"
	rowFact        = "terminal_open_task/session"
	taskFact       = "node_task_roundtrip/task"
	routeFact      = "app_user_route/route"
	streamFact     = "node_terminal_reachability/stream"
)

// at returns a time that is d from noon, as platforms write it.
func at(d time.Duration) string { return noon.Add(d).Format(time.RFC3339Nano) }

func stated(date time.Time) func(*diag.Fact) {
	return func(f *diag.Fact) { f.HTTP.Date = diag.At(date) }
}

var expired = diag.NewSecret("sid=of-yesterday")

// oddEdges has logins, health pages and operators' rights.
var oddEdges = map[string]odd{
	"an expired cookie at the terminal's edge": {answers{publicFact: login(expired)}, diag.OutcomeInconclusive},
	"an expired cookie at the WebSocket":       {answers{sessionFact: login(expired)}, diag.OutcomeInconclusive},
	"an expired cookie at the product URL":     {answers{routeFact: login(expired)}, diag.OutcomeInconclusive},
	"a login before the token":                 {answers{mintFact: login(diag.Secret{})}, diag.OutcomeInconclusive},
	"a token without the terminal's scope": {answers{mintFact: refusal(403, "insufficient_scope")},
		diag.OutcomeInconclusive},
	"a token that expires during the walk":   {answers{mintFact: refusal(401, "token_expired")}, diag.OutcomeInconclusive},
	"a session too many":                     {answers{mintFact: refusal(409, "exists")}, diag.OutcomeInconclusive},
	"a health page of 204":                   {answers{healthFact: statusIs(204)}, diag.OutcomePass},
	"a health page that has moved":           {answers{healthFact: statusIs(301)}, diag.OutcomeWarn},
	"a health page that hangs":               {answers{healthFact: failWith(diag.HTTPTimeout, "http")}, diag.OutcomeWarn},
	"a token under another name":             {answers{mintFact: omits("token.session_id")}, diag.OutcomeInconclusive},
	"no health page":                         {answers{healthFact: refusal(404, "not_found")}, diag.OutcomeWarn},
	"a health page that sees something ill":  {answers{healthFact: refusal(503, "degraded")}, diag.OutcomeWarn},
	"no trust page, by 405":                  {answers{authFact: refusal(405, "")}, diag.OutcomePass},
	"no trust page, by 501":                  {answers{authFact: refusal(501, "")}, diag.OutcomePass},
	"a gateway's health page of 204":         {answers{publicFact: statusIs(204)}, diag.OutcomePass},
	"a gateway's health page behind a login": {answers{publicFact: refusal(401, "")}, diag.OutcomeWarn},
}

// oddNodes has clocks, names, addresses and programs.
var oddNodes = map[string]odd{
	"no time of a contact": {answers{readModelFact: omits("node.last_seen_at", "node.now")}, diag.OutcomeInconclusive},
	"a read model with a version alone": {answers{taskFact: nobodyClaims, "node_task_roundtrip/enqueue": refusal(404, ""),
		readModelFact: allOf(omits("node.last_seen_at", "node.check_heartbeat"), setField("node.agent_version", "v1"))},
		diag.OutcomeInconclusive},
	"an edge whose clock is 10 min ahead": {
		answers{readModelFact: allOf(omits("node.now"), stated(noon.Add(10*time.Minute)))}, diag.OutcomeInconclusive,
	},
	"an operator whose clock is 10 min ahead": {answers{readModelFact: allOf(omits("node.now"),
		setField("node.last_seen_at", at(-10*time.Minute)))}, diag.OutcomeInconclusive},
	"a read model from a cache": {answers{readModelFact: setField("node.now", at(10*time.Minute))},
		diag.OutcomeInconclusive},
	"a version with a v": {
		answers{readModelFact: allOf(setField("node.agent_version", "v1.2"), setField("node.agent_desired_version", "1.2"))},
		diag.OutcomePass,
	},
	"an address in two spellings": {
		answers{readModelFact: allOf(setField("node.private_ip", "fd00:0:0::7"),
			setField("node.agent_addresses", `["fd00::7/64"]`))}, diag.OutcomePass,
	},
	"a node behind NAT": {answers{
		readModelFact: allOf(setField("node.private_ip", "203.0.113.7"), setField("node.agent_addresses", `["10.0.0.4"]`)),
	}, diag.OutcomePass},
	"an agent in a network of its " +
		"own": {answers{readModelFact: allOf(setField("node.private_ip", "10.1.0.7"),
		setField("node.agent_addresses", `["10.99.0.2"]`)),
		"node_readiness/process": func(f *diag.Fact) {
			f.Unit.Confined = &diag.Confinement{OwnNetwork: true, NetworkPath: "/run/netns/a"}
		}}, diag.OutcomePass},
	"an agent whose unit denies what it does not need": {answers{
		"node_readiness/process": func(f *diag.Fact) {
			f.Unit.Confined = &diag.Confinement{IPDeny: []string{"0.0.0.0/0"}, IPAllow: []string{"192.0.2.0/24"},
				CgroupFilters: []string{"egress"}}
		}}, diag.OutcomePass},
	"a fingerprint with colons": {
		answers{authFact: allOf(setField("trust.signing_ca", "AA:BB:CC"), setField("trust.ingress_ca", "aabbcc"))},
		diag.OutcomePass,
	},
	"a fingerprint with its hash": {
		answers{authFact: allOf(setField("trust.signing_ca", "SHA256:aabbcc"), setField("trust.ingress_ca", "aabbcc"))},
		diag.OutcomePass,
	},
	"an ingress that takes what the platform signs, and another CA": {answers{
		authFact:      allOf(setField("trust.signing_ca", "aa"), setField("trust.ingress_ca", "bb")),
		readModelFact: setField("node.cert_issuer_fingerprint", "AA")}, diag.OutcomePass},
	"a node with two names": {answers{readModelFact: setField("node.id", "7f3c"),
		allocationFact: setField("allocation.node_id", "7F3C"), "node_recovery_status/profile": func(f *diag.Fact) {
			f.Env.Values["GPUAAS_NODE_ID"] = "7f3c"
		}}, diag.OutcomeInconclusive},
	"a node id in capitals": {answers{allocationFact: setField("allocation.node_id", "NODE-1")}, diag.OutcomePass},
	"a certificate for a name that only the platform knows": {answers{"node_recovery_status/identity": func(f *diag.Fact) {
		no := false
		f.Cert.NodeBound, f.Cert.BoundTo = &no, "uuid-1"
	}}, diag.OutcomeWarn},
	"a certificate that is replaced while the walk looks": {
		answers{"node_recovery_status/identity": failWith(diag.FileMismatch, "pair")}, diag.OutcomeInconclusive,
	},
	"a certificate past its date that the platform takes": {
		answers{"node_recovery_status/identity": dated(noon.Add(-time.Hour))}, diag.OutcomeWarn,
	},
	"an agent that is stopped after its no-op, or started before it": {
		answers{"node_readiness/process": unitIs(diag.UnitInactive, "inactive", "dead")}, diag.OutcomeInconclusive,
	},
	"an agent that is just started": {answers{"node_readiness/process": unitIs(diag.UnitInactive, "activating", "start")},
		diag.OutcomeInconclusive},
	"an agent that is just stopped": {
		answers{"node_readiness/process": unitIs(diag.UnitInactive, "deactivating", "stop-sigterm")},
		diag.OutcomeInconclusive,
	},
	"an agent started by a container's client": {answers{"node_readiness/binary": func(f *diag.Fact) {
		no := false
		f.Binary = &diag.BinaryFacts{Path: "/usr/bin/docker", OurAgent: &no, Kind: "elf",
			GoMain: "github.com/docker/cli/cmd/docker"}
	}}, diag.OutcomeWarn},
	"a program that a deploy is just replacing": {answers{"node_readiness/binary": func(f *diag.Fact) {
		f.Failure, f.Phase = diag.BinaryMissing, "stat"
	}}, diag.OutcomeWarn},
	"a file system that counts nothing": {
		answers{"node_readiness/disk": func(f *diag.Fact) { f.Disk = &diag.DiskFacts{} }}, diag.OutcomePass,
	},
}

// oddWords has states that the reference platform does not have, and answers to a session that does not exist.
var oddWords = map[string]odd{
	"an allocation that is running": {answers{allocationFact: setField("allocation.state", "running")},
		diag.OutcomeInconclusive},
	"a no-op that succeeded": {answers{taskFact: unended("succeeded")}, diag.OutcomeInconclusive},
	"a no-op that is running": {answers{taskFact: allOf(unended("running"), omits("task.claimed_at"))},
		diag.OutcomeInconclusive},
	"a no-op that was cancelled": {answers{taskFact: allOf(unended("cancelled"), omits("task.claimed_at"))},
		diag.OutcomeInconclusive},
	"a no-op that fails in an unknown word": {
		answers{taskFact: allOf(setField("task.status", "failed"), setField("task.error_code", "busy"))},
		diag.OutcomeInconclusive,
	},
	"a no-op that a stopping agent refuses": {
		answers{taskFact: allOf(setField("task.status", "failed"), setField("task.error_code", "agent_stopping"))},
		diag.OutcomeInconclusive,
	},
	"a terminal.open that succeeded": {answers{rowFact: setField("session.task_status", "succeeded")},
		diag.OutcomeInconclusive},
	"a terminal.open in a row that lags": {
		answers{rowFact: allOf(setField("session.task_status", "queued"), omits("session.task_claimed_at"))},
		diag.OutcomeInconclusive,
	},
	"a gateway with another word for 404": {answers{streamFact: streamRefusal(404, "unknown_session")}, diag.OutcomePass},
	"a gateway without a word for 404":    {answers{streamFact: streamRefusal(404, "")}, diag.OutcomePass},
	"a gateway that wants a UUID":         {answers{streamFact: streamRefusal(400, "bad_session_id")}, diag.OutcomePass},
	"a gateway that hides its sessions": {answers{streamFact: streamRefusal(403, "session_forbidden")},
		diag.OutcomePass},
}

const (
	appUnitFact = "app_runtime_liveness/unit"
	appPortFact = "app_runtime_liveness/port"
)

// oddWorkloads has workloads without a unit, at another address, with their own login, or with a slow start.
var oddWorkloads = map[string]odd{
	"no unit": {answers{allocationFact: omits("allocation.app_unit"),
		appUnitFact: unitIs(diag.UnitMissing, "inactive", "dead")}, diag.OutcomePass},
	"no port": {answers{allocationFact: allOf(setField("allocation.app_port", "0"), omits("allocation.app_endpoint")),
		appPortFact: failWith(diag.TCPRefused, "tcp")}, diag.OutcomeInconclusive},
	"its own port": {answers{appPortFact: failWith(diag.TCPRefused, "tcp")}, diag.OutcomeWarn},
	"its own address": {answers{appPortFact: failWith(diag.TCPRefused, "tcp"), routeFact: refusal(404, ""),
		appUnitFact: func(f *diag.Fact) {
			f.Unit.Listening = []string{"192.0.2.101:8888"}
		}}, diag.OutcomeInconclusive},
	"a long start": {answers{appUnitFact: unitIs(diag.UnitInactive, "activating", "start")},
		diag.OutcomeInconclusive},
	"a login of its own":   {answers{routeFact: refusal(401, "")}, diag.OutcomeInconclusive},
	"nothing at its root":  {answers{routeFact: refusal(404, "")}, diag.OutcomeInconclusive},
	"an API for POST only": {answers{routeFact: refusal(405, "")}, diag.OutcomeInconclusive},
	"an operator's clock 10 min " +
		"ahead": {answers{allocationFact: allOf(setField("allocation.app_last_observed_at", at(-10*time.Minute)),
		stated(noon.Add(-10*time.Minute))), readModelFact: omits("node.now")}, diag.OutcomePass},
	"an edge's clock 10 min " +
		"ahead": {answers{allocationFact: allOf(setField("allocation.app_last_observed_at", at(-3*time.Second)),
		stated(noon.Add(10*time.Minute)))}, diag.OutcomePass},
}

// TestNobodyIsBlamedInAnOddWorld: a mere difference from the reference platform is not blamed on node or platform. If
// the walk cannot decide, it names who can supply the missing input.
func TestNobodyIsBlamedInAnOddWorld(t *testing.T) {
	for group, rows := range map[string]map[string]odd{"edges": oddEdges, "nodes": oddNodes, "words": oddWords,
		"workloads": oddWorkloads} {
		for name, o := range rows {
			t.Run(group+"/"+name, func(t *testing.T) {
				r := walkWith(t, o.answers)
				v := r.Verdict
				switch {
				case v.Outcome != o.want, v.Blame != nil, v.FirstFailedHop != "", v.Reason != diag.ReasonNone:
					t.Errorf("%s, want %s, reason %s, blame %+v, classified by %q\n%s", v.Outcome, o.want, v.Reason, v.Blame,
						r.Classification.Because, describe(r))
				case v.Outcome == diag.OutcomeInconclusive && (v.Owner == "" || len(v.Recovery) == 0):
					t.Errorf("owner %q, steps %q", v.Owner, v.Recovery)
				}
				replaysToItself(t, r)
			})
		}
	}
}

// TestFaultsBesideTheOddOnes: the nearest real fault to each odd world is still blamed.
func TestFaultsBesideTheOddOnes(t *testing.T) {
	issuer := allOf(setField("trust.signing_ca", "aa"), setField("trust.ingress_ca", "bb"))
	gone := unitIs(diag.UnitMissing, "inactive", "dead")
	for name, c := range map[string]struct {
		answers answers
		want    diag.Signal
	}{
		"an allocation that was released": {answers{allocationFact: setField("allocation.state", "released")},
			diag.SigAllocationNotActive},
		"an allocation of another node": {answers{allocationFact: setField("allocation.node_id", "node-2")},
			diag.SigAllocationNodeMismatch},
		"a no-op that nobody claims": {answers{taskFact: nobodyClaims}, diag.SigTaskClaimFailed},
		"a no-op whose key the agent does not have": {answers{taskFact: allOf(setField("task.status", "failed"),
			setField("task.error_code", "task_unverifiable"))}, diag.SigTaskClaimFailed},
		"a mint that fails": {answers{mintFact: refusal(500, "internal")}, diag.SigTokenMintFailed},
		"no route for the gateway": {answers{publicFact: answerOf(404, diag.HTTPEdgePage),
			sessionFact: refusedUpgrade(404)}, diag.SigPublicRouteMissing},
		"an API whose pages all fail": {answers{healthFact: refusal(503, ""), authFact: refusal(503, "")},
			diag.SigControlPlaneUnreachable},
		"two CAs by the platform's word": {answers{authFact: issuer}, diag.SigIngressCADrift},
		"a workload's unit that is gone": {answers{appUnitFact: gone}, diag.SigAppStopped},
		"a workload's port that is dead": {answers{appPortFact: failWith(diag.TCPRefused, "tcp"),
			routeFact: answerOf(502, diag.HTTPEdgePage)},
			diag.SigAppStopped},
		"a route that the edge omits": {answers{routeFact: answerOf(404, diag.HTTPEdgePage)}, diag.SigAppRouteFailed},
		"a heartbeat that is refused": {answers{readModelFact: allOf(setField("node.last_heartbeat_at", at(-time.Hour)))},
			diag.SigHeartbeatStale},
		"a node that was never heard": {answers{taskFact: nobodyClaims,
			readModelFact: omits("node.last_seen_at", "node.check_heartbeat")},
			diag.SigHeartbeatStale},
		"an agent that crashes": {answers{"node_readiness/process": unitIs(diag.UnitFailed, "activating", "auto-restart")},
			diag.SigProcessDown},
	} {
		t.Run(name, func(t *testing.T) {
			if r := walkWith(t, c.answers); r.Verdict.Blame == nil || r.Verdict.Blame.Signal != c.want {
				t.Errorf("blame %+v, want %s\n%s", r.Verdict.Blame, c.want, describe(r))
			}
		})
	}
}

// TestAcceptedIsSaidOfTheAPIAlone: a page that the API's address shows to any client does not accept a token.
func TestAcceptedIsSaidOfTheAPIAlone(t *testing.T) {
	html := func(f *diag.Fact) { f.HTTP = &diag.HTTPFacts{Status: 200, ContentType: "text/html"} }
	moved := func(f *diag.Fact) { f.HTTP = &diag.HTTPFacts{Status: 301} }
	for name, change := range map[string]func(*diag.Fact){"a page for everything": html, "a redirect": moved} {
		h := hopOf(walkWith(t, answers{authFact: change}), diag.HopControlPlaneAccess)
		if h.Status != diag.StatusPass || h.Text != "https://api.test answers 200; the trust page answers HTTP "+
			map[string]string{"a redirect": "301", "a page for everything": "200"}[name]+
			" without a field of the API, so the token is not verified" {
			t.Errorf("%s: %s: %q", name, h.Status, h.Text)
		}
	}
}

// TestOneFindingIsNoOtherFault: a reason whose evidence is the blame's own finding is not reported as another fault.
func TestOneFindingIsNoOtherFault(t *testing.T) {
	r := walkWith(t, answers{allocationFact: answerOf(502, diag.HTTPEdgePage)})
	if k := r.Classification; k.Reason != diag.ReasonControlPlaneUnreachable ||
		!strings.HasSuffix(k.Beside, "of the same finding") {
		t.Errorf("%s because %q, beside %q", k.Reason, k.Because, k.Beside)
	}
}

// TestNoLookUpOfAnAddress: no step looks a name up if an address is dialled.
func TestNoLookUpOfAnAddress(t *testing.T) {
	const reach = "node_runtime_api_reachability/reach"
	seen := map[bool]bool{}
	for _, source := range []string{"literal", "dns"} {
		r := walkWith(t, answers{reach: func(f *diag.Fact) {
			failWith(diag.TCPRefused, "tcp")(f)
			f.DNS = &diag.DNSFacts{Name: "192.0.2.11", Source: source}
			if source == "dns" {
				f.Failure, f.Phase, f.TCP = diag.DNSTimeout, "dns", nil
			}
		}})
		seen[source == "literal"] = strings.Contains(strings.Join(r.Verdict.Recovery, " "), "getent ahosts")
	}
	if seen[true] || !seen[false] {
		t.Errorf("a step looks it up: of an address %t, of a name %t", seen[true], seen[false])
	}
}
