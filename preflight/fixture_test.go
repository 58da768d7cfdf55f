package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// noon is the time at which every fixture was measured.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func testProfile() profile.Profile {
	p := profile.Profile{
		Name: "test", Kind: profile.KindGPUaaS, APIBase: "https://api.test", TerminalBase: "https://term.test",
		APIResolveAddress: "192.0.2.10", TerminalResolveAddress: "192.0.2.10", AppResolveAddress: "192.0.2.10",
		NodeRuntimeAPIURL: "https://node-api.test", NodeRuntimeResolveAddress: "192.0.2.11",
		NodeTerminalURL: "https://term.test:18443", NodeTerminalResolveAddress: "192.0.2.10",
		Nodes: map[string]profile.Node{"node-1": {Host: "192.0.2.101"}},
		SSH:   profile.SSH{User: "ops"},
		App:   profile.App{Websocket: "/ws", HeadersPath: "/headers", InjectedHeaders: []string{"X-Forwarded-Proto"}},

		PlatformSSH: profile.SSH{Host: "192.0.2.10", User: "root"},
		Policy:      map[string]int64{profile.PolicyTaskSweepInterval: 5},
	}
	return p.WithDefaults()
}

func testEnv() *hop.Env {
	p := testProfile()
	return &hop.Env{
		Profile: p, Subject: hop.NewSubject(p, "node-1", "", "alloc-1", ""), CorrelationID: "corr-1",
		Token: diag.NewSecret("canary-token"), NodeCA: "-----BEGIN CERTIFICATE-----",
	}
}

func testPlan(e *hop.Env) diag.Plan {
	return chainOf(e).NewPlan(e.Profile, e.Subject, hop.Options{Session: true, Token: true, SSH: true})
}

// healthy answers a request as a healthy platform and node would.
func healthy(req diag.Request) diag.Fact {
	f := diag.Fact{ID: req.ID, Request: req, At: diag.At(noon), DurationMS: 3}
	ok := func(code int, fields map[string]string) {
		f.HTTP = &diag.HTTPFacts{Status: code, Fields: fields}
	}
	stamp := func(d time.Duration) string { return noon.Add(d).Format(time.RFC3339Nano) }
	of, step, _ := strings.Cut(req.ID, "/")
	switch diag.HopID(of) {
	case exampleHop().ID:
		ok(200, nil)
	case diag.HopControlPlaneAccess:
		ok(200, map[string]string{"trust.signing_ca": "aa", "trust.ingress_ca": "aa"})
	case diag.HopAllocationBinding:
		ok(200, map[string]string{
			"allocation.state": "active", "allocation.node_id": "node-1", "allocation.os_user": "tenant",
			"allocation.app_unit": "app.service", "allocation.app_port": "8888",
			"allocation.app_product_url": "https://a.apps.test/", "allocation.app_endpoint": "192.0.2.101:8888",
		})
	case diag.HopNodeHeartbeat:
		ok(200, map[string]string{"node.now": stamp(0), "node.last_seen_at": stamp(-2 * time.Second),
			"node.check_heartbeat": "pass", "node.stale_tasks": "0"})
	case diag.HopNodeOpsAccess:
		f.SSH = &diag.SSHFacts{User: "ops", Helper: "installed"}
	case diag.HopNodeReadiness:
		healthyHost(&f, step)
	case diag.HopNodeRuntimeAPI:
		if step == hop.StepPrograms {
			f.Target = "node-api.test"
			f.DNS = &diag.DNSFacts{Name: "node-api.test", Source: "getent", Addresses: []string{"192.0.2.11"}, DurationMS: 3}
			return f
		}
		f.Target = "https://node-api.test/healthz"
		f.Failure, f.Phase = diag.MTLSIngress400, "http"
		f.HTTP = &diag.HTTPFacts{Status: 400, Page: "no_ssl_certificate"}
	case diag.HopNodeRecoveryStatus:
		healthyIdentity(&f, step)
	case diag.HopNodeTaskRoundtrip:
		switch step {
		case hop.StepRecordAfter:
			healthyIdentity(&f, hop.StepHostRecord)
			return f
		case world.StepBacklogAfter:
			ok(200, map[string]string{"node.stale_tasks": "0"})
			return f
		}
		ok(200, map[string]string{
			"task.id": "task-1", "task.status": "completed", "task.queued_at": stamp(0),
			"task.claimed_at": stamp(5 * time.Millisecond), "task.completed_at": stamp(9 * time.Millisecond),
		})
	case diag.HopTerminalTokenMint:
		ok(200, map[string]string{"token.session_id": "sess-1", "token.url": "https://term.test/v1/terminal/sess-1"})
		f.HTTP.Kept = diag.NewSecret("canary-terminal-token")
	case diag.HopTerminalPublicRoute:
		ok(200, nil)
	case diag.HopAppUserRoute:
		healthyApp(&f, step)
	case diag.HopBrowserTerminalWS:
		f.WS = &diag.WSFacts{Upgraded: true, Status: 101, FirstFrame: "ready", FirstFrameMS: 20}
		f.PTY = &diag.PTYFacts{NonceOK: true, DurationMS: 4}
	case diag.HopTerminalOpenTask:
		ok(200, map[string]string{
			"session.browser_connected_at": stamp(0), "session.node_stream_connected_at": stamp(10 * time.Millisecond),
			"session.pty_ready_at": stamp(15 * time.Millisecond), "session.task_status": "completed",
			"session.task_queued_at": stamp(0), "session.task_claimed_at": stamp(2 * time.Millisecond),
		})
	case diag.HopGatewayNodeStream, diag.HopNodeTerminalReachability:
		if step == "agent" {
			healthyHost(&f, hop.StepProcess)
			return f
		}
		f.Target = "https://term.test:18443/internal/v1/terminal/preflight-nobody"
		f.Failure, f.Phase = diag.WSUpgradeRejected, "ws"
		ok(404, map[string]string{"error.code": "session_not_found"})
	case diag.HopTerminalStartup:
		f.User = &diag.UserFacts{Name: "tenant", Shell: "/bin/bash"}
	case diag.HopAppRuntimeLiveness:
		f.Unit = &diag.UnitFacts{Active: "active", Sub: "running"}
	case diag.HopGPUHealth:
		switch step {
		case hop.StepGPUNode:
			f.GPU = healthyNodeGPUs()
		case hop.StepGPUJudged:
			f.GPUJudged = &diag.GPUJudged{Health: reading.GPUHealthy, Policy: "default", SHA256: "ab", Document: json.RawMessage(
				`{"gpus":[{"about":"gpu","index":0,"health":"HEALTHY"},{"about":"gpu","index":1,"health":"HEALTHY"}]}`)}
		default:
			ok(200, healthyGPUs())
		}
	case diag.HopHostHealth:
		for _, well := range wellHost() {
			if well.ID == req.ID {
				f.Machine, f.Mounts, f.Kernel = well.Machine, well.Mounts, well.Kernel
			}
		}
	case diag.HopNetworkPath:
		f.TCP, f.TLS, f.Path = &diag.TCPFacts{Remote: "192.0.2.10:443"}, &diag.TLSFacts{}, &diag.PathFacts{Interface: "eth0"}
	case "evidence":
		ok(200, map[string]string{"evidence.items": `[{"at":"` + stamp(0) +
			`","kind":"task_claimed","correlation_id":"corr-1"}]`})
	default:
		panic("no healthy answer for " + req.ID)
	}
	return f
}

