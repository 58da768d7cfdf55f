package world

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// The steps that the facts of the cases below are of.
const (
	page   = string(diag.HopControlPlaneAccess) + "/" + hop.StepHealthz
	auth   = string(diag.HopControlPlaneAccess) + "/" + hop.StepAuth
	reach  = string(diag.HopNodeRuntimeAPI) + "/" + hop.StepReach
	state  = string(diag.HopAllocationBinding) + "/" + hop.StepAllocation
	late   = string(diag.HopNodeTaskRoundtrip) + "/" + hop.StepTask
	stream = string(diag.HopNodeTerminalReachability) + "/" + hop.StepStream
	wait   = string(diag.HopNodeRecoveryStatus) + "/" + hop.StepTaskWait
	state2 = string(diag.HopAllocationBinding) + "/" + stepAllocationAfter
)

// doubtChain has the steps of those facts; a step whose fact fails is a failing finding.
func doubtChain() *hop.Chain {
	of := func(id diag.HopID, from string, steps ...string) hop.Hop {
		h := hop.Hop{ID: id, Meaning: hop.Meaning{Allocation: id == diag.HopAllocationBinding}}
		for _, name := range steps {
			h.Steps = append(h.Steps, hop.Step{Name: name, From: from, Needs: hop.Needs{Token: from == hop.Operator}})
		}
		if id == diag.HopNodeRuntimeAPI {
			h.AgentCame = AgentAnswered
		}
		h.Judge = func(c *hop.Case) (out []diag.Finding) {
			for _, name := range steps {
				if f := c.Fact(id, name); f != nil && !f.Passed() {
					sig := diag.SigAPIUnreachable
					if name == hop.StepTask {
						sig = diag.SigTaskClaimFailed
					}
					out = append(out, diag.Finding{Status: diag.StatusFail, Signal: sig, Evidence: []string{f.ID}})
				}
			}
			return out
		}
		return h
	}
	return hop.NewChain([]hop.Hop{
		of(diag.HopControlPlaneAccess, hop.Operator, hop.StepHealthz, hop.StepAuth),
		of(diag.HopAllocationBinding, hop.Operator, hop.StepAllocation, stepAllocationAfter),
		of(diag.HopNodeRuntimeAPI, hop.Node, hop.StepReach),
		of(diag.HopNodeRecoveryStatus, hop.Node, hop.StepTaskWait),
		of(diag.HopNodeTaskRoundtrip, hop.Operator, hop.StepTask),
		of(diag.HopNodeTerminalReachability, hop.Node, hop.StepStream),
	})
}

// asked is a fact of a request to the API, as a test changes it.
func asked(id string, change func(f *diag.Fact)) diag.Fact {
	f := diag.Fact{ID: id, Vantage: hop.Operator, Target: "https://api.test/x",
		Request: diag.Request{ID: id, Op: diag.OpHTTP, Target: "https://api.test/x"}, DurationMS: 5}
	if strings.HasPrefix(id, string(diag.HopNodeRuntimeAPI)) || strings.HasPrefix(id, stream) || id == wait {
		f.Vantage = hop.Node
	}
	f.HTTP = &diag.HTTPFacts{Status: 200}
	f.TCP = &diag.TCPFacts{Remote: "192.0.2.1:443", Resent: new(int64)}
	if change != nil {
		change(&f)
	}
	return f
}

// failed makes a fact one without an answer.
func failed(failure diag.Failure, phase string) func(*diag.Fact) {
	return func(f *diag.Fact) { f.Failure, f.Phase, f.HTTP = failure, phase, nil }
}

// both applies several changes.
func both(changes ...func(*diag.Fact)) func(*diag.Fact) {
	return func(f *diag.Fact) {
		for _, change := range changes {
			change(f)
		}
	}
}

func at(ms int64) func(*diag.Fact) { return func(f *diag.Fact) { f.OffsetMS = ms } }

func answers(status int) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.HTTP = &diag.HTTPFacts{Status: status}
		if status >= 400 {
			f.Failure, f.Phase = diag.HTTPStatus, "http"
		}
	}
}

func atHealthz(f *diag.Fact) { f.Target, f.Request.Target = "", "https://api.test/healthz" }

func posted(f *diag.Fact) { f.Request.Method = "POST" }

func fields(name, value string) func(*diag.Fact) {
	return func(f *diag.Fact) { f.HTTP.Fields = map[string]string{name: value} }
}

