package platform_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// judgeProgram builds the program that judges.
func judgeProgram(t *testing.T) string {
	t.Helper()
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("skipped: builds a binary")
	}
	path := filepath.Join(t.TempDir(), policy.Program)
	out, err := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path,
		"github.com/gpuaas/gpuaasctl/cmd/gpuaas-gpu-policy").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// gpuNode is a node that reports GPUs without an agent.
type gpuNode struct {
	t    *testing.T
	p    *platformtest.Platform
	cred platformtest.Credential
	now  func() time.Time
	boot string
	seq  uint64
}

func newGPUNode(t *testing.T, p *platformtest.Platform, id string, now func() time.Time) *gpuNode {
	t.Helper()
	n := &gpuNode{t: t, p: p, cred: p.Enroll(id), now: now, boot: "boot-1"}
	if code := beat(t, p, n.cred, wire.HeartbeatRequest{NodeInstanceID: "host-" + id}); code != "" {
		t.Fatal(code)
	}
	return n
}

// tell sends events, and waits for their judgement.
func (n *gpuNode) tell(events ...report.Event) gpuDocument {
	n.t.Helper()
	in := wire.EventsRequest{NodeInstanceID: "host-" + n.cred.NodeID}
	for _, e := range events {
		n.seq++
		e.APIVersion, e.Kind, e.At, e.BootID = report.APIVersion, report.KindEvent, n.now().UTC(), n.boot
		if e.Device != nil {
			e.Device.SampledAt = e.At
		}
		detail, err := json.Marshal(e)
		if err != nil {
			n.t.Fatal(err)
		}
		in.Events = append(in.Events, wire.Event{Seq: n.seq, At: e.At, Kind: e.Type.WireKind(), Detail: detail})
	}
	var out wire.EventsResponse
	if status, _ := n.p.DoNode(n.cred, http.MethodPost, path(wire.PathEvents, n.cred.NodeID), in,
		&out); status != http.StatusOK || out.Watermark != n.seq {
		n.t.Fatalf("events: %d %+v", status, out)
	}
	return n.judged()
}

// gpuDocument is the document that a gate reads.
type gpuDocument struct {
	APIVersion, Kind, Node, Status, Before, Health string

	Policy struct {
		Name, SHA256, Mode string
		Refused            []string
	}
	XIDTables string         `json:"xid_tables"`
	DecidedBy policy.Finding `json:"decided_by"`
	GPUs      []policy.GPUHealth
	Findings  []policy.Finding
	Dropped   []report.Dropped
	Expected  *int   `json:"gpus_expected"`
	SampledAt string `json:"sampled_at"`
	JudgedAt  string `json:"judged_at"`
}

