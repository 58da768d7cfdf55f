package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
)

// show returns values as text, sorted by name; a missing value is its reason.
func show(v Values) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		all = append(all, fmt.Sprint(name, "=", cmp.Or(v[name].Of, any(v[name].Failed))))
	}
	return strings.Join(all, " ")
}

// TestBoots: an event counts unless it is known to be of another boot than the newest event.
func TestBoots(t *testing.T) {
	of := func(e report.Event, boot, section string) report.Event {
		e.BootID = boot
		if e.XID != nil {
			e.XID.BootID = section
		}
		if e.Coverage != nil {
			e.Coverage.BootID = section
		}
		return e
	}
	err := func() report.Event { return xidOf(79, 1, "a") }
	for name, tc := range map[string]struct {
		events []report.Event
		want   string // of which boot the first event is
	}{
		"none is known":                  {[]report.Event{err(), of(watched(), "", "")}, "ours"},
		"one boot":                       {[]report.Event{of(err(), "b", ""), of(watched(), "b", "")}, "ours"},
		"an earlier one":                 {[]report.Event{of(err(), "a", ""), of(watched(), "b", "")}, "earlier"},
		"its section's":                  {[]report.Event{of(err(), "", "a"), of(watched(), "b", "")}, "earlier"},
		"its own outranks its section's": {[]report.Event{of(err(), "b", "a"), of(watched(), "b", "")}, "ours"},
		"the newest has none": {[]report.Event{of(err(), "a", ""), of(watched(), "b", ""), of(watched(), "",
			"")}, "earlier"},
		"only the coverage has one": {[]report.Event{of(err(), "a", ""), of(watched(), "", "b")}, "earlier"},
		"the newest outranks older ones": {[]report.Event{of(err(), "c", ""), of(watched(), "a", ""), of(watched(), "c",
			"a")}, "ours"},
		"an error's section tells no newest": {[]report.Event{of(err(), "a", ""), of(watched(), "a", ""), of(err(), "",
			"b")}, "ours"},
		"without any, of a known boot": {[]report.Event{err(), of(watched(), "b", "")}, "ours"},
	} {
		f := FactsOf(Evidence{Events: tc.events})
		past := slices.ContainsFunc(f.Past, func(p Finding) bool {
			return p.Subject.Event == 1 &&
				p.Why == "of an earlier boot"
		})
		if past != (tc.want == "earlier") {
			t.Errorf("%s: %+v", name, f.Past)
		}
	}
	// The coverage of an earlier boot is not one of this boot.
	f := FactsOf(Evidence{Events: []report.Event{of(watched(), "", "a"), of(device(0, 1, 1, nil), "b", "")}})
	if got := floors(f); !strings.Contains(got, "was not watched") {
		t.Errorf("%q", got)
	}
}

// TestNamesOfGPUs: an event is of the GPU that has its address or its UUID, and of no other.
func TestNamesOfGPUs(t *testing.T) {
	gpus := []report.Event{watched(),
		gpuWith(0, func(g *report.GPU) { g.UUID, g.PCI = "u0", "" }), gpuWith(1, func(g *report.GPU) {
			g.UUID, g.PCI = "",
				"p1"
		}),
		gpuWith(2, func(g *report.GPU) { g.UUID, g.PCI = "u2", "p2" })}
	for id, want := range map[report.Identity]string{
		{UUID: "u0"}: "0 u0 ", {PCI: "p1"}: "1  p1", {UUID: "u2"}: "2 u2 p2", {PCI: "p2"}: "2 u2 p2",
		{UUID: "u2", PCI: "p2"}: "2 u2 p2", {}: "- - ", {UUID: "u9"}: "- u9 ", {PCI: "p9"}: "-  p9",
		{UUID: "u9", PCI: "p2"}: "2 u9 p2", {UUID: "u2", PCI: "p9"}: "2 u2 p9",
	} {
		e := xidOf(31, 1, "")
		e.GPU = &id
		o := FactsOf(Evidence{Events: append(slices.Clone(gpus), e)}).Observations[3] // after the GPUs
		index := "-"
		if o.Subject.Index != nil {
			index = fmt.Sprint(*o.Subject.Index)
		}
		got := strings.Join([]string{index, o.Subject.UUID, o.Subject.PCI}, " ")
		if id == (report.Identity{}) {
			want = "-  "
		}
		if got != want || (o.Values["uuid"].Of != nil) != (o.Subject.UUID != "") ||
			(o.Values["index"].Of != nil) != (index != "-") {
			t.Errorf("%+v: %q, want %q, and %s", id, got, want, show(o.Values))
		}
	}
}

