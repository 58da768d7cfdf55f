package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

const programsFact = "node_runtime_api_reachability/programs"

// TestWhatTheNodesProgramsGet: a look-up by getent is compared with the walk's own, and a node without getent, or with
// a name that rotates, is none the worse.
func TestWhatTheNodesProgramsGet(t *testing.T) {
	walk := func(ms diag.Millis, unanswered string, addresses ...string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.DNS = &diag.DNSFacts{Name: "node-api.test", Source: "dns", Server: "192.0.2.53:53", DurationMS: ms,
				Unanswered: unanswered, Addresses: addresses}
		}
	}
	own := walk(257, "AAAA", "192.0.2.11")
	programs := func(ms diag.Millis, word diag.Failure, addresses ...string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.DNS.DurationMS, f.DNS.Addresses = ms, addresses
			if f.Failure = word; word != diag.OK {
				f.Phase = "dns"
			}
		}
	}
	const address = "192.0.2.11"
	for what, c := range map[string]struct {
		reach, programs, wait func(*diag.Fact)
		failure               diag.Failure // "": nothing is said
		says                  string
	}{
		"as the walk": {walk(2, "", address), programs(4, diag.OK, address), nil, "", ""},
		"a name server that drops AAAA": {own, programs(3000, diag.DNSTimeout), nil, diag.DNSTimeout,
			"wait at least 3.0 s to look up node-api.test (getent), and this walk's own look-up took 257 ms; the name " +
				"server 192.0.2.53:53 left the query for AAAA unanswered"},
		"one that drops the second query": {own, programs(2501, diag.OK, address), nil, diag.DNSTimeout, "wait 2.5 s"},
		"a dead source of names": {walk(3, "", address), programs(1800, diag.OK, address), nil,
			diag.DNSTimeout, "wait 1.8 s"},
		"the walk waited as long": {walk(1900, "", address), programs(2100, diag.OK, address), nil, "", ""},
		"a busy machine":          {walk(3, "", address), programs(400, diag.OK, address), nil, "", ""},
		"a name that no program finds": {walk(3, "", address), programs(4, diag.DNSNXDomain), nil, diag.DNSNXDomain,
			"get no address of node-api.test"},
		"another address": {walk(3, "", address), programs(4, diag.OK, "127.0.1.1"), nil, diag.DNSMismatch,
			"look up node-api.test as 127.0.1.1 (getent), and this walk as 192.0.2.11"},
		"one more address": {walk(3, "", address), programs(4, diag.OK, "127.0.1.1", address), nil, "", ""},
		"a name that rotates": {walk(3, "", address), programs(4, diag.OK, "192.0.2.13"), walk(3, "", "192.0.2.12"),
			"", ""},
		"no getent": {walk(3, "", address), func(f *diag.Fact) {
			f.Failure, f.Phase, f.DNS = diag.Unsupported, "dns", nil
		}, nil, "", ""},
		"another getent": {walk(3, "", address), programs(4, diag.Unsupported), nil, "", ""},
		"a literal address": {walk(3, "", address), func(f *diag.Fact) {
			f.DNS.Source,
				f.DNS.Addresses = "literal", []string{"192.0.2.9"}
		}, nil, "", ""},
		"the walk finds none": {failWith(diag.DNSNXDomain, "dns"), programs(4, diag.DNSNXDomain), nil, "", ""},
		"an old helper": {walk(3, "", address), func(f *diag.Fact) {
			f.Failure, f.DNS = diag.Unsupported,
				nil
		}, nil, "", ""},
	} {
		t.Run(what, func(t *testing.T) {
			a := answers{reach: c.reach, programsFact: c.programs}
			if c.wait != nil {
				a[waitFact] = c.wait
			}
			r := walkWith(t, a)
			h := hopOf(r, diag.HopNodeRuntimeAPI)
			said := h.Text
			for _, w := range h.Also {
				said += w.Text
			}
			warned := h.Signal == diag.SigNameLookup && h.Status == diag.StatusWarn && h.Failure == c.failure
			if warned != (c.failure != "") || (c.says != "" && !strings.Contains(said, c.says)) ||
				(c.failure == "" && strings.Contains(said, "programs on the node")) {
				t.Errorf("%s %s %s: %s", h.Status, h.Signal, h.Failure, said)
			}
			if warned && (r.Verdict.Outcome != diag.OutcomeWarn) {
				t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
			}
		})
	}
}