// healthyNodeGPUs returns the GPU facts of a node with two healthy GPUs.
func healthyNodeGPUs() *diag.GPUFacts {
	n, age, driver := int64(2), int64(12_000), "535.161.08"
	return &diag.GPUFacts{Path: "/var/lib/gpuaas/agent/gpu.json", WrittenAt: diag.At(noon), Probe: "sampling",
		ProbeAt: diag.At(noon.Add(-time.Hour)), SampledAt: diag.At(noon.Add(-12 * time.Second)), AgeMS: &age,
		Library: "loaded",
		Driver:  &diag.GPUReading{Text: &driver}, Count: &diag.GPUReading{Value: &n},
		GPUs:     []diag.GPUDevice{{Index: 0, PCI: "0000:01:00.0"}, {Index: 1, PCI: "0000:02:00.0"}},
		Evidence: []json.RawMessage{json.RawMessage(`{}`)}}
}

// healthyGPUs returns the fields of an admission document of a node with two healthy GPUs.
func healthyGPUs() map[string]string {
	return map[string]string{
		"gpu.health": "HEALTHY", "gpu.node": "node-1", "gpu.node_status": "ACTIVE",
		"gpu.policy": "default", "gpu.mode": "enforce",
		"gpu.policy_sha256": "aa", "gpu.xid_tables": "bb", "gpu.count": "2", "gpu.expected": "2",
		"gpu.gpus": `[{"about":"gpu","what":"GPU 0","index":0,"uuid":"GPU-a","pci":"0000:3b:00.0","health":"HEALTHY"},` +
			`{"about":"gpu","what":"GPU 1","index":1,"uuid":"GPU-b","pci":"0000:5e:00.0","health":"HEALTHY"}]`,
		"gpu.sampled_at": noon.Add(-12 * time.Second).Format(time.RFC3339Nano),
		"gpu.judged_at":  noon.Add(-2 * time.Second).Format(time.RFC3339Nano), "gpu.now": noon.Format(time.RFC3339Nano),
	}
}