// TestWordsOfEvents: an event in words, and its fields.
func TestWordsOfEvents(t *testing.T) {
	n := func(n int) *int { return &n }
	action := int64(2)
	for words, tc := range map[string]struct {
		event  report.Event
		fields string
	}{
		"xid 31": {report.Event{Type: report.XIDEvent, Source: report.FromNVML, XID: &report.XID{Code: n(31), Times: 1,
			PID:     n(7),
			Process: "x", Text: "t"}}, "class=app code=31 condemns=none injected=false pid=7 process=x root=31 source=nvml " +
			"text=t times=1 type=xid"},
		"xid 45, caused by 79 (2 times)": {report.Event{Type: report.XIDEvent, XID: &report.XID{Code: n(45),
			CausedBy: n(79), Times: 2}},
			"caused_by=79 class=reboot code=45 condemns=node injected=false root=79 source= times=2 type=xid"},
		"xid 154 node_reboot": {report.Event{Type: report.XIDEvent, XID: &report.XID{Code: n(154), Recovery: &action,
			Times: 1}},
			"class=carrier code=154 condemns=node injected=false recovery_action=node_reboot root=154 source= times=1 " +
				"type=xid"},
		"sxid 20034, Non-fatal": {report.Event{Type: report.SXIDEvent, XID: &report.XID{Code: n(20034), Times: 1,
			Severity: "Non-fatal", Port: n(3)}}, "class=nonfatal code=20034 condemns=none injected=false link=3 port=3 " +
			"root=20034 severity=Non-fatal source= times=1 type=sxid"},
		"lost": {report.Event{Type: report.LostEvent, XID: &report.XID{Times: 1}},
			"class=reboot condemns=node injected=false source= times=1 type=lost"},
		"xid 149, Fatal, link 8, injected": {report.Event{Type: report.XIDEvent, XID: &report.XID{Code: n(149), Times: 1,
			Text: "NETIR_LINK_EVT Fatal XC0 i1 Link 08 (0x1 0x2)"}}, "class=injected code=149 condemns=none injected=true " +
			"link=8 root=149 severity=Fatal source= status=0x1 0x2 text=NETIR_LINK_EVT Fatal XC0 i1 Link 08 (0x1 0x2) times=1 " +
			"type=xid unit=NETIR_LINK_EVT"},
		"xid 94, D-RST: Yes": {report.Event{Type: report.XIDEvent, XID: &report.XID{Code: n(94), Times: 1,
			Reset: "drain_and_reset"}},
			"class=drain code=94 condemns=gpu injected=false reset=drain_and_reset root=94 source= times=1 type=xid"},
		"reset_required": {report.Event{Type: report.ResetEvent, XID: &report.XID{Times: 1}},
			"class=gpu_reset condemns=gpu injected=false source= times=1 type=reset_required"},
		"recovery_action gpu_reset": {report.Event{Type: report.RecoveryEvent, GPU: &report.Identity{UUID: "u", PCI: "p",
			GPUInstance: n(1), ComputeInstance: n(2)}, Action: &report.Recovery{To: 1, Action: report.ActionReset}},
			"class=carrier compute_instance=2 condemns=gpu gpu_instance=1 pci=p recovery_action=gpu_reset source= times=1 " +
				"type=recovery_action uuid=u"},
	} {
		o := FactsOf(Evidence{Events: []report.Event{tc.event}}).Observations[0]
		if o.Subject.What != words || show(o.Values) != tc.fields || o.Subject.Event != 1 {
			t.Errorf("%s: %q\n%s\nwant %s", words, o.Subject.What, show(o.Values), tc.fields)
		}
	}
}

// TestScopesOfActions: what takes no new work while the driver requests an action; of a request that is not known
// nothing is decided.
func TestScopesOfActions(t *testing.T) {
	for action, want := range map[report.Action]xid.Scope{
		report.ActionNone: xid.None, report.ActionReset: xid.GPU, report.ActionReboot: xid.Node,
		report.ActionDrainP2P:      xid.GPU,
		report.ActionDrainAndReset: xid.GPU, report.ActionRecoverIMEX: xid.None, report.ActionUnknown: xid.Undecided,
	} {
		n := int64(-1)
		for n < 9 && report.ActionOf(n) != action {
			n++
		}
		if got := xid.ScopeOfAction(n); got != want {
			t.Errorf("%q, %d: %s, want %s", action, n, got, want)
		}
	}
}

