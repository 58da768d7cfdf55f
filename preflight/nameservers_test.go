package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// turns adds the answers of two name servers to a fact.
func turns(rotates bool, first, second diag.DNSAnswer, then func(*diag.Fact)) func(*diag.Fact) {
	return func(f *diag.Fact) {
		then(f)
		if f.DNS == nil {
			f.DNS = &diag.DNSFacts{Name: "api.test", Source: "dns", Server: "192.0.2.1:53"}
		}
		f.DNS.Rotates, f.DNS.Servers = rotates, []diag.DNSAnswer{first, second}
	}
}

var (
	givesAddress  = diag.DNSAnswer{Server: "192.0.2.1:53", RCode: "NOERROR", Addresses: []string{"192.0.2.11"}}
	givesOther    = diag.DNSAnswer{Server: "192.0.2.2:53", RCode: "NOERROR", Addresses: []string{"203.0.113.9"}}
	deniesTheName = diag.DNSAnswer{Server: "192.0.2.2:53", RCode: "NXDOMAIN"}
	failsToAnswer = diag.DNSAnswer{Server: "192.0.2.2:53", RCode: "SERVFAIL"}
)

// TestNameServersThatDisagreeAreAWarning: whichever of them answered this walk, some look-ups fail.
func TestNameServersThatDisagreeAreAWarning(t *testing.T) {
	passed := func(*diag.Fact) {}
	for name, tc := range map[string]struct {
		do    func(*diag.Fact)
		warns bool
	}{
		"one denies the name":        {turns(true, givesAddress, deniesTheName, passed), true},
		"one fails":                  {turns(true, givesAddress, failsToAnswer, passed), false},
		"one has other addresses":    {turns(true, givesAddress, givesOther, passed), false},
		"they do not take turns":     {turns(false, givesAddress, deniesTheName, passed), false},
		"one did not answer by then": {turns(true, givesAddress, diag.DNSAnswer{Server: "192.0.2.2:53"}, passed), false},
	} {
		r := walkWith(t, answers{reach: tc.do, stream: tc.do})
		warned := strings.Count(describe(r), "take turns and do not agree")
		if (r.Verdict.Outcome == diag.OutcomeWarn) != tc.warns || (warned > 0) != tc.warns || r.Verdict.Blame != nil ||
			hopOf(r, diag.HopNodeTerminalReachability).Status != diag.StatusPass {
			t.Errorf("%s: %s\n%s", name, r.Verdict.Outcome, describe(r))
		}
	}
}

// TestADeadFirstNameServerIsAWarning: look-ups that wait a second for it work, and are slow.
func TestADeadFirstNameServerIsAWarning(t *testing.T) {
	dead := diag.DNSAnswer{Server: "192.0.2.9:53"}
	timedOut := diag.DNSAnswer{Server: "192.0.2.9:53", Failure: diag.DNSTimeout}
	fails := diag.DNSAnswer{Server: "192.0.2.9:53", RCode: "SERVFAIL"}
	lookUp := func(ms diag.Millis, servers ...diag.DNSAnswer) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.DNS = &diag.DNSFacts{Name: "api.test", Source: "dns", Server: "192.0.2.1:53", DurationMS: ms,
				Addresses: []string{"192.0.2.11"}, Servers: servers}
		}
	}
	for name, tc := range map[string]struct {
		do    func(*diag.Fact)
		warns bool
	}{
		"silent":             {lookUp(2005, dead, givesAddress), true},
		"timed out":          {lookUp(2005, timedOut, givesAddress), true},
		"the second is dead": {lookUp(2005, givesAddress, dead), false},
		"it was quick":       {lookUp(12, dead, givesAddress), false},
		"it fails":           {lookUp(2005, fails, givesAddress), false},
		"it is the only one": {lookUp(2005, givesAddress), false},
	} {
		r := walkWith(t, answers{reach: tc.do, stream: tc.do})
		warned := strings.Count(describe(r), "gave no answer, so the look-up of")
		if (r.Verdict.Outcome == diag.OutcomeWarn) != tc.warns || (warned == 1) != tc.warns || r.Verdict.Blame != nil {
			t.Errorf("%s: %s, %d warnings\n%s", name, r.Verdict.Outcome, warned, describe(r))
		}
	}
}

