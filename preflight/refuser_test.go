package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestAnEACCESOverIPv6MayBeARouters: in this world the agent reaches the platform, so a policy of the node can only be
// the login's. Where the kernel does not report who refused, and no policy was found, the node
// itself is not blamed.
func TestAnEACCESOverIPv6MayBeARouters(t *testing.T) {
	for name, tc := range map[string]struct {
		tcp    diag.TCPFacts
		word   diag.Failure
		denial *diag.DenialFacts
		signal diag.Signal
		says   string
	}{
		"IPv4": {diag.TCPFacts{Remote: "192.0.2.11:443"}, diag.TCPDenied, &diag.DenialFacts{Seccomp: "off"},
			diag.SigOperatorMachine, "itself denies the connection"},
		"IPv6, by this kernel": {diag.TCPFacts{Remote: "[2001:db8::1]:443", RefusedHere: true}, diag.TCPDenied,
			&diag.DenialFacts{Seccomp: "off"}, diag.SigOperatorMachine, "itself denies the connection"},
		"IPv6, a route was read": {diag.TCPFacts{Remote: "[2001:db8::1]:443"}, diag.TCPDenied,
			&diag.DenialFacts{Seccomp: "off", Route: "prohibit"}, diag.SigOperatorMachine, "its routes say prohibit"},
		"IPv6, not known": {diag.TCPFacts{Remote: "[2001:db8::1]:443"}, diag.TCPDenied, &diag.DenialFacts{Seccomp: "off"}, "",
			"its own, or that of a router on the path"},
		"IPv6, by a router": {diag.TCPFacts{Remote: "[2001:db8::1]:443", ProhibitedBy: "2001:db8::ff"}, diag.TCPNoRoute, nil,
			diag.SigAPIUnreachable, "2001:db8::ff answers that it is administratively prohibited"},
	} {
		do := func(f *diag.Fact) {
			failWith(tc.word, "tcp")(f)
			f.Errno, f.TCP, f.Denial = "EACCES", &tc.tcp, tc.denial
		}
		r := walkWith(t, answers{reach: do, reach + "~pinned": do, reach + "~host-view": do})
		h := hopOf(r, diag.HopNodeRuntimeAPI)
		if h.Signal != tc.signal || !strings.Contains(h.Text+h.Because, tc.says) {
			t.Errorf("%s: %s %s: %s%s", name, h.Status, h.Signal, h.Text, h.Because)
		}
		if tc.signal == "" && r.Verdict.Outcome == diag.OutcomeFail {
			t.Errorf("%s: %s\n%s", name, r.Verdict.Outcome, describe(r))
		}
	}
}
