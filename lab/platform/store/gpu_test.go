package store_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/status"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// gpuEvent is one on the wire.
func gpuEvent(t *testing.T, seq uint64, boot string, e report.Event) wire.Event {
	t.Helper()
	e.APIVersion, e.Kind, e.At, e.BootID = report.APIVersion, report.KindEvent, t0, boot
	if e.Source == "" {
		e.Source = report.FromKernelLog
	}
	detail, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := report.DecodeEvent(detail); err != nil {
		t.Fatalf("%v\n%s", err, detail)
	}
	return wire.Event{Seq: seq, At: t0, Kind: e.Type.WireKind(), Detail: detail}
}

func xidEvent(code int, pci string) report.Event {
	return report.Event{Type: report.XIDEvent, GPU: &report.Identity{PCI: pci}, XID: &report.XID{Code: &code, Times: 1}}
}

func deviceEvent(g report.GPU) report.Event {
	g.Handle = report.ReadingOf(1)
	return report.Event{Type: report.DeviceEvent, Source: report.FromNVML,
		Device: &report.Device{SampledAt: t0, Count: 1, GPU: g}}
}

func tell(t *testing.T, s *store.Store, instance string, oldest uint64, events ...wire.Event) {
	t.Helper()
	if _, err := s.AddEvents(t.Context(), "n1", wire.EventsRequest{NodeInstanceID: instance, Events: events,
		Oldest: oldest}, t0); err != nil {
		t.Fatal(err)
	}
}