func healthyApp(f *diag.Fact, step string) {
	switch step {
	case "upgrade":
		f.WS = &diag.WSFacts{Upgraded: true, Status: 101}
	case "endpoint":
		f.TCP = &diag.TCPFacts{Remote: "192.0.2.101:8888"}
	default:
		f.HTTP = &diag.HTTPFacts{Status: 200, Fields: map[string]string{"app.header_names": `["Host","x-forwarded-proto"]`}}
	}
}

func healthyHost(f *diag.Fact, step string) {
	offset := int64(3)
	switch step {
	case "disk", "root_disk":
		f.Disk = &diag.DiskFacts{TotalBytes: 1 << 30, FreeBytes: 1 << 29, UsedPercent: 50}
	case hop.StepProcess:
		f.Unit = &diag.UnitFacts{Active: "active", Sub: "running", PID: 42, ProcessState: "S"}
	case "binary":
		f.Binary = &diag.BinaryFacts{Path: "/usr/local/bin/gpuaas-agent", Version: "v1"}
	case hop.StepClock:
		f.Clock = &diag.ClockFacts{OffsetMS: &offset}
	}
}

func healthyIdentity(f *diag.Fact, step string) {
	yes := true
	switch step {
	case hop.StepIdentity:
		f.Cert = &diag.CertFacts{
			Leaf: diag.CertInfo{Subject: "CN=node-1", Issuer: "CN=signing", NotBefore: diag.At(noon.Add(-time.Hour)),
				NotAfter: diag.At(noon.Add(time.Hour))},
			KeyMatches: &yes, NodeBound: &yes,
		}
	case hop.StepProfile:
		f.Env = &diag.EnvFacts{Source: "process", Values: map[string]string{"GPUAAS_API_URL": "https://node-api.test"}}
	case hop.StepHostRecord:
		f.Record = &diag.RecordFacts{Source: "disk", Path: "/var/lib/gpuaas/diag", Slots: 320, Valid: 1,
			Entries: []diag.RecordEntry{
				{Seq: 1, BootID: "boot-1", At: diag.At(noon), Reason: diag.RecProcessAlive, About: "agent", Decision: "start"},
			}}
	case hop.StepTaskWait:
		f.Target = "https://node-api.test/internal/v1/nodes/node-1/tasks/wait"
		f.TLS = &diag.TLSFacts{Verified: true, CertRequested: &yes, AcceptableCAs: []string{"CN=signing"}}
		f.HTTP = &diag.HTTPFacts{Status: 204}
	}
}

// secondLooks are the steps that get the answer of another step, unless the test gives them one.
var secondLooks = map[string]string{
	hop.FactID(diag.HopAllocationBinding, "allocation_after"): hop.FactID(diag.HopAllocationBinding, hop.StepAllocation),
	hop.FactID(diag.HopNodeHeartbeat, "node_after"):           hop.FactID(diag.HopNodeHeartbeat, hop.StepReadModel),
}

// scripted is a vantage with scripted answers by fact id, healthy by default. It fails the test on a request that no
// plan would send.
type scripted struct {
	name    string
	answers map[string]func(*diag.Fact)
	hang    map[string]bool // answered only at the end of ctx
}

func (s *scripted) Name() string { return s.name }
func (s *scripted) Close() error { return nil }
func (s *scripted) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	facts := make([]diag.Fact, len(reqs))
	for i, req := range reqs {
		step, counter, _ := hop.SplitID(req.ID)
		asked := step
		if counter != "" {
			asked += "~" + counter
		}
		if s.hang[asked] {
			<-ctx.Done()
			facts[i] = diag.Fact{ID: req.ID, Request: req, Vantage: s.name, DurationMS: 1, Failure: diag.Timeout}
			continue
		}
		base, _, _ := strings.Cut(req.ID, "~")
		ask := req
		ask.ID = base
		f := healthy(ask)
		if counter != "" && req.Op == diag.OpTCP { // a bare connection
			f = diag.Fact{At: f.At, DurationMS: 3, TCP: &diag.TCPFacts{Remote: req.Target}}
		}
		f.ID, f.Request, f.Vantage = req.ID, req, s.name
		change := s.answers[req.ID] // of this repeat
		if change == nil {
			change = s.answers[asked]
		}
		if first := secondLooks[step]; change == nil && first != "" {
			change = s.answers[first]
		}
		if change == nil && counter == reading.CounterBare { // the same connection as the step's own
			change = s.answers[step]
		}
		if change != nil {
			change(&f)
		}
		facts[i] = f
	}
	return facts
}