// judged returns the document once everything new was judged.
func (n *gpuNode) judged() (d gpuDocument) {
	n.t.Helper()
	if err := n.p.JudgeGPUs(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	if status, _ := n.p.Do(http.MethodGet, "/v1/admin/nodes/"+n.cred.NodeID+"/gpu", nil, &d); status != http.StatusOK {
		n.t.Fatalf("read the document: %d", status)
	}
	return d
}

// want compares health and status, in the document and in the read model.
func (n *gpuNode) want(d gpuDocument, health, status, why string) {
	n.t.Helper()
	if d.Health != health || d.Status != status || !strings.Contains(d.DecidedBy.Why, why) {
		n.t.Errorf("node %s is %s and %s (%s: %s), want %s and %s (%s)", n.cred.NodeID, d.Health, d.Status, d.DecidedBy.Rule,
			d.DecidedBy.Why, health, status, why)
	}
	var read struct{ Status, Health string }
	n.p.Do(http.MethodGet, "/v1/admin/nodes/"+n.cred.NodeID, nil, &read)
	if read.Status != status {
		n.t.Errorf("node %s is %s in the list of nodes, and %s here", n.cred.NodeID, read.Status, status)
	}
}

func gpuCode(source report.Source, of report.EventType, code int, severity string) report.Event {
	return report.Event{Type: of, Source: source, GPU: &report.Identity{PCI: "0000:3b:00.0"},
		XID: &report.XID{Code: &code, Times: 1, BootID: "boot-1", Severity: severity}}
}

func gpuXID(code int) report.Event { return gpuCode(report.FromKernelLog, report.XIDEvent, code, "") }

// gpuSample returns the event about the node's one GPU.
func gpuSample(signals map[report.Signal]report.Reading) report.Event {
	all := map[report.Signal]report.Reading{}
	for _, s := range report.Signals() {
		all[s.Signal] = report.Reading{Unsupported: true}
	}
	for s, r := range signals {
		all[s] = r
	}
	return report.Event{Type: report.DeviceEvent, Source: report.FromNVML, Device: &report.Device{Driver: "570.1",
		Count: 1, GPU: report.GPU{UUID: "GPU-1", PCI: "0000:3b:00.0", Handle: report.ReadingOf(1), Signals: all}}}
}

func gpuSignal(s report.Signal, r report.Reading) report.Event {
	return gpuSample(map[report.Signal]report.Reading{s: r})
}

func gpuWatched(blind string) report.Event {
	return report.Event{Type: report.CoverageEvent, Source: report.FromKernelLog,
		Coverage: &report.Coverage{From: time.Unix(1, 0), To: time.Unix(2, 0), BootID: "boot-1", Blind: blind}}
}

func gpuAction(to int64) report.Event {
	return report.Event{Type: report.RecoveryEvent, Source: report.FromNVML, GPU: &report.Identity{PCI: "0000:3b:00.0"},
		Action: &report.Recovery{To: to, Action: report.ActionOf(to)}}
}

func gpuProbe(p report.Probe) report.Event {
	return report.Event{Type: report.ProbeEvent, Source: report.FromAgent, Probe: &p}
}

// TestGPUCases sends nodes' reports through the node API, and checks the default policy's judgement.
func TestGPUCases(t *testing.T) {
	program := judgeProgram(t)
	began := time.Unix(1, 0)
	lost := report.Event{Type: report.LostEvent, Source: report.FromKernelLog, GPU: &report.Identity{PCI: "0000:3b:00.0"},
		XID: &report.XID{Times: 1}}
	dropped := report.Event{Type: report.DroppedEvent, Source: report.FromAgent, Dropped: &report.Dropped{Since: began,
		Why: "rate", Count: map[report.EventType]int64{report.XIDEvent: 9}}}
	follows := gpuXID(45)
	root := 79
	follows.XID.CausedBy = &root
	well := gpuSample(nil)
	cases := []struct {
		name                string
		events              []report.Event // in addition to a watched kernel log
		health, status, why string
	}{
		{"well", []report.Event{well}, "HEALTHY", "ACTIVE", ""},
		{"fallen off the bus", []report.Event{well, gpuXID(79)}, "UNHEALTHY", "UNHEALTHY", "not usable"},
		{"lost without a code", []report.Event{well, lost}, "UNHEALTHY", "UNHEALTHY", "fallen off the bus"},
		{"double-bit ECC", []report.Event{well, gpuXID(48)}, "UNHEALTHY", "UNHEALTHY", "not usable"},
		{"by the driver", []report.Event{well, gpuCode(report.FromNVML, report.XIDEvent, 119, "")}, "UNHEALTHY", "UNHEALTHY",
			"not usable"},
		{"a tenant's page fault", []report.Event{well, gpuXID(31), gpuXID(13), gpuXID(43)}, "HEALTHY", "ACTIVE", ""},
		{"follows a fatal one", []report.Event{well, follows}, "UNHEALTHY", "UNHEALTHY", ""},
		{"in no table", []report.Event{well, gpuXID(999)}, "DEGRADED", "ACTIVE", "not known to be harmless"},
		{"NVLink", []report.Event{well, gpuXID(74)}, "DEGRADED", "ACTIVE", "NVLink"},
		{"switch, fatal", []report.Event{well, gpuCode(report.FromKernelLog, report.SXIDEvent, 20034, "Fatal")}, "UNHEALTHY",
			"UNHEALTHY", ""},
		{"switch, not fatal", []report.Event{well, gpuCode(report.FromKernelLog, report.SXIDEvent, 20034, "Non-fatal")},
			"HEALTHY", "ACTIVE", ""},
		{"asks for a reset", []report.Event{well, gpuAction(1)}, "UNHEALTHY", "UNHEALTHY", "the driver itself"},
		{"was reset", []report.Event{well, gpuXID(119), gpuAction(1), gpuAction(0)}, "HEALTHY", "ACTIVE", ""},
		{"95 C", []report.Event{gpuSignal(report.Temperature, report.ReadingOf(95))}, "UNHEALTHY", "UNHEALTHY", "95 C"},
		{"85 C", []report.Event{gpuSignal(report.Temperature, report.ReadingOf(85))}, "DEGRADED", "ACTIVE", "85 C"},
		{"ECC counter", []report.Event{gpuSignal(report.ECCDBEVolatile, report.ReadingOf(1))}, "UNHEALTHY", "UNHEALTHY",
			"memory"},
		{"row not replaced", []report.Event{gpuSignal(report.RemapFailure, report.Flag(true))}, "UNHEALTHY", "UNHEALTHY",
			"row"},
		{"row pending", []report.Event{gpuSignal(report.RemapPending, report.Flag(true))}, "DEGRADED", "ACTIVE",
			"due for a reset"},
		{"a call says lost", []report.Event{gpuSignal(report.Power, report.Refused(15))}, "UNHEALTHY", "UNHEALTHY",
			"cannot reach"},
		{"a reading failed", []report.Event{gpuSignal(report.Temperature, report.Refused(999))}, "UNKNOWN", "ACTIVE",
			"could not be"},
		{"no library", []report.Event{gpuProbe(report.Probe{State: report.Unknown, Library: report.LibraryNotFound,
			Code: 12})}, "UNKNOWN", "ACTIVE", "library_not_found"},
		{"no GPU", []report.Event{gpuProbe(report.Probe{State: report.Sampling, Library: report.Loaded, Count: new(int)})},
			"UNHEALTHY", "UNHEALTHY", "fewer GPUs"},
		{"stuck", []report.Event{well, gpuProbe(report.Probe{State: report.Stuck, Call: "nvmlDeviceGetPowerUsage",
			Since: &began})}, "UNKNOWN", "ACTIVE", "in nvmlDeviceGetPowerUsage"},
		{"nobody reads the log", []report.Event{well, gpuWatched("it cannot be opened")}, "UNKNOWN", "ACTIVE",
			"cannot be opened"},
		{"dropped", []report.Event{well, dropped}, "UNKNOWN", "ACTIVE", "9 events were dropped"},
		{"no sample", nil, "UNKNOWN", "ACTIVE", "no sample"},
	}
	var seeds []platform.SeedNode
	one := 1
	for _, c := range cases {
		seeds = append(seeds, platform.SeedNode{ID: strings.ReplaceAll(c.name, " ", "-"), GPUs: &one})
	}
	p := platformtest.StartPlatform(t, platformtest.Options{Nodes: seeds, Config: func(c *platform.Config) {
		c.GPU = platform.GPU{Policy: "default", Program: program}
	}})
	for i, c := range cases {
		n := newGPUNode(t, p, seeds[i].ID, time.Now)
		d := n.tell(append([]report.Event{gpuWatched("")}, c.events...)...)
		n.want(d, c.health, c.status, c.why)
		if d.APIVersion != "gpuaas/v1" || d.Kind != "GPUAdmission" || d.Policy.Name != "default" || d.Policy.SHA256 == "" ||
			d.Policy.Mode != "enforce" || d.XIDTables == "" || d.Expected == nil || d.JudgedAt == "" {
			t.Errorf("%s: the document lacks something: %+v", c.name, d)
		}
		for _, g := range d.GPUs {
			if g.Health == policy.Healthy && d.Health == "UNKNOWN" {
				t.Errorf("%s: nobody could look at the node, and its GPU is %+v", c.name, g)
			}
		}
		if sampled := len(c.events) > 0 && c.events[0].Device != nil; sampled != (d.SampledAt != "") ||
			sampled != (len(d.GPUs) == 1) {
			t.Errorf("%s: sampled at %q, GPUs %+v", c.name, d.SampledAt, d.GPUs)
		}
	}
}

// TestGPUSequence: an unhealthy judgement holds until the node is fully healthy; missing samples never clear it.
func TestGPUSequence(t *testing.T) {
	program := judgeProgram(t)
	c := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: c.now, Config: func(cfg *platform.Config) {
		cfg.GPU = platform.GPU{Policy: "default", Program: program}
	}})
	n := newGPUNode(t, p, platformtest.NodeID, c.now)
	var d gpuDocument
	if status, _ := p.Do(http.MethodGet, "/v1/admin/nodes/"+platformtest.NodeID+"/gpu", nil, &d); status != 200 {
		t.Fatal(status)
	}
	n.want(d, "UNKNOWN", "ACTIVE", "has reported nothing")
	n.want(n.tell(gpuWatched(""), gpuSample(nil)), "HEALTHY", "ACTIVE", "")
	c.advance(4 * time.Minute)
	n.want(n.judged(), "UNKNOWN", "ACTIVE", "was last looked at 4m")
	n.want(n.tell(gpuSample(nil)), "HEALTHY", "ACTIVE", "")
	n.want(n.tell(gpuSignal(report.Temperature, report.ReadingOf(96))), "UNHEALTHY", "UNHEALTHY", "95 C")
	n.want(n.tell(gpuSignal(report.Temperature, report.ReadingOf(86))), "DEGRADED", "UNHEALTHY", "85 C")
	c.advance(20 * time.Minute)
	n.want(n.judged(), "UNKNOWN", "UNHEALTHY", "was last looked at 20m")
	n.want(n.tell(gpuSample(nil)), "HEALTHY", "ACTIVE", "")
	n.want(n.tell(gpuXID(79)), "UNHEALTHY", "UNHEALTHY", "")
	n.want(n.tell(gpuSample(nil)), "UNHEALTHY", "UNHEALTHY", "") // only a boot ends that
	n.boot = "boot-2"
	watched := gpuWatched("")
	watched.Coverage.BootID = "boot-2"
	n.want(n.tell(watched), "UNKNOWN", "UNHEALTHY", "no sample")
	n.want(n.tell(gpuSample(nil)), "HEALTHY", "ACTIVE", "")
	rows, err := p.Store().AuditRows(t.Context(), store.AuditQuery{Action: store.NodeGPUStatus, Limit: 9})
	if err != nil || len(rows) != 4 {
		t.Errorf("%d audit rows of 4 changes, %v", len(rows), err)
	}
}