// keptGPUs returns the types of the stored events with their counts, oldest first.
func keptGPUs(t *testing.T, s *store.Store) (words []string) {
	t.Helper()
	events, err := s.GPUEvents(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		word := string(e.Type)
		switch {
		case e.XID != nil:
			word += fmt.Sprint(" ", *e.XID.Code, " x", e.XID.Times)
		case e.Device != nil:
			word += " " + e.Device.GPU.PCI + e.Device.GPU.UUID
		case e.Dropped != nil:
			word += fmt.Sprint(" ", e.Dropped.Why, e.Dropped.Count)
		}
		words = append(words, word)
	}
	return words
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestWhatOfGPUsIsKept: the newest event of a GPU and the errors of this boot are stored, and losses are counted.
func TestWhatOfGPUsIsKept(t *testing.T) {
	s, _ := open(t)
	probe := report.Event{Type: report.ProbeEvent, Source: report.FromAgent, Probe: &report.Probe{State: report.Sampling}}
	tell(t, s, "a", 0, gpuEvent(t, 1, "b1", probe), gpuEvent(t, 2, "b1", deviceEvent(report.GPU{})),
		gpuEvent(t, 3, "b1", deviceEvent(report.GPU{PCI: "p", UUID: "u1"})), gpuEvent(t, 4, "b1", xidEvent(79, "p")),
		wire.Event{Seq: 5, Kind: "agent.decision", Detail: []byte(`{}`)},
		gpuEvent(t, 6, "b1", deviceEvent(report.GPU{PCI: "p", UUID: "u2"})), gpuEvent(t, 7, "b1", probe))
	same(t, "one GPU, whose name was not known at first", keptGPUs(t, s), "xid 79 x1", "device pu2", "probe")
	tell(t, s, "a", 0, gpuEvent(t, 4, "b1", xidEvent(79, "p")), gpuEvent(t, 7, "b1", probe))
	same(t, "sent again", keptGPUs(t, s), "xid 79 x1", "device pu2", "probe")

	tell(t, s, "a", 11, wire.Event{Seq: 11, Kind: "gpu.xid", Detail: []byte(`{"kind":"GPUEvent"}`)},
		wire.Event{Seq: 12, Kind: "gpu.new", Detail: []byte(`x`)})
	same(t, "lost and unreadable", keptGPUs(t, s), "xid 79 x1", "device pu2", "probe", "dropped lostmap[xid:3]",
		"dropped unreadablemap[xid:2]")
	if d, err := s.GPUDropped(t.Context(), "n1"); err != nil || len(d) != 2 {
		t.Errorf("dropped: %+v, %v", d, err)
	}
	tell(t, s, "a", 15, gpuEvent(t, 15, "b2", xidEvent(31, "p")))
	same(t, "another boot, and what was lost right before it", keptGPUs(t, s), "xid 79 x1", "dropped lostmap[xid:5]",
		"xid 31 x1")
	tell(t, s, "b", 0, gpuEvent(t, 1, "b2", xidEvent(13, "p")))
	same(t, "another host", keptGPUs(t, s), "xid 13 x1")
	if n, err := s.GPUNode(t.Context(), "n1"); err != nil || n.Seq != 1 || n.Boot != "b2" {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestErrorsOfEarlierBoots: the newest errors of earlier boots are kept, and are never counted with those of this boot.
func TestErrorsOfEarlierBoots(t *testing.T) {
	s, _ := open(t)
	seq := uint64(0)
	for _, boot := range []string{"b1", "b2", "b3"} {
		for range 20 {
			seq++
			tell(t, s, "a", 0, gpuEvent(t, seq, boot, xidEvent(31, "p")))
		}
	}
	events, err := s.GPUEvents(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int64{}
	for _, e := range events {
		times[e.BootID] += e.XID.Times
	}
	if len(events) != 8+16 || times["b1"] != 0 || times["b2"] < 8 || times["b3"] != 20 {
		t.Errorf("%d events, times %v", len(events), times)
	}
}

// TestManyErrorsAreCounted: of a thousand equal errors the first and the last are stored, and all are counted.
func TestManyErrorsAreCounted(t *testing.T) {
	s, _ := open(t)
	for seq := uint64(1); seq <= 1000; seq += 50 {
		var batch []wire.Event
		for i := range uint64(50) {
			batch = append(batch, gpuEvent(t, seq+i, "b", xidEvent(31, "p")))
		}
		tell(t, s, "a", 0, batch...)
	}
	tell(t, s, "a", 0, gpuEvent(t, 1001, "b", xidEvent(31, "q")))
	events, err := s.GPUEvents(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, e := range events {
		sum += e.XID.Times
	}
	if len(events) != 17 || sum != 1001 {
		t.Errorf("%d events that count %d, want 17 that count 1001", len(events), sum)
	}
}

const childDatabase = "GPUAAS_TEST_CHILD_DATABASE"

// TestChild is the platform that TestKilledPlatform kills: it stores an event at a time, and acknowledges it on
// stdout.
func TestChild(t *testing.T) {
	path := os.Getenv(childDatabase)
	if path == "" {
		return
	}
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mark, err := s.Watermark(t.Context(), "n1", "a")
	if err != nil {
		t.Fatal(err)
	}
	for seq := mark + 1; ; seq++ {
		mark, err := s.AddEvents(t.Context(), "n1", wire.EventsRequest{NodeInstanceID: "a",
			Events: []wire.Event{gpuEvent(t, seq, "b", xidEvent(int(seq), "p"))}}, t0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("acknowledged", mark)
	}
}

// TestKilledPlatform: killed at any moment, a platform has every event that it acknowledged, and none twice when
// the node resends unacknowledged ones.
func TestKilledPlatform(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("skipped: starts and kills processes")
	}
	s, path := open(t)
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
		cmd.Env = append(os.Environ(), childDatabase+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged, seen := uint64(0), 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.ParseUint(strings.TrimPrefix(lines.Text(), "acknowledged "), 10, 64)
			if err != nil {
				t.Fatal(lines.Text())
			}
			acknowledged = n
			if seen++; seen == 3+round { // it is in the next one by now, or not
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait() // killed
		mark, err := s.Watermark(t.Context(), "n1", "a")
		if err != nil || mark < acknowledged || seen < 3+round {
			t.Fatalf("round %d: the watermark is %d, and %d was acknowledged: %v", round, mark, acknowledged, err)
		}
		for seq := acknowledged; seq <= acknowledged+1; seq++ { // the node knows of no more
			tell(t, s, "a", 0, gpuEvent(t, seq, "b", xidEvent(int(seq), "p")))
		}
	}
	mark, err := s.Watermark(t.Context(), "n1", "a")
	if err != nil {
		t.Fatal(err)
	}
	events, err := s.GPUEvents(t.Context(), "n1")
	if err != nil || uint64(len(events)) != mark {
		t.Fatalf("%d events are kept of %d, %v", len(events), mark, err)
	}
	for i, e := range events {
		if *e.XID.Code != i+1 || e.XID.Times != 1 {
			t.Errorf("event %d is XID %d, %d times", i+1, *e.XID.Code, e.XID.Times)
		}
	}
}

// TestStatusIsKept: the consequences of a judgement are in one transaction with its evidence and its audit row,
// and survive a restart.
func TestStatusIsKept(t *testing.T) {
	s, path := open(t)
	if _, err := s.JudgeGPUs(t.Context(), "n1", store.GPUJudged{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a node that has reported no GPU: %v", err)
	}
	tell(t, s, "a", 0, gpuEvent(t, 1, "b", xidEvent(79, "p")))
	at := t0
	judge := func(h policy.Health, mode policy.Mode, want status.Status) {
		t.Helper()
		at = at.Add(time.Second)
		c, err := s.JudgeGPUs(t.Context(), "n1", store.GPUJudged{At: at,
			Judgement: policy.Judgement{Policy: "p", Health: h, Mode: mode}})
		n, err2 := s.Node(t.Context(), "n1")
		if err != nil || err2 != nil || c.To != want || n.Status != string(want) {
			t.Errorf("%s in mode %s: %+v, %s, %v %v; want %s", h, mode, c, n.Status, err, err2, want)
		}
	}
	judge(policy.Unhealthy, policy.Shadow, status.Active)
	judge(policy.Unhealthy, policy.Enforce, status.Unhealthy)
	judge(policy.Unhealthy, policy.Enforce, status.Unhealthy)
	judge(policy.Degraded, policy.Enforce, status.Unhealthy)
	judge(policy.Unknown, policy.Enforce, status.Unhealthy)
	again, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	s = again
	judge(policy.Healthy, policy.Shadow, status.Unhealthy)
	judge(policy.Healthy, policy.Enforce, status.Active)
	rows, err := s.AuditRows(t.Context(), store.AuditQuery{NodeID: "n1", Action: store.NodeGPUStatus, Limit: 10})
	if err != nil || len(rows) != 2 || rows[0].Reason != "ACTIVE to UNHEALTHY by policy p: the report is UNHEALTHY" {
		t.Errorf("audit %+v, %v", rows, err)
	}
}
