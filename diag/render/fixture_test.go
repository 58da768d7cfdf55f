package render

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// canary is a secret that every report of these tests contains and no output may contain.
const canary = "canary-7f3b91-secret"

var began = time.Date(2026, 5, 25, 9, 30, 0, 0, time.UTC)

// hopSeed defines a hop of the reports below.
type hopSeed struct {
	id     diag.HopID
	title  string
	layer  diag.Layer
	budget int64
	text   string
	steps  []diag.StepResult
}

func step(name, vantage string, took diag.Millis) diag.StepResult {
	return diag.StepResult{Name: name, Vantage: vantage, Status: diag.StatusPass, DurationMS: took}
}

func hopSeeds() []hopSeed {
	m, r, e := diag.LayerManagement, diag.LayerRuntime, diag.LayerEdge
	return []hopSeed{
		{diag.HopControlPlaneAccess, "operator reaches the control plane", m, 8000,
			"https://api.gpuaas.test answers, the token is good",
			[]diag.StepResult{step("healthz", operator, 31), step("auth", operator, 12)}},
		{diag.HopAllocationBinding, "allocation is active on this node", m, 5000, "alloc-01 is active on compute-node-01",
			[]diag.StepResult{step("allocation", operator, 14)}},
		{diag.HopNodeHeartbeat, "node heartbeat is current", m, 5000, "seen 1s ago, stale after 8s",
			[]diag.StepResult{step("read_model", operator, 15)}},
		{diag.HopNodeOpsAccess, "operator logs in to the node", m, 12000,
			"root@10.231.77.101, probes run by the installed agent", []diag.StepResult{step("ssh", node, 214)}},
		{diag.HopNodeReadiness, "node is ready: disk, agent, clock", m, 8000,
			"/ is 12% full, the agent runs since 3h, clock +2 ms",
			[]diag.StepResult{step("disk", node, 18), step("process", node, 42), step("binary", node, 22),
				step("clock", node, 1)}},
		{diag.HopNodeRuntimeAPI, "node reaches its runtime API", m, 9000, "node-api.gpuaas.test:443 is a node ingress",
			[]diag.StepResult{step("http", node, 38), step("control", operator, 29)}},
		{diag.HopNodeRecoveryStatus, "node identity is accepted", m, 9000,
			"serial 0a1b, valid for 23h, task wait answered 204",
			[]diag.StepResult{step("identity", node, 3), step("task_wait", node, 47), step("read_model", operator, 13)}},
		{diag.HopNodeTaskRoundtrip, "node takes and answers a task", m, 15000, "noop claimed after 21 ms, done after 64 ms",
			[]diag.StepResult{step("enqueue", operator, 17), step("result", operator, 96)}},
		{diag.HopTerminalTokenMint, "terminal token is issued", e, 5000, "token for session s-4711, valid for 60s",
			[]diag.StepResult{step("mint", operator, 16)}},
		{diag.HopTerminalPublicRoute, "terminal gateway's public route", e, 5000, "https://term.gpuaas.test/healthz is 200",
			[]diag.StepResult{step("healthz", operator, 27)}},
		{diag.HopBrowserTerminalWS, "browser WebSocket is taken", e, 12000, "upgraded, ready after 131 ms",
			[]diag.StepResult{step("session", operator, 188)}},
		{diag.HopTerminalOpenTask, "terminal.open reaches the node", e, 8000, "completed for session s-4711",
			[]diag.StepResult{step("open_task", operator, 22)}},
		{diag.HopNodeTerminalReachability, "node reaches the terminal listener", e, 9000,
			"term.gpuaas.test:18443 takes the node's certificate",
			[]diag.StepResult{step("ws", node, 41), step("control", operator, 30)}},
		{diag.HopGatewayNodeStream, "gateway sees the node's stream", e, 8000, "connected 88 ms after the browser",
			[]diag.StepResult{step("session_facts", operator, 12)}},
		{diag.HopTerminalStartup, "terminal startup", e, 12000, "tenant01 has /bin/bash, the shell computed the nonce",
			[]diag.StepResult{step("user", node, 6), step("pty", operator, 188)}},
		{diag.HopAppRuntimeLiveness, "workload runs", r, 5000, "demo-app.service is active, port 8888 answers",
			[]diag.StepResult{step("unit", node, 9)}},
		{diag.HopAppUserRoute, "user reaches the workload", e, 8000, "https://alloc-01.apps.gpuaas.test is 200",
			[]diag.StepResult{step("route", operator, 33)}},
		{diag.HopGPUHealth, "GPUs are healthy", m, 10000, "", nil},
	}
}

