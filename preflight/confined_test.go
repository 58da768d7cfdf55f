package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// TestConfined has agents that their own unit keeps from the network, and agents that only look like it.
func TestConfined(t *testing.T) {
	process, reach := hop.FactID(diag.HopNodeReadiness, hop.StepProcess), hop.FactID(diag.HopNodeRuntimeAPI, hop.StepReach)
	stream := hop.FactID(diag.HopNodeTerminalReachability, hop.StepStream)
	unit := func(k diag.Confinement) func(*diag.Fact) {
		return func(f *diag.Fact) { f.Unit.Confined = &k }
	}
	connected := func(f *diag.Fact) {
		f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443"}
		f.DNS = &diag.DNSFacts{Name: "node-api.test", Addresses: []string{"192.0.2.11"}, Source: "dns",
			Server: "192.0.2.53:53"}
	}
	alone := func(f *diag.Fact) {
		failWith(diag.TCPNetUnreachable, "dns")(f)
		f.Errno, f.OwnNetwork = "ENETUNREACH", true
	}
	dropped := func(f *diag.Fact) {
		failWith(diag.TCPTimeout, "tcp")(f)
		f.OwnNetwork = true
	}
	ipDeny := diag.Confinement{IPDeny: []string{"0.0.0.0/0", "::/0"}, CgroupFilters: []string{"egress"}}
	allowing := ipDeny
	allowing.IPAllow = []string{"192.0.2.0/24"}
	noServer := ipDeny
	noServer.IPAllow = []string{"192.0.2.11/32"}
	idle := diag.Confinement{IPDeny: []string{"0.0.0.0/0"}}
	unread := diag.Confinement{IPDeny: []string{"0.0.0.0/0"}, FiltersUnread: "operation not permitted"}
	proxied := ipDeny
	proxied.Proxies = []string{"HTTPS_PROXY"}
	for _, tc := range []struct {
		name    string
		answers answers
		text    string // "": the agent's confinement is not to blame
		proven  bool
	}{
		{"PrivateNetwork", with(silentAgent(),
			answers{process: unit(diag.Confinement{OwnNetwork: true, PrivateNetwork: true}), reach: alone, stream: alone}),
			"(PrivateNetwork=yes), and gets no answer from https://node-api.test there", true},
		{"another netns", with(silentAgent(),
			answers{process: unit(diag.Confinement{OwnNetwork: true, NetworkPath: "/run/netns/x"}), reach: dropped,
				stream: dropped}),
			"(NetworkNamespacePath=/run/netns/x)", true},
		{"another netns, and the machine's network is no better", with(silentAgent(), answers{
			process: unit(diag.Confinement{OwnNetwork: true, NetworkPath: "/run/netns/x"}), reach: dropped,
			reach + "~host-network": failWith(diag.TCPTimeout, "tcp")}), "", false},
		{"a netns that works", answers{process: unit(diag.Confinement{OwnNetwork: true, PrivateNetwork: true}),
			reach: func(f *diag.Fact) { connected(f); f.OwnNetwork = true }}, "", false},
		{"families", with(silentAgent(),
			answers{process: unit(diag.Confinement{AddressFamilies: "AF_NETLINK AF_UNIX", Seccomp: "filter"}),
				reach: connected}),
			"RestrictAddressFamilies=AF_NETLINK AF_UNIX", false},
		{"families that are refused by name",
			with(silentAgent(), answers{process: unit(diag.Confinement{AddressFamilies: "~AF_INET AF_INET6", Seccomp: "filter"}),
				reach: connected}), "RestrictAddressFamilies=~AF_INET AF_INET6", false},
		{"families without IPv6, which it does not need",
			with(silentAgent(), answers{process: unit(diag.Confinement{AddressFamilies: "AF_INET AF_UNIX", Seccomp: "filter"}),
				reach: connected}), "", false},
		{"families in the unit, and no filter on the process",
			with(silentAgent(), answers{process: unit(diag.Confinement{AddressFamilies: "AF_UNIX", Seccomp: "off"}),
				reach: connected}), "", false},
		{"families in the unit, and only its container's filter on the process", with(silentAgent(), answers{
			process: unit(diag.Confinement{AddressFamilies: "AF_UNIX", Seccomp: "machine"}), reach: connected}), "", false},
		{"families, and the agent is heard",
			answers{process: unit(diag.Confinement{AddressFamilies: "AF_UNIX", Seccomp: "filter"}), reach: connected}, "",
			false},
		{"system calls", with(silentAgent(),
			answers{process: unit(diag.Confinement{SystemCalls: true, Seccomp: "filter"}), reach: connected}),
			"SystemCallFilter", false},
		{"addresses", with(silentAgent(), answers{process: unit(ipDeny), reach: connected}),
			"IPAddressDeny=0.0.0.0/0, ::/0, and its cgroup", false},
		{"addresses, but not these", with(silentAgent(), answers{process: unit(allowing), reach: connected}), "", false},
		{"addresses, the DNS server among them", with(silentAgent(), answers{process: unit(noServer), reach: connected}),
			"blocks 192.0.2.53", false},
		{"addresses that no filter denies", with(silentAgent(), answers{process: unit(idle), reach: connected}), "", false},
		{"addresses whose filter was not read", with(silentAgent(), answers{process: unit(unread), reach: connected}),
			"whether it is in force was not read", false},
		{"addresses, and a proxy", with(silentAgent(), answers{process: unit(proxied), reach: connected}), "", false},
		{"addresses, and the agent is heard", answers{process: unit(ipDeny), reach: connected}, "", false},
		{"addresses, and its last contact is young", with(silentAgent(), answers{process: unit(ipDeny), reach: connected,
			hop.FactID(diag.HopNodeHeartbeat, hop.StepReadModel): func(*diag.Fact) {}}), "IPAddressDeny", false},
		{"addresses, and the no-op was the last that an ended agent asked for",
			with(silentAgent(), answers{process: unit(ipDeny), reach: connected,
				hop.FactID(diag.HopNodeHeartbeat, hop.StepReadModel): func(*diag.Fact) {},
				hop.FactID(diag.HopNodeTaskRoundtrip, hop.StepTask): func(f *diag.Fact) {
					nobodyClaims(f)
					f.HTTP.Fields["task.status"], f.HTTP.Fields["task.claimed_at"] = "dispatched", "2026-01-02T12:00:00Z"
				}}), "IPAddressDeny", false},
	} {
		r := walkWith(t, tc.answers)
		v := r.Verdict
		if tc.text == "" {
			if v.Blame != nil && v.Blame.Signal == diag.SigAgentConfined {
				t.Errorf("%s: blames %q\n%s", tc.name, v.Blame.Text, describe(r))
			}
			continue
		}
		if v.Blame == nil || v.Blame.Hop != diag.HopNodeRuntimeAPI || v.Blame.Signal != diag.SigAgentConfined ||
			v.Owner != "node runtime" {
			t.Errorf("%s: blame %+v of %s\n%s", tc.name, v.Blame, v.Owner, describe(r))
			continue
		}
		if !strings.Contains(v.Blame.Text, tc.text) || (v.Confidence == diag.Proven) != tc.proven ||
			len(v.OtherFindings) > 0 {
			t.Errorf("%s: %s, %q, others %+v", tc.name, v.Confidence, v.Blame.Text, v.OtherFindings)
		}
		if tc.proven && v.Proof.Changed != "network" {
			t.Errorf("%s: proven by %s", tc.name, v.Proof.Text)
		}
	}
}

