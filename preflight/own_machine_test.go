package preflight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

func figure(n int64) *int64 { return &n }

// outOfIt is a probe that failed because its machine was out of a resource.
func outOfIt(r diag.Resource, scope diag.Scope, errno, phase string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		failWith(diag.HostExhausted, phase)(f)
		f.Errno = errno
		f.Disk, f.Unit, f.Binary, f.Clock, f.Cert, f.Env, f.Record, f.User, f.SSH, f.TLS = nil, nil, nil, nil, nil, nil, nil,
			nil, nil, nil
		f.Shortage = &diag.ShortageFacts{Resource: r, Scope: scope}
		if scope != "" {
			f.Shortage.Setting, f.Shortage.Limit, f.Shortage.Used = "the setting", figure(8), figure(8)
			f.Shortage.Holders = []diag.Holder{{Name: "leaky", Held: 7}, {Held: 1}}
		}
	}
}

// refusedHere is a probe that its own machine denied.
func refusedHere(errno string, d diag.DenialFacts) func(*diag.Fact) {
	return func(f *diag.Fact) {
		failWith(diag.TCPDenied, "tcp")(f)
		f.Errno, f.Denial, f.TLS = errno, &d, nil
	}
}

// measurable returns every step of the chain that measures something, by its fact id.
func measurable() map[string]hop.Step {
	out := map[string]hop.Step{}
	for _, h := range hops.BuiltIn().List() {
		for _, s := range h.Steps {
			if !h.Optional && !s.Pure() && s.Uses == "" && s.From != hop.Platform && !s.Policy.Optional &&
				s.Name != hop.StepGPUJudged { // not in this plan
				out[hop.FactID(h.ID, s.Name)] = s
			}
		}
	}
	return out
}