// healthy returns a walk that measured everything and passed, except for hop 18.
func healthy() *diag.Report {
	r := &diag.Report{
		Head: diag.NewHead(diag.KindPreflight),
		Run: diag.Run{
			ID: "01JW3H8Q5T", CorrelationID: "pf-9c1e4a70", StartedAt: diag.At(began),
			EndedAt: diag.At(began.Add(612 * time.Millisecond)), DurationMS: 612, EndedBy: diag.EndedCompleted,
			ToolVersion: "0.1.0", RulesVersion: "1",
		},
		Subject: diag.Subject{
			NodeID: "compute-node-01", NodeHost: "10.231.77.101", AllocationID: "alloc-01", EnvironmentProfile: "lab",
			Expected: map[string]string{"node_runtime_api_url": "https://node-api.gpuaas.test"},
		},
		Plan: diag.Plan{Profile: "lab", Policy: map[string]int64{"node.heartbeat_stale_after_seconds": 8}},
		Vantages: []diag.VantageInfo{
			{ID: operator, How: "in process", Host: "ops-01"},
			{ID: node, How: "ssh root@10.231.77.101:22", Host: "compute-node-01", Resolver: "10.231.77.10:53",
				ClockOffsetMS: ptr(int64(2))},
		},
		Verdict: diag.Verdict{Outcome: diag.OutcomePass, Reason: diag.ReasonNone, UserState: diag.UserNormal},
		Dashboard: diag.Dashboard{
			NodeAgentStatus: diag.AgentHealthy, TerminalReadiness: diag.TerminalPTYReady, CorrelationID: "pf-9c1e4a70",
		},
		Redaction: diag.Redaction{Rules: []string{"bearer"}, Counts: map[string]int{"bearer": 4}},
	}
	r.Evidence = []diag.EvidenceLine{
		{At: diag.At(began.Add(90 * time.Millisecond)), Kind: "task_queued", CorrelationID: "pf-9c1e4a70",
			NodeID: "compute-node-01", TaskID: "t-17"},
		{At: diag.At(began.Add(460 * time.Millisecond)), Kind: "session_closed", CorrelationID: "pf-9c1e4a70",
			SessionID: "s-4711", AllocationID: "alloc-01"},
	}
	for _, s := range hopSeeds() {
		r.Hops = append(r.Hops, hopOf(s))
		planned := diag.PlannedHop{ID: s.id, Vantages: []string{}, BudgetMS: s.budget, Steps: []string{}}
		for _, st := range s.steps {
			planned.Steps = append(planned.Steps, st.Name)
			if !slices.Contains(planned.Vantages, st.Vantage) {
				planned.Vantages = append(planned.Vantages, st.Vantage)
			}
		}
		r.Plan.Hops = append(r.Plan.Hops, planned)
		addFacts(r, &r.Hops[len(r.Hops)-1])
	}
	return r
}

func ptr[T any](v T) *T { return &v }

func hopOf(s hopSeed) diag.HopResult {
	h := diag.HopResult{ID: s.id, Title: s.title, Layer: s.layer, BudgetMS: s.budget, Steps: s.steps}
	h.Finding = diag.Finding{Status: diag.StatusPass, Text: s.text}
	var from []string
	for i := range h.Steps {
		st := &h.Steps[i]
		st.Fact = string(s.id) + "/" + st.Name
		h.DurationMS += st.DurationMS
		if !slices.Contains(from, st.Vantage) {
			from = append(from, st.Vantage)
		}
	}
	slices.SortFunc(from, func(a, b string) int { return strings.Compare(b, a) }) // operator first, as in every report
	h.Vantage = strings.Join(from, "+")
	if len(s.steps) == 0 {
		h.Finding = diag.Finding{Status: diag.StatusSkipped, Because: "not built yet: GPU facts come from gpuaas-gpu-probe"}
	}
	return h
}

// addFacts gives every step a fact. Every request has the canary in its secret fields.
func addFacts(r *diag.Report, h *diag.HopResult) {
	for _, s := range h.Steps {
		r.Facts = append(r.Facts, diag.Fact{
			ID: s.Fact, Vantage: s.Vantage, At: diag.At(began), DurationMS: s.DurationMS,
			Request: diag.Request{
				ID: s.Fact, Op: diag.OpHTTP, Target: "https://api.gpuaas.test/x", Token: diag.NewSecret(canary),
				Cookie: diag.NewSecret(canary),
			},
			HTTP: &diag.HTTPFacts{Status: 200, Kept: diag.NewSecret(canary), DurationMS: s.DurationMS},
		})
	}
}