// TestFields: every signal of a GPU is a field of its type, and every value that a field may have is known.
func TestFields(t *testing.T) {
	fields := map[string]Field{}
	for _, f := range Fields() {
		key := string(f.About) + "." + f.Name
		if _, twice := fields[key]; twice || f.Means == "" {
			t.Errorf("%s: twice %t, means %q", key, twice, f.Means)
		}
		fields[key] = f
	}
	for _, s := range report.Signals() {
		want := Int
		switch {
		case s.Signal == report.RecoveryAction || s.Unit == "text":
			want = Text
		case s.Unit == "flag":
			want = Bool
		}
		if s.Signal.Private() {
			if f, there := fields["gpu."+string(s.Signal)]; there {
				t.Errorf("%s is private: %+v", s.Signal, f)
			}
			continue
		}
		if f := fields["gpu."+string(s.Signal)]; f.Type != want || !strings.HasSuffix(f.Means, s.What) ||
			strings.HasPrefix(f.Means, s.Unit+": ") != (want == Int && s.Unit != "") {
			t.Errorf("%s: %+v, want %s", s.Signal, f, want)
		}
	}
	actions := "unknown none gpu_reset node_reboot drain_p2p drain_and_reset recover_imex_domain"
	for name, want := range map[string]string{
		"event.type":            "xid sxid lost init_failed reset_required version_mismatch recovery_action",
		"event.recovery_action": actions, "gpu.recovery_action": actions,
		"event.condemns": "none gpu node undecided", "event.source": "kernel_log nvml agent",
		"event.severity": "Fatal Non-fatal Always fatal",
		"event.reset":    "none gpu_reset drain_and_reset unknown", "event.unit": "",
	} {
		if got := strings.Join(fields[name].Words, " "); got != want {
			t.Errorf("%s is one of %s, want %s", name, got, want)
		}
	}
	for _, c := range xid.Classes() {
		if !slices.Contains(fields["event.class"].Words, string(c.Class)) {
			t.Errorf("event.class is never %s", c.Class)
		}
	}
}

// TestRecoveredByAddress: an event of the kernel log, which knows only a GPU's address, and the driver's request, which
// knows its UUID, are of the same GPU if a sample has both names.
func TestRecoveredByAddress(t *testing.T) {
	named := func(e report.Event, uuid, pci string) report.Event {
		e.GPU = &report.Identity{UUID: uuid, PCI: pci}
		return e
	}
	sampled := func(action int64) report.Event {
		e := device(0, 1, 9, map[report.Signal]report.Reading{report.RecoveryAction: report.ReadingOf(action)})
		e.Device.GPU.UUID, e.Device.GPU.PCI = "u", "p"
		return e
	}
	failed, asks, ends := xidOf(119, 1, ""), recoveryOf(1, 2, ""), recoveryOf(0, 3, "")
	for name, tc := range map[string]struct {
		events []report.Event
		past   string // numbers of the events that are over, and by which event
	}{
		"by address":           {[]report.Event{named(failed, "", "p"), named(ends, "", "p")}, "1 by event 2"},
		"by another's address": {[]report.Event{named(failed, "", "p"), named(ends, "", "q")}, ""},
		"by both names":        {[]report.Event{named(failed, "u", "p"), named(ends, "u", "p")}, "1 by event 2"},
		"by UUID, sampled":     {[]report.Event{named(failed, "", "p"), named(ends, "u", ""), sampled(1)}, "1 by event 2"},
		"by UUID, not sampled": {[]report.Event{named(failed, "", "p"), named(ends, "u", "")}, ""},
		"by its sample": {[]report.Event{named(failed, "", "p"), named(asks, "u", ""), sampled(0)},
			"1 by the sample, 2 by the sample"},
		"asked of another": {[]report.Event{named(failed, "", "p"), named(asks, "v", ""), sampled(0)}, ""},
		"asked twice, once late": {[]report.Event{named(failed, "", "p"), named(recoveryOf(1, 10, ""), "u", ""), named(asks,
			"u", ""), sampled(0)}, ""},
	} {
		var got []string
		for _, p := range FactsOf(Evidence{Events: tc.events}).Past {
			_, by, _ := strings.Cut(p.Why, "recovered: ")
			by, _, _ = strings.Cut(strings.Replace(by, " of GPU 0", "", 1), " is ")
			got = append(got, fmt.Sprint(p.Subject.Event, " by ", by))
		}
		if strings.Join(got, ", ") != tc.past {
			t.Errorf("%s: %q, want %s", name, got, tc.past)
		}
	}
}