// TestDoubts: each doubt holds for the fact that its first list of facts begins with, and not for that of the second
// one, which differs in what the doubt is about. A new row needs a case.
func TestDoubts(t *testing.T) {
	silent := failed(diag.HTTPTimeout, "http")
	again := func(f *diag.Fact) { *f.TCP.Resent = 2 }
	ended := both(failed(diag.TLSClosed, "tls"), func(f *diag.Fact) { f.TLS = &diag.TLSFacts{CertRequested: new(true)} })
	shown := func(f *diag.Fact) { f.Request.Cert, f.TLS.CertSent = "cert.pem", "ab" }
	anAnswer := func(f *diag.Fact) { f.TCP.AnswerBegan = true }
	rotating := func(second ...string) func(*diag.Fact) {
		return both(failed(diag.TCPTimeout, "tcp"), func(f *diag.Fact) {
			f.DNS = &diag.DNSFacts{Name: "api.test", Rotates: true, Servers: []diag.DNSAnswer{
				{Server: "192.0.2.53", Addresses: []string{"192.0.2.1"}}, {Server: "192.0.2.54", Addresses: second}}}
		})
	}
	type facts []diag.Fact
	culprits := map[string]string{"agent behind loss": reading.LossOf(hop.Node)} // of findings by another vantage
	cases := map[string]struct{ in, out facts }{
		"own machine": {
			facts{asked(reach, failed(diag.HostExhausted, "tcp"))},
			facts{asked(reach, failed(diag.TCPTimeout, "tcp"))}},
		"login's network": {
			facts{asked(reach, both(failed(diag.TCPRefused, "tcp"), func(f *diag.Fact) { f.AgentView = ViewLoginNetwork }))},
			facts{asked(reach, failed(diag.TCPRefused, "tcp"))}},
		"platform ended": {
			facts{asked(auth, both(failed(diag.TCPRefused, "tcp"), at(5000))), asked(page, nil),
				asked(reach, both(failed(diag.TCPRefused, "tcp"), at(5000)))},
			facts{asked(auth, both(failed(diag.TCPRefused, "tcp"), at(5000))), asked(page, nil),
				asked(reach, at(5000))}},
		"guessed path": {
			facts{asked(page, both(answers(404), atHealthz))},
			facts{asked(page, both(answers(404), atHealthz)),
				asked(auth, both(answers(403), func(f *diag.Fact) { f.HTTP.ErrorCode = "fenced" }))}},
		"limiter": {
			facts{asked(page, both(answers(429), func(f *diag.Fact) { f.Failure = diag.HTTPRateLimited }))},
			facts{asked(reach, both(answers(429), func(f *diag.Fact) { f.Failure = diag.HTTPRateLimited }))}},
		"refused beside others": {
			facts{asked(auth, both(failed(diag.HTTPClosed, "http"), posted)),
				asked(page, func(f *diag.Fact) { f.Refused = 1 })},
			facts{asked(auth, both(failed(diag.HTTPClosed, "http"), posted)), asked(page, nil)}},
		"cache": {
			facts{asked(auth, func(f *diag.Fact) { f.HTTP.Cached = "age: 30" })},
			facts{asked(auth, nil)}},
		"changed during the walk": {
			facts{asked(state, fields("allocation.node_id", "a")), asked(state2, fields("allocation.node_id", "b"))},
			facts{asked(state, fields("allocation.node_id", "a")), asked(state2, fields("allocation.node_id", "a"))}},
		"one address family": {
			facts{asked(reach, failed(diag.TCPTimeout, "tcp")), asked(reach+"~other-family", nil)},
			facts{asked(reach, failed(diag.TCPTimeout, "tcp")),
				asked(reach+"~other-family", failed(diag.TCPTimeout, "tcp"))}},
		"answered before": {
			facts{asked(auth, both(failed(diag.TCPRefused, "tcp"), at(900))), asked(page, nil)},
			facts{asked(auth, both(failed(diag.TCPRefused, "tcp"), at(900))), asked(page, at(2000))}},
		"beside others": {
			facts{asked(auth, both(failed(diag.HTTPClosed, "http"), posted)), asked(page, nil)},
			facts{asked(auth, both(failed(diag.HTTPClosed, "http"), posted)), asked(page, at(900))}},
		"unstable network": {
			facts{asked(reach, failed(diag.TCPTimeout, "tcp")), asked(reach+"~1", nil)},
			facts{asked(reach, silent), asked(reach+"~1", nil)}},
		"loss alone": {
			facts{asked(reach, failed(diag.TCPTimeout, "tcp")), asked(reach+"~1", failed(diag.Timeout, "tls")),
				asked(reach+"~2", failed(diag.TCPTimeout, "tcp"))},
			facts{asked(reach, failed(diag.TCPTimeout, "tcp")), asked(reach+"~1", failed(diag.TCPTimeout, "tcp"))}},
		"agent behind loss": {
			facts{asked(late, failed(diag.HTTPTimeout, "poll")), asked(reach, nil), asked(reach+"~1", again),
				asked(stream, nil), asked(stream+"~1", again)},
			facts{asked(late, failed(diag.HTTPTimeout, "poll")), asked(reach, nil), asked(stream, nil),
				asked(stream+"~1", again)}},
		"only new connections": {
			facts{asked(reach, failed(diag.TCPTimeout, "tcp")), asked(late, fields("task.status", "completed"))},
			facts{asked(reach, failed(diag.TCPTimeout, "tcp")), asked(late, fields("task.status", "queued"))}},
		"mixed results": {
			facts{asked(reach, answers(503)), asked(reach+"~1", nil)},
			facts{asked(reach, answers(503)), asked(reach+"~1", answers(503))}},
		"another answer": {
			facts{asked(auth, answers(403)), asked(auth+"~1", answers(404))},
			facts{asked(auth, answers(403)), asked(auth+"~1", answers(403))}},
		"lossy path": {
			facts{asked(auth, silent), asked(page, func(f *diag.Fact) { *f.TCP.Resent = 2 })},
			facts{asked(auth, silent), asked(page, nil)}},
		"answered later": {
			facts{asked(auth, silent), asked(page, both(answers(503), func(f *diag.Fact) { f.DurationMS = 3000 }))},
			facts{asked(auth, silent), asked(page, func(f *diag.Fact) { f.DurationMS = 3000 })}},
		"answer with a gap": {
			facts{asked(auth, both(silent, func(f *diag.Fact) { f.TCP.Gap = true }))}, facts{asked(auth, silent)}},
		"answer that stopped": {facts{asked(auth, both(silent, anAnswer))}, facts{asked(auth, silent)}},
		"passed at another time": {
			facts{asked(reach, answers(503)), asked(reach+"~1", nil)}, facts{asked(reach, answers(503))}},
		"name servers take turns": {
			facts{asked(auth, rotating("192.0.2.2"))}, facts{asked(auth, rotating("192.0.2.1"))}},
		"ended without a certificate": {
			facts{asked(wait, both(ended, shown)), asked(reach, ended)},
			facts{asked(wait, both(ended, shown)), asked(reach, ended), asked(wait+"~from-operator", ended)}},
		"gap in the answer": {
			facts{asked(auth, both(silent, func(f *diag.Fact) { f.TCP.Gap = true }))}, facts{asked(auth, silent)}},
		"loss from there": {
			facts{asked(auth, silent), asked(page, func(f *diag.Fact) { *f.TCP.Resent = 2 })},
			facts{asked(auth, silent), asked(page, nil)}},
	}
	for _, row := range doubts {
		tc, ok := cases[row.name]
		if !ok {
			t.Errorf("%s has no case", row.name)
			continue
		}
		for i, list := range []facts{tc.in, tc.out} {
			subject := diag.Subject{AllocationID: "alloc-1", Expected: map[string]string{"api_base": "https://api.test",
				"guessed_paths": "healthz"}}
			c := doubtChain().NewCase(subject, diag.Plan{}, diag.EndedCompleted, list)
			d := &doubted{of: ForPair, c: c, fact: &list[0]}
			if row.then != nil {
				h := c.Hop(hop.OfFact(list[0].ID))
				out := &diag.Finding{Status: diag.StatusFail, Text: "it fails", Evidence: []string{list[0].ID}}
				if judged := h.Judge(c); len(judged) > 0 {
					out.Signal = judged[0].Signal
				}
				d = &doubted{of: ForFinding, c: c, fact: &list[0], out: out, hop: h}
			}
			words := row.why(d)
			if (words != "") != (i == 0) {
				t.Errorf("%s: case %d says %q", row.name, i, words)
			}
			if i == 0 && row.then != nil {
				row.then(d, words)
				if d.out.Status == diag.StatusFail && d.out.Text == "it fails" {
					t.Errorf("%s changes nothing of the finding", row.name)
				}
				if want := culprits[row.name]; want != "" && (d.out.Culprit != want || d.out.Side != "") {
					t.Errorf("%s: culprit %q, side %q", row.name, d.out.Culprit, d.out.Side)
				}
			}
		}
	}
}

// TestDoubtsAreDocumented: docs/judging.md has every doubt, in their order.
func TestDoubtsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/judging.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(text)
	for _, row := range doubts {
		i := strings.Index(rest, "| "+row.name+" |")
		if i < 0 {
			t.Errorf("docs/judging.md lacks %q, or has it at another place", row.name)
			continue
		}
		rest = rest[i:]
	}
}
