//go:build linux

package inprocess

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// policyProgram builds the program that judges GPUs, of the platform's version.
func policyProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), policy.Program)
	if err := compile(path, policy.Program, "dev"); err != nil {
		t.Fatal(err)
	}
	return path
}

// gpuReporter reports a node's GPUs in place of its agent.
type gpuReporter struct {
	w    *world
	cred platformtest.Credential
	seq  uint64
}

func (g *gpuReporter) post(t *testing.T, path string, in any) {
	t.Helper()
	path = strings.Replace(path, "{node_id}", nodeID, 1)
	if status, _ := g.w.platform.DoNode(g.cred, http.MethodPost, path, in, nil); status != http.StatusOK {
		t.Fatalf("%s: %d", path, status)
	}
}

// report sends events, with a watched kernel log, and lets the platform judge them.
func (g *gpuReporter) report(t *testing.T, events ...report.Event) {
	t.Helper()
	in := wire.EventsRequest{NodeInstanceID: "host-a"}
	events = append(events, report.Event{Type: report.CoverageEvent, Source: report.FromKernelLog,
		Coverage: &report.Coverage{From: time.Unix(1, 0), To: time.Unix(2, 0), BootID: "boot-1"}})
	for _, e := range events {
		g.seq++
		e.APIVersion, e.Kind, e.At, e.BootID = report.APIVersion, report.KindEvent, time.Now().UTC(), "boot-1"
		if e.Device != nil {
			e.Device.SampledAt = e.At
		}
		detail, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		in.Events = append(in.Events, wire.Event{Seq: g.seq, At: e.At, Kind: e.Type.WireKind(), Detail: detail})
	}
	g.post(t, wire.PathEvents, in)
	if err := g.w.platform.JudgeGPUs(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// sampled returns an event about the node's one GPU, at a temperature.
func sampled(celsius int64) report.Event {
	signals := map[report.Signal]report.Reading{}
	for _, s := range report.Signals() {
		signals[s.Signal] = report.Reading{Unsupported: true}
	}
	signals[report.Temperature] = report.ReadingOf(celsius)
	return report.Event{Type: report.DeviceEvent, Source: report.FromNVML, Device: &report.Device{Driver: "570.1",
		Count: 1, GPU: report.GPU{UUID: "GPU-1", PCI: "0000:3b:00.0", Handle: report.ReadingOf(1), Signals: signals}}}
}

// lookAtGPUs returns hop 18 of a walk with only that hop, and the document of gpu status.
func (w *world) lookAtGPUs(t *testing.T) (diag.HopResult, *diag.Report, *reading.GPUAdmission, error) {
	t.Helper()
	p := w.load(t)
	secrets, err := ops.ReadSecrets(t.Context(), p, true)
	if err != nil {
		t.Fatal(err)
	}
	s := ops.New(ops.Site{Profile: p, Secrets: secrets}).Node(nodeID, "")
	r := s.Walk(t.Context(), ops.WalkOptions{Only: []diag.HopID{diag.HopGPUHealth}}, nil)
	g, err := s.GPUs(t.Context())
	if c := s.Lifecycle(t.Context()).Classification; c != nil && c.Reason == diag.ReasonOpsAccessUnhealthy {
		t.Errorf("a login was not tried, and is %s: %q", c.Reason, c.Because)
	}
	return resultOf(t, r, diag.HopGPUHealth), r, g, err
}

// TestGPUHealth: hop 18 and gpu status show the judgement of the platform's policy.
func TestGPUHealth(t *testing.T) {
	t.Parallel()
	program, one := policyProgram(t), 1
	w := start(t, options{noAgent: true, platform: func(o *platformtest.Options) {
		o.Nodes[0].GPUs = &one
		config := o.Config
		o.Config = func(c *platform.Config) {
			config(c)
			c.GPU = platform.GPU{Policy: "default", Program: program}
		}
	}})
	g := &gpuReporter{w: w, cred: w.platform.Enroll(nodeID)}
	g.post(t, wire.PathHeartbeat, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	code := 79
	fallen := report.Event{Type: report.XIDEvent, Source: report.FromKernelLog, GPU: &report.Identity{PCI: "0000:3b:00.0"},
		XID: &report.XID{Code: &code, Times: 1, BootID: "boot-1"}}
	gone := report.Event{Type: report.ProbeEvent, Source: report.FromAgent,
		Probe: &report.Probe{State: report.Unknown, Library: report.LibraryNotFound, Code: 12}}
	for _, tc := range []struct {
		events []report.Event // nil: nothing was ever reported
		health string
		status diag.Status
		signal diag.Signal
		says   string
	}{
		{nil, "UNKNOWN", diag.StatusInconclusive, diag.SigGPUUnknown, "has reported nothing about GPUs"},
		{[]report.Event{sampled(40)}, "HEALTHY", diag.StatusPass, "", "1 GPU healthy by the policy default; last sample "},
		{[]report.Event{gone}, "UNKNOWN", diag.StatusInconclusive, diag.SigGPUUnknown, "library_not_found"},
		{[]report.Event{sampled(86)}, "DEGRADED", diag.StatusWarn, diag.SigGPUDegraded, "(rule heat-warning)"},
		{[]report.Event{sampled(40), fallen}, "UNHEALTHY", diag.StatusFail, diag.SigGPUUnhealthy,
			"xid 79 of GPU 0, 0000:3b:00.0, GPU-1"},
	} {
		if tc.events != nil {
			g.report(t, tc.events...)
		}
		h, r, doc, err := w.lookAtGPUs(t)
		if text := h.Text + h.Because; h.Status != tc.status || h.Signal != tc.signal || !strings.Contains(text, tc.says) {
			t.Errorf("%s: the hop is %s %s: %q, want %s %s %q", tc.health, h.Status, h.Signal, text, tc.status, tc.signal,
				tc.says)
		}
		if err != nil || doc.Health != tc.health || doc.Policy.Name != "default" || doc.Expected == nil || doc.Now.IsZero() {
			t.Errorf("%s: the document is %+v, %v", tc.health, doc, err)
		}
		v := r.Verdict
		if b := v.Blame; (b != nil) != (tc.status == diag.StatusFail) ||
			(b != nil && (b.Hop != diag.HopGPUHealth || v.Confidence != diag.Observed)) {
			t.Errorf("%s: %s, blame %+v, %s", tc.health, v.Outcome, b, v.Confidence)
		}
	}
}

// TestGPUsNotJudged: a platform without a GPU policy is not reported as healthy, and without the path nothing is
// sent.
func TestGPUsNotJudged(t *testing.T) {
	t.Parallel()
	w := start(t, options{noAgent: true})
	h, _, doc, err := w.lookAtGPUs(t)
	if h.Status != diag.StatusSkipped || !strings.Contains(h.Because, "judges no GPUs") || doc != nil ||
		!errors.As(err, new(*ops.NotJudgedError)) {
		t.Errorf("the hop is %s: %q; %+v, %v", h.Status, h.Because, doc, err)
	}
	w = start(t, options{noAgent: true, yaml: "mapping: {paths: {node: '/v1/admin/nodes/{node_id}?other'}}\n"})
	w.platform.APIEdge.Watch(func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/gpu") {
			t.Errorf("%s %s", r.Method, r.URL)
		}
	})
	t.Cleanup(func() { w.platform.APIEdge.Watch(nil) })
	h, _, doc, err = w.lookAtGPUs(t)
	if h.Status != diag.StatusSkipped || !strings.HasPrefix(h.Because, hops.WhyGPUsUnjudged()) || doc != nil ||
		!errors.As(err, new(*ops.NotJudgedError)) {
		t.Errorf("the hop is %s: %q; %+v, %v", h.Status, h.Because, doc, err)
	}
}