// TestNetworkOfTheSteps: steps inspect packet filter, routes and sockets in the network namespace that the finding is
// about, and in no other.
func TestNetworkOfTheSteps(t *testing.T) {
	process, reach := hop.FactID(diag.HopNodeReadiness, hop.StepProcess), hop.FactID(diag.HopNodeRuntimeAPI, hop.StepReach)
	const inAgents = " -- nsenter -t 4242 -n "
	own := func(f *diag.Fact) {
		f.Unit.PID, f.Unit.Confined = 4242, &diag.Confinement{OwnNetwork: true, NetworkPath: "/run/netns/x"}
	}
	inside := func(change func(*diag.Fact)) func(*diag.Fact) {
		return func(f *diag.Fact) {
			change(f)
			f.OwnNetwork, f.AgentView = true, world.ViewEntered
		}
	}
	filter := diag.DenialFacts{PacketFilters: []string{"nft inet x out: policy drop"}, Seccomp: "off"}
	login := diag.DenialFacts{Seccomp: "filter"}
	barredBy := func(own bool) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Unit.PID, f.Unit.Confined = 4242, &diag.Confinement{OwnNetwork: own, AddressFamilies: "none", Seccomp: "filter"}
		}
	}
	connected := func(f *diag.Fact) { f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443"} }
	ports := outOfIt(diag.LocalPorts, diag.ScopeNetwork, "EADDRNOTAVAIL", "tcp")
	files := outOfIt(diag.OpenFiles, diag.ScopeMachine, "ENFILE", "tcp")
	for name, tc := range map[string]struct {
		answers answers
		look    string // what a step inspects: nft list ruleset, or ss -s
		agents  bool
	}{
		"the agent's own network": {answers{process: own, reach: inside(refusedHere("EPERM", filter))}, "nft list ruleset",
			true},
		"the machine's": {answers{reach: refusedHere("EPERM", filter)}, "nft list ruleset", false},
		"its unit, in a network of its own": {answers{process: barredBy(true), reach: inside(connected)}, "nft list ruleset",
			true},
		"its unit, in the machine's": {answers{process: barredBy(false), reach: connected}, "nft list ruleset", false},
		"the login on the node":      {answers{reach: refusedHere("EPERM", login)}, "nft list ruleset", false},
		"the login in the agent's own network": {answers{process: own, reach: inside(refusedHere("EPERM", login)),
			reach + "~host-network": refusedHere("EPERM", login)}, "nft list ruleset", true},
		"local ports of the agent's own network": {answers{process: own, reach: inside(ports)}, "ss -s", true},
		"local ports of the machine":             {answers{reach: ports}, "ss -s", false},
		"open files of the machine":              {answers{process: own, reach: inside(files)}, "ss -s", false},
	} {
		world := with(silentAgent(), tc.answers)
		if strings.Contains(name, "login") { // while the platform hears the agent
			world = tc.answers
		}
		r := walkWith(t, world)
		all := strings.Join(r.Verdict.Recovery, "\n")
		plain, inNetwork := strings.Contains(all, " -- "+tc.look), strings.Contains(all, inAgents+tc.look)
		if plain == tc.agents || inNetwork != tc.agents {
			t.Errorf("%s: %+v\n%s", name, r.Verdict.Blame, all)
		}
	}
}