func hop(r *diag.Report, id diag.HopID) *diag.HopResult {
	for i := range r.Hops {
		if r.Hops[i].ID == id {
			return &r.Hops[i]
		}
	}
	panic("no hop " + id)
}

func fact(r *diag.Report, id string) *diag.Fact {
	for i := range r.Facts {
		if r.Facts[i].ID == id {
			return &r.Facts[i]
		}
	}
	panic("no fact " + id)
}

// spoil changes a passing hop to another status, which its last step of the vantage caused.
func spoil(r *diag.Report, id diag.HopID, stepName string, f diag.Finding) {
	h := hop(r, id)
	h.Finding = f
	for i := range h.Steps {
		if s := &h.Steps[i]; s.Name == stepName {
			s.Status, s.Failure = f.Status, f.Failure
			fact(r, s.Fact).Failure = f.Failure
			fact(r, s.Fact).HTTP = nil
		}
	}
}

// withhold marks hops as not run: no durations, no facts.
func withhold(r *diag.Report, st diag.Status, why string, ids ...diag.HopID) {
	for _, id := range ids {
		h := hop(r, id)
		for i := range h.Steps {
			h.Steps[i] = diag.StepResult{Name: h.Steps[i].Name, Vantage: h.Steps[i].Vantage, Status: st, Because: why}
		}
		if st == diag.StatusSkipped {
			h.Steps = nil
		}
		h.Finding, h.DurationMS = diag.Finding{Status: st, Because: why}, 0
		kept := r.Facts[:0]
		for _, f := range r.Facts {
			if !strings.HasPrefix(f.ID, string(id)+"/") {
				kept = append(kept, f)
			}
		}
		r.Facts = kept
	}
}

// blame fills the verdict from the signal's row, as the judge does.
func blame(r *diag.Report, id diag.HopID, c diag.Confidence, symptoms ...diag.HopID) {
	h := hop(r, id)
	row, _ := diag.LookupSignal(h.Signal)
	reason, _ := diag.LookupReason(diag.ReasonFor(h.Signal, h.Failure))
	values := diag.MapValues(map[string]string{
		"profile": "lab", "node_id": "compute-node-01", "node_host": "10.231.77.101", "allocation_id": "alloc-01",
		"session_id":     "s-4711",
		"correlation_id": "pf-9c1e4a70", "api_base": "https://api.gpuaas.test", "terminal_base": "https://term.gpuaas.test",
		"api_url": "https://node-api.gpuaas.test", "terminal_url": "https://term.gpuaas.test:18443",
		"ssh": diag.Command("ssh", "-i", "/var/lib/gpuaasctl/lab/ssh/id_ed25519", "root@10.231.77.101"),
	})
	v := &r.Verdict
	v.Outcome, v.Confidence, v.Owner, v.Symptoms = diag.OutcomeFail, c, row.Owners.String(), symptoms
	v.Blame = &diag.Blame{Hop: id, Signal: h.Signal, Failure: h.Failure, Text: h.Text}
	v.Layer, v.Reason, v.UserState, v.Severity, v.Runbook = h.Layer, reason.Code, reason.State, string(reason.Severity),
		row.Runbook("")
	for _, s := range row.Steps(diag.Situation{}) {
		next, _ := s.Filled(values)
		v.Recovery = append(v.Recovery, next.Prose())
	}
	v.RepairProof, _ = diag.FillCommand(row.Proof.Command(), values)
	for i := range r.Hops {
		if r.Hops[i].Status == diag.StatusFail {
			v.FirstFailedHop = r.Hops[i].ID
			break
		}
	}
	r.Dashboard.LastFailureReason = h.Signal
	if row.Dashboard != "" {
		r.Dashboard.NodeAgentStatus = row.Dashboard
	}
	if strings.HasPrefix(string(h.Signal), "terminal_") {
		r.Dashboard.TerminalReadiness = diag.TerminalFailed
	}
}