// TestANameServerThatAnswersElsewhereIsNotDead: the look-up lost a packet. Another name's warning is the same one.
func TestANameServerThatAnswersElsewhereIsNotDead(t *testing.T) {
	lookUp := func(name, by string, ms diag.Millis) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.DNS = &diag.DNSFacts{Name: name, Source: "dns", Server: by, DurationMS: ms, Addresses: []string{"192.0.2.11"},
				Servers: []diag.DNSAnswer{{Server: "192.0.2.9:53"}, givesAddress}}
		}
	}
	slow := lookUp("api.test", "192.0.2.1:53", 2005)
	if r := walkWith(t, answers{reach: slow, stream: lookUp("term.test", "192.0.2.9:53", 3)}); r.Verdict.Outcome !=
		diag.OutcomePass {
		t.Errorf("a server that answers: %s\n%s", r.Verdict.Outcome, describe(r))
	}
	r := walkWith(t, answers{reach: slow, stream: lookUp("term.test", "192.0.2.1:53", 2009)})
	if n := strings.Count(describe(r), "gave no answer, so the look-up of"); n != 1 {
		t.Errorf("%d warnings, want 1\n%s", n, describe(r))
	}
}

// TestNameServersThatTakeTurnsProveNothing: which of them answered a look-up is chance.
func TestNameServersThatTakeTurnsProveNothing(t *testing.T) {
	for _, rotates := range []bool{false, true} {
		lied := turns(rotates, givesOther, givesAddress, failWith(diag.TCPTimeout, "tcp"))
		r := walkWith(t, answers{reach: lied, reach + "~host-view": lied})
		v := r.Verdict
		if v.Blame == nil || (v.Confidence == diag.Proven) == rotates ||
			strings.Contains(v.Unproven, "take turns") != rotates ||
			!strings.Contains(v.Blame.Text, "do not agree: 192.0.2.2:53 gives 203.0.113.9, 192.0.2.1:53 gives 192.0.2.11") {
			t.Errorf("%t: %s, %s\n%s", rotates, v.Confidence, v.Unproven, describe(r))
		}
	}
}

// TestATruncatedAnswerIsNamed: the server answered, and only the query over TCP failed.
func TestATruncatedAnswerIsNamed(t *testing.T) {
	r := walkWith(t, answers{reach: func(f *diag.Fact) {
		failWith(diag.DNSRefused, "dns")(f)
		f.DNS = &diag.DNSFacts{Name: "api.test", Server: "192.0.2.1:53", Truncated: true}
	}})
	if text := hopOf(r, diag.HopNodeRuntimeAPI).Text; !strings.Contains(text, "its answer over UDP is truncated") {
		t.Error(text)
	}
}