// TestConfinedFromTheTerminalAlone: the agent reports to the platform, and its unit denies only its stream.
func TestConfinedFromTheTerminalAlone(t *testing.T) {
	k := diag.Confinement{IPDeny: []string{"192.0.2.10/32"}, CgroupFilters: []string{"egress"}}
	world := answers{
		hop.FactID(diag.HopNodeReadiness, hop.StepProcess): func(f *diag.Fact) { f.Unit.Confined = &k },
		hop.FactID(diag.HopNodeTerminalReachability, hop.StepStream): func(f *diag.Fact) {
			f.TCP = &diag.TCPFacts{Remote: "192.0.2.10:18443"}
		},
	}
	if r := walkWith(t, world); r.Verdict.Outcome != diag.OutcomePass {
		t.Errorf("its stream came: %s\n%s", r.Verdict.Outcome, describe(r))
	}
	r := walkWith(t,
		with(world, answers{"browser_terminal_ws/session": streamTimeout, "terminal_open_task/session": noStream}))
	if b := r.Verdict.Blame; b == nil || b.Hop != diag.HopNodeTerminalReachability || b.Signal != diag.SigAgentConfined {
		t.Errorf("blame %+v\n%s", b, describe(r))
	}
}

// TestNetworkThatIsNotEntered: a login that may not enter the agent's network has not seen it pass.
func TestNetworkThatIsNotEntered(t *testing.T) {
	world := answers{
		hop.FactID(diag.HopNodeReadiness, hop.StepProcess): func(f *diag.Fact) {
			f.Unit.Confined = &diag.Confinement{PrivateNetwork: true}
		},
		hop.FactID(diag.HopNodeRuntimeAPI, hop.StepReach): func(f *diag.Fact) { f.AgentView = "not permitted" },
	}
	r := walkWith(t, with(silentAgent(), world))
	if h := hopOf(r, diag.HopNodeRuntimeAPI); h.Status != diag.StatusInconclusive ||
		!strings.Contains(h.Because, "(PrivateNetwork=yes), which this login does not enter") {
		t.Errorf("%s: %s", h.Status, h.Because)
	}
	if r := walkWith(t, world); r.Verdict.Outcome != diag.OutcomePass {
		t.Errorf("an agent that is heard: %s\n%s", r.Verdict.Outcome, describe(r))
	}
}

// TestWorkloadIsTheMachines: the agent's namespaces do not affect the probe of the workload's port.
func TestWorkloadIsTheMachines(t *testing.T) {
	for _, f := range walkWith(t, nil).Facts {
		if f.ID == hop.FactID(diag.HopAppRuntimeLiveness, hop.StepPort) && f.Request.View != diag.ViewHost {
			t.Errorf("the workload's port is asked for with the view %q", f.Request.View)
		}
	}
}