// TestGPUPolicyProgram: if the policy program fails in any way, there is no partial judgement and no GPU is healthy.
func TestGPUPolicyProgram(t *testing.T) {
	real := judgeProgram(t)
	program := filepath.Join(t.TempDir(), "program")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(program+".new", []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(program+".new", program); err != nil {
			t.Fatal(err)
		}
	}
	c := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: c.now, Config: func(cfg *platform.Config) {
		cfg.GPU = platform.GPU{Policy: "default", Program: program}
	}})
	n := newGPUNode(t, p, platformtest.NodeID, c.now)
	n.want(n.tell(gpuWatched(""), gpuSample(nil)), "UNKNOWN", "ACTIVE", "no policy was accepted")
	put("exec " + real)
	n.want(n.judged(), "HEALTHY", "ACTIVE", "")
	for name, text := range map[string]string{
		"another build":   `cat >/dev/null; echo '{"schema":1,"version":"v0","judgement":{"health":"HEALTHY"}}'`,
		"an unknown word": `cat >/dev/null; echo '{"schema":1,"version":"dev","judgement":{"health":"GREEN"}}'`,
		"no judgement":    `cat >/dev/null; echo '{"schema":1,"version":"dev"}'`,
		"a mistake":       `cat >/dev/null; echo '{"schema":1,"version":"dev","mistakes":[{"path":"p","line":3,"text":"no"}]}'`,
		"an error":        `cat >/dev/null; exit 7`,
	} {
		put(text)
		d := n.tell(gpuSample(nil))
		if d.Health != "UNKNOWN" || d.Status != "ACTIVE" || len(d.GPUs) != 1 || d.GPUs[0].Health != policy.Unknown ||
			d.DecidedBy.Subject.What != "the policy" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	put("exec " + real)
	n.want(n.judged(), "HEALTHY", "ACTIVE", "")

	// One that accepts every policy, and hangs when it has to judge.
	put(`read -r line; case "$line" in *'"op":"check"'*) echo '{"schema":1,"version":"dev","policy":{}}';;` +
		` *) exec sleep 600;; esac`)
	p = platformtest.StartPlatform(t, platformtest.Options{Config: func(cfg *platform.Config) {
		cfg.GPU = platform.GPU{Policy: "default", Program: program, Timeout: 1}
	}})
	n = newGPUNode(t, p, platformtest.NodeID, time.Now)
	if d := n.tell(gpuWatched(""), gpuSample(nil)); d.Health != "UNKNOWN" || d.Status != "ACTIVE" ||
		d.DecidedBy.Subject.What != "the policy" || !strings.Contains(d.DecidedBy.Why, "deadline exceeded") {
		t.Errorf("no answer in time: %+v", d)
	}
}