// inMadeUpTime calls f in a synctest bubble: a walk repeats a request that is not answered within a second, and a
// stall of the test machine must not count as one.
func inMadeUpTime[T any](t *testing.T, f func(t *testing.T) T) (got T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		got = f(t)
	})
	return got
}

// walked is the result of a walk in made-up time.
type walked struct {
	facts []diag.Fact
	ended diag.EndedBy
}

func walkPlan(t *testing.T, e *hop.Env, plan diag.Plan, v map[string]hop.Vantage,
	observe func(walk.Event)) (facts []diag.Fact,
	ended diag.EndedBy) {
	t.Helper()
	w := inMadeUpTime(t, func(t *testing.T) (w walked) {
		w.facts, w.ended = walk.Walk(t.Context(), e, plan, v, observe)
		return w
	})
	return w.facts, w.ended
}

// walkWith walks the whole chain against scripted vantages, in made-up time, and judges it.
func walkWith(t *testing.T, answers map[string]func(*diag.Fact), hang ...string) *diag.Report {
	t.Helper()
	return inMadeUpTime(t, func(t *testing.T) *diag.Report { return walkUntil(t.Context(), answers, hang...) })
}

// walkUntil is walkWith for a caller whose time is made up already; the walk ends with ctx.
func walkUntil(ctx context.Context, answers map[string]func(*diag.Fact), hang ...string) *diag.Report {
	e := testEnv()
	stuck := map[string]bool{}
	for _, id := range hang {
		stuck[id] = true
	}
	vantages := map[string]hop.Vantage{}
	for _, v := range []string{hop.Operator, hop.Node, hop.Platform} {
		vantages[v] = &scripted{name: v, answers: answers, hang: stuck}
	}
	return walkFrom(ctx, e, vantages)
}

// walkFrom walks the whole chain from vantages, and judges it.
func walkFrom(ctx context.Context, e *hop.Env, vantages map[string]hop.Vantage) *diag.Report {
	plan := testPlan(e)
	facts, ended := walk.Walk(ctx, e, plan, vantages, nil)
	r := &diag.Report{
		Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan, Facts: facts,
		Run: diag.Run{ID: "run-1", CorrelationID: e.CorrelationID, StartedAt: diag.At(noon), EndedAt: diag.At(noon),
			EndedBy: ended},
	}
	verdict.Judge(chainOf(e), r)
	return r
}

// failWith makes a fact fail and lose the sections that a failed probe would not have.
func failWith(f diag.Failure, phase string) func(*diag.Fact) {
	return func(fact *diag.Fact) {
		fact.Failure, fact.Phase, fact.HTTP, fact.WS, fact.PTY = f, phase, nil, nil, nil
		fact.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443"}
		if phase == "dns" {
			fact.TCP, fact.DNS = nil, &diag.DNSFacts{Name: "x.test", Server: "192.0.2.53:53"}
		}
	}
}

func setField(name, value string) func(*diag.Fact) {
	return func(f *diag.Fact) { f.HTTP.Fields[name] = value }
}

func hopOf(r *diag.Report, id diag.HopID) diag.HopResult { return *reading.HopNamed(r.Hops, id) }

func byID(hops []diag.HopResult) map[diag.HopID]diag.HopResult {
	m := make(map[diag.HopID]diag.HopResult, len(hops))
	for _, h := range hops {
		m[h.ID] = h
	}
	return m
}

func describe(r *diag.Report) string {
	var b strings.Builder
	for _, h := range r.Hops {
		fmt.Fprintf(&b, "%-36s %-12s %-32s %s%s\n", h.ID, h.Status, h.Signal, h.Text, h.Because)
	}
	return b.String()
}

// nobodyClaims is a no-op that stays in the queue.
func nobodyClaims(f *diag.Fact) {
	f.HTTP.Fields["task.status"], f.Failure, f.Phase = "queued", diag.HTTPTimeout, "poll"
	delete(f.HTTP.Fields, "task.claimed_at")
	delete(f.HTTP.Fields, "task.completed_at")
}

// eachAtOnce answers every request in its own goroutine, as a vantage does.
func eachAtOnce(
	ctx context.Context, reqs []diag.Request, ask func(context.Context, diag.Request) diag.Fact,
) []diag.Fact {
	facts := make([]diag.Fact, len(reqs))
	var wg sync.WaitGroup
	for i := range reqs {
		wg.Go(func() { facts[i] = ask(ctx, reqs[i]) })
	}
	wg.Wait()
	return facts
}

// chainOf returns the chain that e's walks have.
func chainOf(e *hop.Env) *hop.Chain { return cmp.Or(e.Hops, hops.BuiltIn()) }