// egressBlocked: one fault on the node's path to the API, and what follows from it.
func egressBlocked() *diag.Report {
	r := healthy()
	spoil(r, diag.HopNodeHeartbeat, "read_model", diag.Finding{
		Status: diag.StatusFail, Signal: diag.SigHeartbeatStale, Text: "last seen 41s ago, stale after 8s",
	})
	spoil(r, diag.HopNodeRuntimeAPI, "http", diag.Finding{
		Status: diag.StatusFail, Signal: diag.SigAPIUnreachable, Failure: diag.TCPTimeout,
		Text:    "node-api.gpuaas.test:443 does not answer the node: tcp_timeout (10.231.77.11:443) after 3000 ms",
		Culprit: "node to 10.231.77.11:443",
	})
	hop(r, diag.HopNodeRuntimeAPI).DurationMS, hop(r, diag.HopNodeRuntimeAPI).Steps[0].DurationMS = 3080, 3000
	f := fact(r, "node_runtime_api_reachability/http")
	f.Phase, f.Errno, f.Detail, f.DurationMS = "tcp", "ETIMEDOUT", "dial tcp 10.231.77.11:443: i/o timeout", 3000
	f.DNS = &diag.DNSFacts{Name: "node-api.gpuaas.test", Addresses: []string{"10.231.77.11"}, Source: "dns",
		Server: "10.231.77.10:53", DurationMS: 4}
	f.TCP = &diag.TCPFacts{Remote: "10.231.77.11:443", DurationMS: 3000}
	f.Request.Target = "https://node-api.gpuaas.test"
	passing := diag.Fact{ID: f.ID + "~other-listener", Vantage: node, Request: f.Request, DurationMS: 12}
	passing.Request.ID, passing.Request.Target = passing.ID, "https://term.gpuaas.test:18443"
	r.Facts = append(r.Facts, passing)
	withhold(r, diag.StatusNotReached, "needs node_runtime_api_reachability, which is fail", diag.HopNodeRecoveryStatus)
	spoil(r, diag.HopNodeTaskRoundtrip, "result", diag.Finding{
		Status: diag.StatusFail, Signal: diag.SigTaskClaimFailed, Failure: diag.Timeout,
		Text: "noop is still queued after 10s",
	})
	blame(r, diag.HopNodeRuntimeAPI, diag.Proven, diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip)
	r.Verdict.Proof = &diag.Proof{
		Failing: f.ID, Passing: passing.ID, Changed: "target",
		Text: "tcp_timeout with target https://node-api.gpuaas.test; passes with https://term.gpuaas.test:18443",
	}
	r.Verdict.RuledOut = []string{
		"name look-up: node-api.gpuaas.test is 10.231.77.11 (dns)",
		"this node alone: no, from the operator https://node-api.gpuaas.test answers",
		"node_readiness: / is 12% full, the agent runs since 3h, clock +2 ms",
	}
	r.Run.DurationMS = 10420
	return r
}

// threeFaults: disk, workload and public route, independent of each other.
func threeFaults() *diag.Report {
	r := healthy()
	spoil(r, diag.HopNodeReadiness, "disk", diag.Finding{
		Status: diag.StatusFail, Signal: diag.SigDiskFull, Failure: diag.DiskFull,
		Text: "/var/lib/gpuaas/diag takes 0 of 8192 bytes: no space left (ENOSPC), / is 100% full",
	})
	spoil(r, diag.HopTerminalPublicRoute, "healthz", diag.Finding{
		Status: diag.StatusFail, Signal: diag.SigPublicRouteMissing, Failure: diag.HTTPStatus,
		Text: "https://term.gpuaas.test/healthz is HTTP 404",
	})
	withhold(r, diag.StatusNotReached, "needs terminal_public_route, which is fail",
		diag.HopBrowserTerminalWS, diag.HopTerminalOpenTask, diag.HopGatewayNodeStream, diag.HopTerminalStartup)
	spoil(r, diag.HopAppRuntimeLiveness, "unit", diag.Finding{
		Status: diag.StatusFail, Signal: diag.SigAppStopped, Failure: diag.UnitInactive,
		Text: "demo-app.service is inactive (dead)",
	})
	spoil(r, diag.HopAppUserRoute, "route", diag.Finding{
		Status: diag.StatusFail, Signal: diag.SigAppRouteFailed, Failure: diag.HTTPStatus,
		Text: "https://alloc-01.apps.gpuaas.test is HTTP 502",
	})
	hop(r, diag.HopNodeReadiness).Also = []diag.Finding{
		{Status: diag.StatusWarn, Signal: diag.SigClockSkew, Text: "the clock is 1.4 s off"},
	}
	blame(r, diag.HopNodeReadiness, diag.Likely)
	r.Verdict.OtherFindings = []diag.Blame{
		{Hop: diag.HopTerminalPublicRoute, Signal: diag.SigPublicRouteMissing, Failure: diag.HTTPStatus,
			Text: "https://term.gpuaas.test/healthz is HTTP 404", Owner: "edge and route profile", Confidence: diag.Likely},
		{Hop: diag.HopAppRuntimeLiveness, Signal: diag.SigAppStopped, Failure: diag.UnitInactive,
			Text: "demo-app.service is inactive (dead)", Owner: "app runtime", Symptoms: []diag.HopID{diag.HopAppUserRoute},
			Confidence: diag.Likely},
	}
	return r
}