// TestGPUPolicyFile: a file is read again when it changes; an invalid one is rejected with file and line, and the
// previous policy stays in force. In shadow mode judgements have no consequences.
func TestGPUPolicyFile(t *testing.T) {
	program, file := judgeProgram(t), filepath.Join(t.TempDir(), "policy.yaml")
	put := func(condition, result string) {
		t.Helper()
		text := "version: 1\nrules:\n  - name: one\n    condition: " + condition + "\n    result: " + result + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func(mode policy.Mode) *gpuNode {
		p := platformtest.StartPlatform(t, platformtest.Options{Config: func(cfg *platform.Config) {
			cfg.GPU = platform.GPU{Policy: file, Mode: mode, Program: program}
		}})
		return newGPUNode(t, p, platformtest.NodeID, time.Now)
	}
	put("gpu.temperatur > 1", "UNHEALTHY")
	n := start(policy.Enforce)
	d := n.tell(gpuWatched(""), gpuSample(nil))
	n.want(d, "UNKNOWN", "ACTIVE", file+":4: ")
	if len(d.Policy.Refused) != 1 {
		t.Errorf("refused: %q", d.Policy.Refused)
	}
	put("has(gpu.temperature) && gpu.temperature > 90", "DEGRADED")
	n.want(n.judged(), "HEALTHY", "ACTIVE", "")
	was := n.judged().Policy
	for _, wrong := range []string{"gpu.temperatur > 1", "gpu.index", "gpu.index >", `gpu.index == "x"`} {
		put(wrong, "HEALTHY")
		d := n.tell(gpuSignal(report.Temperature, report.ReadingOf(91)))
		n.want(d, "DEGRADED", "ACTIVE", "")
		if d.Policy.SHA256 != was.SHA256 || len(d.Policy.Refused) == 0 ||
			!strings.HasPrefix(d.Policy.Refused[0], file+":4: ") {
			t.Errorf("%s: %+v", wrong, d.Policy)
		}
	}
	put("gpu.temperature > 90", "DEGRADED") // cannot be evaluated without a temperature
	n.want(n.tell(gpuSample(nil)), "UNKNOWN", "ACTIVE", "")
	put("has(gpu.temperature) && gpu.temperature > 90", "UNHEALTHY")
	n.want(n.tell(gpuSignal(report.Temperature, report.ReadingOf(91))), "UNHEALTHY", "UNHEALTHY", "")

	// After a start with an invalid file the last accepted policy stays in force.
	kept, err := n.p.Store().GPUPolicy(t.Context())
	if err != nil || kept.Path != file || kept.Digest != n.judged().Policy.SHA256 {
		t.Fatalf("kept: %+v, %v", kept, err)
	}
	put("gpu.temperatur > 1", "HEALTHY")
	later := start(policy.Enforce)
	later.want(later.tell(gpuWatched(""), gpuSignal(report.Temperature, report.ReadingOf(91))), "UNKNOWN", "ACTIVE",
		file+":4: ")
	if err := later.p.Store().SaveGPUPolicy(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	d = later.judged()
	later.want(d, "UNHEALTHY", "UNHEALTHY", "")
	if d.Policy.SHA256 != kept.Digest || len(d.Policy.Refused) != 1 {
		t.Errorf("the policy that was kept: %+v", d.Policy)
	}
	put("has(gpu.temperature) && gpu.temperature > 90", "UNHEALTHY")

	shadow := start(policy.Shadow)
	d = shadow.tell(gpuWatched(""), gpuSignal(report.Temperature, report.ReadingOf(91)))
	shadow.want(d, "UNHEALTHY", "ACTIVE", "")
	var read struct{ Health string }
	shadow.p.Do(http.MethodGet, "/v1/admin/nodes/"+platformtest.NodeID, nil, &read)
	if d.Policy.Mode != "shadow" || read.Health != "UNKNOWN" {
		t.Errorf("shadow mode: %+v, health %s", d.Policy, read.Health)
	}
}

// TestGPUsAreNotJudgedByDefault: a platform without a policy judges nothing, and stores the events.
func TestGPUsAreNotJudgedByDefault(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	n := newGPUNode(t, p, platformtest.NodeID, time.Now)
	in := wire.EventsRequest{NodeInstanceID: "host-" + platformtest.NodeID,
		Events: []wire.Event{{Seq: 1, At: time.Now(), Kind: "gpu.xid", Detail: []byte(`{}`)}}}
	if status, _ := p.DoNode(n.cred, http.MethodPost, path(wire.PathEvents, platformtest.NodeID), in, nil); status != 200 {
		t.Error(status)
	}
	if status, _ := p.Do(http.MethodGet, "/v1/admin/nodes/"+platformtest.NodeID+"/gpu", nil, nil); status != 404 {
		t.Errorf("the document: %d", status)
	}
	events, err := p.Store().GPUEvents(t.Context(), platformtest.NodeID)
	if err != nil || len(events) != 1 {
		t.Errorf("%+v, %v", events, err)
	}
}