// TestOutOfIt: whatever a machine is out of, at whatever step, only that machine is named: the operator's for any
// limit, a login's for its own, and the node for a limit that its agent shares.
func TestOutOfIt(t *testing.T) {
	kinds := []struct {
		resource diag.Resource
		errno    string
	}{
		{diag.OpenFiles, "EMFILE"}, {diag.OpenFiles, "ENFILE"}, {diag.LocalPorts, "EADDRNOTAVAIL"},
		{diag.LocalPorts, "EAGAIN"}, {diag.Processes, "EAGAIN"}, {diag.Memory, "ENOMEM"}, {diag.NetworkBuffers, "ENOBUFS"},
	}
	scopes := []diag.Scope{"", diag.ScopeProcess, diag.ScopeUser, diag.ScopeCgroup, diag.ScopeNetwork, diag.ScopeMachine}
	cells := 0
	for id, step := range measurable() {
		for _, k := range kinds {
			for _, scope := range scopes {
				for _, phase := range []string{"dns", "tcp", "http"} {
					if cells++; testing.Short() && cells%7 != 0 { // the race detector's run: the code is the same
						continue
					}
					name := fmt.Sprintf("%s %s %s %s in %s", id, k.resource, k.errno, scope, phase)
					r := walkWith(t, answers{id: outOfIt(k.resource, scope, k.errno, phase)})
					of, _, _ := strings.Cut(id, "/")
					h, v := hopOf(r, diag.HopID(of)), r.Verdict
					nodes := step.From == hop.Node && id != loginFact && scope.Shared()
					switch {
					case nodes && (v.Blame == nil || v.Blame.Hop != h.ID || v.Blame.Signal != diag.SigNodeExhausted ||
						v.Owner != "node runtime"):
						t.Errorf("%s: blame %+v of %s\n%s", name, v.Blame, v.Owner, describe(r))
					case nodes && !strings.Contains(v.Blame.Text, "used, the setting), most held by leaky"):
						t.Errorf("%s: %q", name, v.Blame.Text)
					case !nodes && (v.Outcome != diag.OutcomeInconclusive || v.Reason != diag.ReasonNone ||
						v.Owner != "operator access"):
						t.Errorf("%s: %s, %s, owner %s, blame %+v\n%s", name, v.Outcome, v.Reason, v.Owner, v.Blame, describe(r))
					case !nodes && h.Status != diag.StatusInconclusive:
						t.Errorf("%s: the hop is %s", name, h.Status)
					}
					if v.Confidence == diag.Proven {
						t.Errorf("%s: proven", name)
					}
					if t.Failed() {
						return
					}
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

// TestDeniedHere: the text names the policy that was read, on both sides.
func TestDeniedHere(t *testing.T) {
	filter := diag.DenialFacts{PacketFilters: []string{"nft inet fault c: rules that may drop or reject: 1"},
		Seccomp: "off"}
	for _, errno := range []string{"EPERM", "EACCES", "EAFNOSUPPORT"} {
		for _, tc := range []struct {
			name  string
			d     diag.DenialFacts
			nodes bool // the node's own, and its agent's as well
			text  string
		}{
			{"packet filter", filter, true, "packet filter nft inet fault c"},
			{"route", diag.DenialFacts{Route: "prohibit", Seccomp: "off"}, true, "its routes say prohibit"},
			{"cgroup", diag.DenialFacts{CgroupFilters: []string{"egress"}, Seccomp: "off"}, false,
				"filters on the control group (egress)"},
			{"seccomp", diag.DenialFacts{Seccomp: "filter"}, false, "a filter of system calls"},
			{"nothing", diag.DenialFacts{Seccomp: "off"}, true, "no policy was found"},
			{"unread", diag.DenialFacts{Seccomp: "off", Unread: []string{"packet filters: operation not permitted"}}, true,
				"not read: packet filters"},
		} {
			for id, step := range measurable() {
				of, _, _ := strings.Cut(id, "/")
				if id == loginFact || of == string(diag.HopNodeReadiness) || strings.HasSuffix(id, hop.StepIdentity) ||
					strings.HasSuffix(id, hop.StepProfile) || of == string(diag.HopTerminalStartup) ||
					of == string(diag.HopAppRuntimeLiveness) {
					continue // they do not connect
				}
				world := answers{id: refusedHere(errno, tc.d)}
				switch of { // an agent that gets there is not denied
				case string(diag.HopNodeRuntimeAPI), string(diag.HopNodeRecoveryStatus):
					world["node_task_roundtrip/task"] = nobodyClaims
				case string(diag.HopNodeTerminalReachability):
					world["browser_terminal_ws/session"], world["terminal_open_task/session"] = streamTimeout, noStream
				}
				if step.From != hop.Node || !tc.nodes {
					world = answers{id: world[id]}
				}
				r := walkWith(t, world)
				h, v := hopOf(r, diag.HopID(of)), r.Verdict
				name := errno + " by " + tc.name + " at " + id
				if step.From == hop.Node && tc.nodes {
					if v.Blame == nil || v.Blame.Hop != h.ID || v.Blame.Signal != diag.SigAgentConfined || v.Owner != "node runtime" ||
						!strings.Contains(v.Blame.Text, tc.text) {
						t.Fatalf("%s: blame %+v of %s\n%s", name, v.Blame, v.Owner, describe(r))
					}
					continue
				}
				if h.Status != diag.StatusInconclusive || v.Outcome != diag.OutcomeInconclusive || v.Owner != "operator access" ||
					!strings.Contains(h.Because, tc.text) || v.Reason != diag.ReasonNone {
					t.Fatalf("%s: %s of %s, %s\n%s", name, v.Outcome, v.Owner, v.Reason, describe(r))
				}
			}
		}
	}
}

// TestAgentOutOfFiles: an agent at its own limit is a fault if contact is lost, and a warning if it works.
func TestAgentOutOfFiles(t *testing.T) {
	short := func(f *diag.Fact) {
		f.Unit.Short = &diag.ShortageFacts{Resource: diag.OpenFiles, Scope: diag.ScopeProcess, Setting: "LimitNOFILE",
			Limit: figure(64), Used: figure(64), Holders: []diag.Holder{{Name: "gpuaas-agent", Held: 64}}}
	}
	id := hop.FactID(diag.HopNodeReadiness, hop.StepProcess)
	r := walkWith(t, with(silentAgent(), answers{id: short}))
	if v := r.Verdict; v.Blame == nil || v.Blame.Signal != diag.SigNodeExhausted || v.Owner != "node runtime" ||
		!strings.Contains(v.Blame.Text, "64 of 64 used, LimitNOFILE") {
		t.Errorf("%+v\n%s", v.Blame, describe(r))
	}
	r = walkWith(t, answers{id: short})
	if h := hopOf(r, diag.HopNodeReadiness); r.Verdict.Outcome != diag.OutcomeWarn || h.Status != diag.StatusWarn {
		t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
	}
}