// interrupted: Ctrl-C while the task was under way.
func interrupted() *diag.Report {
	r := healthy()
	r.Run.EndedBy, r.Run.DurationMS = diag.EndedInterrupted, 240
	spoil(r, diag.HopNodeTaskRoundtrip, "result",
		diag.Finding{Status: diag.StatusInconclusive, Because: "result: cut short: interrupted"})
	withhold(r, diag.StatusInconclusive, "session: not measured: the walk ended by interrupted", diag.HopBrowserTerminalWS)
	withhold(r, diag.StatusNotReached, "needs browser_terminal_ws, which is inconclusive",
		diag.HopTerminalOpenTask, diag.HopGatewayNodeStream, diag.HopTerminalStartup)
	r.Verdict.Outcome = diag.OutcomeInconclusive
	return r
}

// sshFailed: no login works, the agent reports.
func sshFailed() *diag.Report {
	r := healthy()
	spoil(r, diag.HopNodeOpsAccess, "ssh", diag.Finding{
		Status: diag.StatusFail, Signal: diag.SigOpsSSHFailed, Failure: diag.SSHHostKey,
		Text: "no login on 10.231.77.101: ssh_host_key after 61 ms: the key is SHA256:Ew4, known is SHA256:k0L; the agent " +
			"itself reports, so it is not down",
	})
	withhold(r, diag.StatusNotReached, "needs node_ops_access, which is fail", diag.HopNodeReadiness,
		diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus, diag.HopNodeTerminalReachability, diag.HopAppRuntimeLiveness)
	r.Vantages[1] = diag.VantageInfo{ID: node, How: "ssh root@10.231.77.101:22",
		Missing: "the host key is not the known one"}
	blame(r, diag.HopNodeOpsAccess, diag.Likely)
	return r
}

// skipped: no allocation was named; one step was left out of a hop that passed; one warning.
func skipped() *diag.Report {
	r := healthy()
	r.Subject.AllocationID = ""
	withhold(r, diag.StatusSkipped, "no --allocation-id given", diag.HopAllocationBinding, diag.HopTerminalTokenMint,
		diag.HopBrowserTerminalWS, diag.HopTerminalOpenTask, diag.HopGatewayNodeStream, diag.HopTerminalStartup,
		diag.HopAppRuntimeLiveness, diag.HopAppUserRoute)
	h := hop(r, diag.HopNodeRecoveryStatus)
	h.Steps = append(h.Steps, diag.StepResult{Name: "classifier", Vantage: operator, Status: diag.StatusSkipped,
		Because: "the classifier is not built yet"})
	spoil(r, diag.HopNodeReadiness, "disk",
		diag.Finding{Status: diag.StatusWarn, Signal: diag.SigDiskPressure, Text: "/ is 93% full, the limit is 90%"})
	r.Verdict.Outcome = diag.OutcomeWarn
	r.Dashboard.TerminalReadiness = ""
	return r
}

// hostile: a node that answers with escapes, markup and very long words.
func hostile() *diag.Report {
	r := threeFaults()
	evil := "\x1b[2J\x1b]0;owned\x07 \u009b31m \u202egnp.exe <script>&]]></x> | `rm -rf` \x00\ufffe\uffff " +
		strings.Repeat("長い", 60)
	h := hop(r, diag.HopNodeReadiness)
	h.Text = evil
	r.Verdict.Blame.Text = evil
	r.Verdict.RuledOut = []string{evil}
	r.Evidence[0].Kind, r.Evidence[1].SessionID = evil, evil
	r.Subject.CorrelationID = evil
	r.Subject.NodeHost = "10.0.0.1\n\x1b[1A"
	r.Vantages[1].Missing = evil
	fact(r, "node_readiness/disk").Detail = evil
	fact(r, "node_readiness/process").HTTP = &diag.HTTPFacts{Status: 200, Fields: map[string]string{evil: evil}}
	r.Verdict.Recovery = append(r.Verdict.Recovery, "do this: `"+evil+"`")
	return r
}

func reports() map[string]*diag.Report {
	return map[string]*diag.Report{
		"healthy": healthy(), "egress-blocked": egressBlocked(), "three-faults": threeFaults(), "interrupted": interrupted(),
		"ssh-failed": sshFailed(), "skipped": skipped(),
	}
}