// TestOwnResolver: a resolver on the asking machine, at which nothing listens, or that fails where the servers behind
// it do not, is that machine's fault and not the network's.
func TestOwnResolver(t *testing.T) {
	asks := func(word diag.Failure, errno, server string, all ...string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			failWith(word, "dns")(f)
			f.Errno, f.DNS.Server = errno, server
			for _, s := range all {
				f.DNS.Servers = append(f.DNS.Servers, diag.DNSAnswer{Server: s, Failure: word})
			}
		}
	}
	behind := func(all ...diag.DNSAnswer) func(*diag.Fact) {
		return func(f *diag.Fact) { f.DNS.Behind, f.DNS.BehindFile = all, "/run/x" }
	}
	const stub = "127.0.0.53:53"
	for name, tc := range map[string]struct {
		facts       []string
		do          func(*diag.Fact)
		owner, text string
	}{
		"nothing listens": {[]string{reach, stream}, asks(diag.DNSRefused, "ECONNREFUSED", stub), "node runtime",
			"asked 127.0.0.53:53, a resolver on the node itself, where nothing listens)"},
		"no server named": {[]string{reach, stream}, allOf(asks(diag.DNSRefused, "ECONNREFUSED", "127.0.0.1:53"),
			func(f *diag.Fact) { f.DNS.Unset = true }), "node runtime",
			"where nothing listens: its resolv.conf names no server)"},
		"another server as well": {[]string{reach, stream},
			asks(diag.DNSRefused, "ECONNREFUSED", stub, stub, "192.0.2.1:53"), "environment networking",
			"asked 127.0.0.53:53)"},
		"it refuses the name": {[]string{reach, stream}, asks(diag.DNSRefused, "", stub), "environment networking",
			"a resolver on the node itself)"},
		"it fails, and what it asks does not": {[]string{reach, stream}, allOf(asks(diag.DNSServFail, "", stub),
			behind(diag.DNSAnswer{Server: "192.0.2.1:53", Addresses: []string{"192.0.2.11"}, RCode: "NOERROR"})),
			"node runtime", "a resolver on the node itself, while 192.0.2.1:53, which /run/x names, gives 192.0.2.11)"},
		"it is silent, as is one of those that it asks": {[]string{reach, stream}, allOf(asks(diag.DNSTimeout, "", stub),
			behind(diag.DNSAnswer{Server: "192.0.2.2:53", Failure: diag.DNSTimeout},
				diag.DNSAnswer{Server: "192.0.2.1:53", Addresses: []string{"192.0.2.11"}, RCode: "NOERROR"})),
			"environment networking", "while 192.0.2.1:53, which /run/x names, gives"},
		"what it asks fails as well": {[]string{reach, stream}, allOf(asks(diag.DNSServFail, "", stub),
			behind(diag.DNSAnswer{Server: "192.0.2.1:53", Failure: diag.DNSTimeout})),
			"environment networking", "and the servers that /run/x names fail as well: 192.0.2.1:53 dns_timeout)"},
		"the operator's fails": {[]string{healthFact, authFact}, allOf(asks(diag.DNSServFail, "", stub),
			behind(diag.DNSAnswer{Server: "192.0.2.1:53", Addresses: []string{"192.0.2.11"}})),
			"operator access", "a resolver on this operator's machine, while 192.0.2.1:53"},
		"the operator's": {[]string{healthFact, authFact}, asks(diag.DNSRefused, "ECONNREFUSED", "[::1]:53"),
			"operator access", "a resolver on this operator's machine, where nothing listens)"},
	} {
		changed := answers{}
		for _, id := range tc.facts {
			changed[id] = tc.do
		}
		r := walkWith(t, changed)
		v := r.Verdict
		if v.Blame == nil || !strings.Contains(v.Blame.Text, tc.text) || !strings.HasPrefix(v.Owner, tc.owner) ||
			strings.Contains(strings.Join(v.Recovery, " "), "resolver on it") != (tc.owner == "node runtime") ||
			len(v.OtherFindings) > 0 {
			t.Errorf("%s: %s, %+v, %q\n%s", name, v.Owner, v.Blame, v.Recovery, describe(r))
		}
	}
}

// TestAnotherServerKnowsTheName: a resolver on the node that fails is at fault if another server, asked by the node,
// has the name.
func TestAnotherServerKnowsTheName(t *testing.T) {
	fails := func(f *diag.Fact) {
		failWith(diag.DNSServFail, "dns")(f)
		f.DNS.Server = "127.0.0.1:53"
	}
	for _, known := range []bool{true, false} {
		all := answers{reach: fails, stream: fails}
		if !known {
			for _, id := range []string{reach, stream} {
				all[id+"~name-server-1"] = failWith(diag.DNSServFail, "dns")
			}
		}
		v := inMadeUpTime(t, func(t *testing.T) diag.Verdict {
			e := testEnv()
			e.Profile.NodeNameServers = []string{"192.0.2.1"}
			return walkFrom(t.Context(), e, map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator, answers: all},
				hop.Node: &scripted{name: hop.Node, answers: all}}).Verdict
		})
		if (v.Owner == "node runtime") != known {
			t.Errorf("%t: %s, %+v", known, v.Owner, v.Blame)
		}
	}
}