// TestFactsOfTheAgentsNetwork: a text names the network namespace in which its fact was measured, the agent's or the
// machine's.
func TestFactsOfTheAgentsNetwork(t *testing.T) {
	process, reach := hop.FactID(diag.HopNodeReadiness, hop.StepProcess), hop.FactID(diag.HopNodeRuntimeAPI, hop.StepReach)
	wait := hop.FactID(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	unit := func(k diag.Confinement) func(*diag.Fact) {
		return func(f *diag.Fact) { f.Unit.Confined = &k }
	}
	own := unit(diag.Confinement{OwnNetwork: true, NetworkPath: "/run/netns/x"})
	inside := func(change func(*diag.Fact)) func(*diag.Fact) {
		return func(f *diag.Fact) {
			change(f)
			f.OwnNetwork, f.AgentView = true, world.ViewEntered
		}
	}
	drifted := allOf(setField("node.private_ip", "192.0.2.101"), setField("node.agent_addresses", `["10.200.0.2"]`),
		setField("node.recovery_reason", "ip_route_drift"))
	for name, k := range map[string]diag.Confinement{
		"entered": {OwnNetwork: true, NetworkPath: "/run/netns/x"}, "by its unit alone": {PrivateNetwork: true},
	} {
		r := walkWith(t, answers{readModelFact: drifted, process: unit(k)})
		if k := r.Classification; k.Reason != diag.ReasonNone || len(k.Losers) != 1 ||
			!strings.Contains(k.Losers[0].Why, "its own network namespace") {
			t.Errorf("%s: the agent's own addresses are %s, losers %+v", name, k.Reason, k.Losers)
		}
	}
	if r := walkWith(t, answers{readModelFact: drifted}); r.Classification.Reason != diag.ReasonIPRouteDrift {
		t.Errorf("addresses of the machine: %s", r.Classification.Reason)
	}

	filter := diag.DenialFacts{PacketFilters: []string{"nft inet x out: rules that may drop or reject: 1"},
		Seccomp: "off"}
	r := walkWith(t, with(silentAgent(), answers{process: own, reach: inside(refusedHere("EPERM", filter))}))
	if b := r.Verdict.Blame; b == nil || b.Signal != diag.SigAgentConfined ||
		strings.Contains(b.Text, "the node itself") ||
		!strings.Contains(b.Text, "from the machine's network passes") || !strings.Contains(b.Text, "nft inet x out") {
		t.Errorf("a packet filter of the agent's network: %+v", b)
	}
	both := with(silentAgent(), answers{process: own, reach: inside(refusedHere("EPERM", filter)),
		reach + "~host-network": refusedHere("EPERM", filter)})
	if b := walkWith(t, both).Verdict.Blame; b == nil || !strings.HasPrefix(b.Text, "the agent's network namespace "+
		"(NetworkNamespacePath=/run/netns/x) itself denies") {
		t.Errorf("filters of both networks: %+v", b)
	}
	ports := inside(outOfIt(diag.LocalPorts, diag.ScopeNetwork, "EADDRNOTAVAIL", "tcp"))
	r = walkWith(t, with(silentAgent(), answers{process: own, reach: ports, wait: ports}))
	if b := r.Verdict.Blame; b == nil || !strings.HasPrefix(b.Text, "the agent's network namespace") {
		t.Errorf("out of local ports: %+v", b)
	}

	silent := inside(failWith(diag.TCPTimeout, "tcp"))
	noAPI := failWith(diag.TCPTimeout, "tcp")
	r = walkWith(t, answers{process: own, reach: silent, reach + "~" + reading.CounterPinned: silent,
		reach + "~" + reading.CounterFromOperator: noAPI, reach + "~" + reading.CounterHostView: silent,
		hop.FactID(diag.HopControlPlaneAccess, hop.StepHealthz): noAPI, hop.FactID(diag.HopControlPlaneAccess,
			hop.StepAuth): noAPI})
	if b := r.Verdict.Blame; b == nil || !strings.HasSuffix(b.Text, "or on the operator's network path") {
		t.Errorf("the node's API answers in the machine's network: %+v", b)
	}

	served := func(f *diag.Fact) {
		f.Unit.Listening = []string{"0.0.0.0:8888"}
		own(f)
	}
	r = walkWith(t, answers{hop.FactID(diag.HopAppRuntimeLiveness, hop.StepUnit): served,
		hop.FactID(diag.HopAppRuntimeLiveness, hop.StepPort): failWith(diag.TCPRefused, "tcp"),
		hop.FactID(diag.HopAppUserRoute, hop.StepRoute):      failWith(diag.HTTPEdgePage, "http")})
	if h := hopOf(r, diag.HopAppRuntimeLiveness); h.Status != diag.StatusFail ||
		!strings.Contains(h.Text, "app.service runs in its own network namespace") {
		t.Errorf("a workload that listens in a network of its own: %s %s", h.Status, h.Text)
	}
}
