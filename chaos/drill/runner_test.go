package drill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// machine replies to each command with the next of its answers, and to no other.
type machine struct {
	mu      sync.Mutex          // guards what follows
	answers map[string][]answer // by command, or by a tool's name
	asked   []string
}

type answer struct {
	after time.Duration
	then  func() // just before the answer
	reply step.Reply
	out   Output
	err   error
}

func (m *machine) next(command string) answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, command)
	all := m.answers[command]
	if len(all) == 0 {
		return answer{err: errors.New(command + " was not expected")}
	}
	m.answers[command] = all[1:]
	return all[0]
}

func (m *machine) Fault(_ context.Context, _ []byte, args ...string) (step.Reply, error) {
	a := m.next(args[0])
	<-time.After(a.after)
	if a.then != nil {
		a.then()
	}
	return a.reply, a.err
}

func (m *machine) Exec(_ context.Context, e step.Exec) (Output, error) {
	a := m.next(strings.Join(e.Argv, " "))
	return a.out, a.err
}

func (m *machine) Reconnect()                         {}
func (m *machine) RemoveHelper(context.Context) error { return nil }

// runnerOf returns a runner of a drill on n1, in the state after these events.
func runnerOf(events ...Event) *runner {
	r := &runner{began: time.Now(), kept: map[string]time.Time{}, armUnconfirmed: map[string]bool{}}
	r.Plan = chaos.Plan{Run: "r1", Targets: []chaos.PlannedMachine{{ID: "n1"}}, Budgets: chaos.Budgets{Lease: secs(20)}}
	r.Write = func(Event, *diag.Report) error { return nil }
	for _, e := range append([]Event{{Kind: Begun, Plan: &r.Plan}}, events...) {
		r.record(e)
	}
	return r
}

var none = step.Refuse(step.RefusedNone, "there is no drill")

// TestAbandonOne: remains of a drill that a machine knows nothing about are removed; whether that was done is never
// assumed.
func TestAbandonOne(t *testing.T) {
	remains := step.Reply{Refused: none, Status: &step.Status{}}
	for name, tc := range map[string]struct {
		none    step.Reply
		answers []answer
		want    string
	}{
		"nothing is there": {step.Reply{Refused: none}, nil, ""},
		"removed":          {remains, []answer{{}}, ""},
		"gone meanwhile":   {remains, []answer{{reply: step.Reply{Refused: none}}}, ""},
		"refused": {remains, []answer{{reply: step.Reply{Refused: step.Refuse(step.RefusedBusy, "no")}}},
			"busy: no"},
		"failed":                  {remains, []answer{{reply: step.Reply{Error: "disk"}}}, "disk"},
		"no answer":               {remains, []answer{{err: errors.New("cut")}}, "cut"},
		"no answer, and an error": {remains, []answer{{reply: step.Reply{Error: "disk"}, err: errors.New("cut")}}, "cut"},
		"no answer, but one": {remains, []answer{{reply: step.Reply{Refused: none}, err: errors.New("cut")}},
			"cut"},
	} {
		m := &machine{answers: map[string][]answer{"close": tc.answers}}
		err := runnerOf().abandon(t.Context(), m, tc.none)
		if (err == nil) != (tc.want == "") || (err != nil && err.Error() != tc.want) || len(m.answers["close"]) > 0 {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestEarly: when a machine is known to have reverted itself before it was asked.
func TestEarly(t *testing.T) {
	lease := 20 * time.Second
	for name, tc := range map[string]struct {
		why     string
		phase   string
		armed   bool
		reached bool
		kept    time.Duration // since the last response that showed it armed, when it was asked
		want    bool
	}{
		"it answered at once":                  {step.WhyLease, step.PhaseOver, true, true, 0, true},
		"it was asked":                         {step.WhyAsked, step.PhaseOver, true, true, 0, false},
		"it could not make a change":           {step.WhyFailed, step.PhaseOver, true, true, 0, false},
		"it was never armed":                   {step.WhyLease, step.PhaseOver, false, true, 0, false},
		"it was out of reach":                  {step.WhyLease, step.PhaseOver, true, false, time.Second, false},
		"it was out of reach, since the lease": {step.WhyLease, step.PhaseOver, true, false, lease + 1, true},
		"it was out of reach, for the lease":   {step.WhyLease, step.PhaseOver, true, false, lease, false},
	} {
		r := runnerOf()
		r.story.Machines[0].Armed = tc.armed
		asked := time.Now()
		r.kept["n1"] = asked.Add(-tc.kept)
		st := step.Status{Why: tc.why, Phase: tc.phase}
		if got := r.early(r.Plan.Targets[0], st, tc.reached, asked); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for phase, want := range map[string]bool{step.PhaseArmed: false, step.PhaseOver: true, step.PhaseReverting: true} {
		if got := failed(&step.Status{Why: step.WhyFailed, Phase: phase}); got != want {
			t.Errorf("failed while %s: %v", phase, got)
		}
	}
	if failed(nil) || failed(&step.Status{Why: step.WhyLease, Phase: step.PhaseOver}) {
		t.Error("without a response, or for another reason, a change failed")
	}
	for _, phase := range []string{step.PhaseArming, step.PhaseArmed, step.PhaseReverting, step.PhaseOver,
		step.PhaseClosed} {
		over := phase == step.PhaseOver || phase == step.PhaseClosed
		if got := untouched(step.Status{State: step.Planned, Phase: phase}); got != over {
			t.Errorf("planned, %s: untouched %v", phase, got)
		}
		if untouched(step.Status{State: step.Done, Phase: phase}) {
			t.Errorf("done, %s: untouched", phase)
		}
	}
}

// TestMakeOne: a step is asked for once more only if its answer was lost and the machine is still armed.
func TestMakeOne(t *testing.T) {
	armed, over := &step.Status{Phase: step.PhaseArmed}, &step.Status{Phase: step.PhaseOver, Why: step.WhyLease}
	gaveUp := &step.Status{Phase: step.PhaseOver, Why: step.WhyFailed}
	refused := step.Refuse(step.RefusedState, "nothing is injected")
	cut := answer{err: errors.New("cut")}
	for name, tc := range map[string]struct {
		do, status []answer
		made       bool
		lost       bool   // the machine reverted itself
		broken     string // text of the event; "-": no such event
	}{
		"made":        {[]answer{{reply: step.Reply{Status: armed}}}, nil, true, false, ""},
		"its check":   {[]answer{{reply: step.Reply{Status: armed, Error: "no effect"}}}, nil, false, false, "no effect"},
		"it gave up":  {[]answer{{reply: step.Reply{Status: gaveUp, Error: "disk"}}}, nil, false, false, "disk"},
		"it was over": {[]answer{{reply: step.Reply{Status: over, Refused: refused}}}, nil, false, true, refused.Error()},
		"it is gone":  {[]answer{{reply: step.Reply{Refused: none}}}, nil, false, true, none.Error()},
		"lost, armed": {[]answer{cut, {reply: step.Reply{Status: armed}}}, []answer{{reply: step.Reply{Status: armed}}},
			true, false, ""},
		"lost, twice": {[]answer{cut, cut}, []answer{{reply: step.Reply{Status: armed}}}, false, false, "-"},
		"lost, cut":   {[]answer{cut}, []answer{{err: cut.err, reply: step.Reply{Status: armed}}}, false, false, "-"},
		"no status":   {[]answer{{}}, nil, true, false, ""},
		"lost, over": {[]answer{cut}, []answer{{reply: step.Reply{Status: over}}}, false, true,
			"wrong_state: it is not asked for again (over, )"},
		"lost, gone":   {[]answer{cut}, []answer{{reply: step.Reply{Refused: none}}}, false, true, none.Error()},
		"lost, silent": {[]answer{cut}, []answer{{}}, false, true, "wrong_state: it is not asked for again "},
	} {
		r := runnerOf(Event{Kind: Armed, Machine: "n1"})
		r.story.Machines[0].Made = map[string]int64{}
		m := &machine{answers: map[string][]answer{"do": tc.do, "status": tc.status}}
		made := r.make(t.Context(), r.Plan.Targets[0], m, "s")
		p := r.story.Machines[0]
		_, broken := p.Made["s"]
		if made != tc.made || (p.Lost != "") != tc.lost || broken != (tc.broken != "-") ||
			(broken && p.Against != tc.broken) || len(m.answers["do"])+len(m.answers["status"]) > 0 || !p.Broken {
			t.Errorf("%s: made %v, lost %q, against %q, %q", name, made, p.Lost, p.Against, m.asked)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := &machine{answers: map[string][]answer{"do": {{err: cut.err, then: cancel}}}}
	if runnerOf().make(ctx, chaos.PlannedMachine{ID: "n1"}, m, "s") || len(m.asked) != 1 {
		t.Errorf("asked after the end: %q", m.asked)
	}
	r := runnerOf()
	r.Plan.Schedule, r.Machines = []chaos.PlannedStep{{Machine: "n1", Step: "s"}}, map[string]Machine{"n1": &machine{}}
	if r.breaking(ctx) || r.story.broken() {
		t.Error("a step is announced after the end")
	}
	m = &machine{}
	if runnerOf().make(ctx, chaos.PlannedMachine{ID: "n1"}, m, "s") || len(m.asked) > 0 {
		t.Errorf("asked after the end: %q", m.asked)
	}
}

// TestClearOne: a machine is compared and closed once it is reverted, and not again after it refused that.
func TestClearOne(t *testing.T) {
	back := []Event{{Kind: Arming, Machine: "n1"}, {Kind: Reverting, Machine: "n1"},
		{Kind: Reverted, Machine: "n1", MS: 5, Status: &step.Status{State: step.Reverted}}}
	verified := []answer{{reply: step.Reply{Clean: new(true)}}}
	for name, tc := range map[string]struct {
		events        []Event
		verify, close []answer
		closed        bool
		clean         bool
		trouble       string
	}{
		"reverted":       {back, verified, []answer{{}}, true, true, ""},
		"not touched":    {nil, nil, nil, false, false, ""},
		"closed already": {append(slices.Clone(back), Event{Kind: Closed, Machine: "n1"}), nil, nil, true, false, ""},
		"refused before": {append(slices.Clone(back), Event{Kind: Closed, Machine: "n1", Text: "conflict"}), nil, nil,
			false,
			false, ""},
		"closed by an attempt whose answer was lost": {back, verified, []answer{{reply: step.Reply{Refused: none}}}, true,
			true, ""},
		"not closed": {back, verified, []answer{{reply: step.Reply{Error: "busy"}}}, false, true, ""},
		"not compared, and refused": {back, []answer{{reply: step.Reply{Clean: new(true), Error: "no baseline"}}},
			[]answer{{}}, true, false, "n1: compare with before: no baseline"},
		"not compared": {back, []answer{{}}, []answer{{}}, true, false, "n1: compare with before: "},
	} {
		r := runnerOf(tc.events...)
		if p := &r.story.Machines[0]; p.RevertedMS == 0 && p.Touched {
			p.RevertedMS = 1
		}
		m := &machine{answers: map[string][]answer{"verify": tc.verify, "close": tc.close}}
		r.clear(t.Context(), r.Plan.Targets[0], m)
		p := r.story.Machines[0]
		if p.Closed != tc.closed || (p.Clean != nil) != tc.clean || len(m.answers["verify"])+len(m.answers["close"]) > 0 ||
			strings.Join(r.story.Trouble, "; ") != tc.trouble || slices.Contains(m.asked, "revert") {
			t.Errorf("%s: closed %v, clean %v, trouble %q, asked %q", name, p.Closed, p.Clean, r.story.Trouble, m.asked)
		}
	}
}

// TestOnce: a probe of a unit runs in the view of its main process; without one it says nothing.
func TestOnce(t *testing.T) {
	unit := step.Check{Name: "n", Unit: "a.service", Exec: step.Exec{Argv: []string{"/bin/x", step.MainPID}}}
	const show, inside = "systemctl show -P MainPID a.service", "nsenter -t 42 -m -- /bin/x 42"
	for name, tc := range map[string]struct {
		check step.Check
		tools map[string][]answer
		why   string
		ran   bool
	}{
		"in its view": {unit, map[string][]answer{show: {{out: Output{Text: "42\n"}}}, inside: {{}}}, "", true},
		"it fails there": {unit, map[string][]answer{show: {{out: Output{Text: "42\n"}}},
			inside: {{out: Output{Code: 1, Text: "no"}}}}, "/bin/x {main-pid}: exit code 1: no", true},
		"it does not run": {unit, map[string][]answer{show: {{out: Output{Text: "0\n"}}}}, "a.service does not run",
			false},
		"nothing is known":   {unit, map[string][]answer{show: {{}}}, "a.service does not run", false},
		"it cannot be asked": {unit, map[string][]answer{show: {{err: errors.New("cut")}}}, "cut", false},
		"it could not be run": {unit,
			map[string][]answer{show: {{out: Output{Text: "42"}}}, inside: {{err: errors.New("cut")}}}, "cut", false},
		"on the machine": {step.Check{Name: "n", Exec: step.Exec{Argv: []string{"/bin/y"}}},
			map[string][]answer{"/bin/y": {{}}}, "", true},
	} {
		m := &machine{answers: tc.tools}
		why, ran := once(t.Context(), m, tc.check)
		if ran != tc.ran || (why == "") != (tc.why == "") || !strings.HasPrefix(why, tc.why) {
			t.Errorf("%s: %q, ran %v; want %q, %v", name, why, ran, tc.why, tc.ran)
		}
	}
	if why, ran := once(t.Context(), nil, unit); ran || why != "there is no such machine" {
		t.Errorf("%q, ran %v", why, ran)
	}
}

// TestPrepare: what is made for a run must be for the same plan, and nothing begins if the run has ended meanwhile.
func TestPrepare(t *testing.T) {
	for name, tc := range map[string]struct {
		ready func(p chaos.Plan, cancel func()) (chaos.Plan, error)
		want  bool
		text  string
	}{
		"nothing is to be made": {nil, true, ""},
		"made": {func(p chaos.Plan, _ func()) (chaos.Plan, error) {
			p.Material = []chaos.Material{{}}
			return p, nil
		}, true, ""},
		"not made": {func(p chaos.Plan, _ func()) (chaos.Plan, error) { return p, errors.New("no CA") }, false, "no CA"},
		"another plan": {func(p chaos.Plan, _ func()) (chaos.Plan, error) { p.Hash = "x"; return p, nil }, false,
			"the plan changed meanwhile"},
		"another run": {func(p chaos.Plan, _ func()) (chaos.Plan, error) { p.Run = "x"; return p, nil }, false,
			"the plan changed meanwhile"},
		"refused": {func(p chaos.Plan, _ func()) (chaos.Plan, error) {
			p.Refused = []chaos.Refusal{{}}
			return p, nil
		}, false, "the plan changed meanwhile"},
		"ended": {func(p chaos.Plan, cancel func()) (chaos.Plan, error) { cancel(); return p, nil }, false, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := runnerOf()
			check := func(name string) chaos.PlannedProbe {
				return chaos.PlannedProbe{Check: step.Check{Name: name, Exec: step.Exec{Argv: []string{name}}, Within: 1}}
			}
			r.Plan.Injected, r.Plan.Control = check(ProbeInjected), check(ProbeControl)
			r.Machines = map[string]Machine{"n1": &machine{}, "": &machine{answers: map[string][]answer{
				ProbeInjected: {{out: Output{Code: 1}}}, ProbeControl: {{}}}}}
			r.Walk = func(context.Context) *diag.Report {
				return &diag.Report{Run: diag.Run{EndedBy: diag.EndedCompleted},
					Verdict: diag.Verdict{Outcome: diag.OutcomePass}}
			}
			if tc.ready != nil {
				r.Ready = func(context.Context) (chaos.Plan, error) { return tc.ready(r.Plan, cancel) }
			}
			if got := r.prepare(ctx); got != tc.want || !strings.Contains(strings.Join(r.story.Trouble, ""), tc.text) ||
				(tc.text == "") != (len(r.story.Trouble) == 0) {
				t.Errorf("%s: %v, %q", name, got, r.story.Trouble)
			}
			if got := len(r.Plan.Material) > 0; got != (name == "made") {
				t.Errorf("%s: the run has material: %v", name, got)
			}
			cancel()
			if r.green(ctx) {
				t.Errorf("%s: green after the end", name)
			}
			delete(r.Machines, "n1")
			if r.prepare(t.Context()) {
				t.Errorf("%s: prepared without a way to the machine", name)
			}
		})
	}
}

// TestHadTime: a run has seen enough when every probe has a result, and the chain reported the fault or had its time.
func TestHadTime(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *Story)
		now    time.Duration // since the run began
		want   bool
	}{
		"detected":            {func(*Story) {}, 0, true},
		"not in place":        {func(s *Story) { s.Machines[0].Against = "no" }, 0, false},
		"no probe":            {func(s *Story) { s.without(During, ProbeInjected) }, 0, false},
		"no control":          {func(s *Story) { s.without(During, ProbeControl) }, 0, false},
		"a terminal is open":  {func(s *Story) { s.Plan.Scenario.Expect.Terminal = "x" }, 0, false},
		"a terminal is ended": {func(s *Story) { ended(s) }, 0, true},
		"nothing yet":         {func(s *Story) { s.walkOf(4).Blame = nil }, 12*time.Second - 1, false},
		"nothing in time":     {func(s *Story) { s.walkOf(4).Blame = nil }, 12 * time.Second, true},
		"nothing in time, and it is not in place": {func(s *Story) {
			s.walkOf(4).Blame, s.Machines[0].Against = nil, "no"
		}, 12 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := runnerOf()
			r.story = *passing()
			tc.change(&r.story)
			time.Sleep(tc.now)
			if got := r.hadTime(); got != tc.want {
				t.Errorf("%s: %v", name, got)
			}
		})
	}
}

func ended(s *Story) {
	s.Plan.Scenario.Expect.Terminal = "x"
	s.Looks = append(s.Looks, ProbeResult{Seen{Name: ProbeTerminal, Stage: During}, 1})
}

// TestTry: a connection that brought no answer is given up, unless nobody waits for the answer any more.
func TestTry(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		err  error
		want int
	}{
		"an answer": {t.Context(), nil, 0}, "no answer": {t.Context(), errors.New("cut"), 1},
		"no answer, and nobody waits": {ended, errors.New("cut"), 0}, "an answer, and nobody waits": {ended, nil, 0},
	} {
		m := &reconnected{machine: machine{answers: map[string][]answer{"status": {{err: tc.err}}}}}
		if _, err := try(tc.ctx, m, time.Second, "status"); !errors.Is(err, tc.err) || m.times != tc.want {
			t.Errorf("%s: %v, %d times given up", name, err, m.times)
		}
	}
}

type reconnected struct {
	machine
	times int
}

func (m *reconnected) Reconnect() { m.times++ }

// TestArmOne: a machine is armed if a second connection shows that it is, with a watchdog; what is not known is no
// refusal.
func TestArmOne(t *testing.T) {
	status := func(st *step.Status) answer { return answer{reply: step.Reply{Status: st}} }
	armed := status(&step.Status{Phase: step.PhaseArmed, Watchdog: 7})
	refused, cut := step.Refuse(step.RefusedLocked, "no"), errors.New("cut")
	for name, tc := range map[string]struct {
		arm, status                   answer
		armed, refused, mayArm, asked bool // asked: for its status
		trouble                       string
	}{
		"armed":       {answer{}, armed, true, false, false, true, ""},
		"refused":     {answer{reply: step.Reply{Refused: refused}}, armed, false, true, false, false, ""},
		"an error":    {answer{reply: step.Reply{Error: "disk"}}, armed, true, false, false, true, "n1: disk"},
		"answer lost": {answer{err: cut}, armed, true, false, true, true, "n1: cut"},
		"answer lost, and what it was": {answer{err: cut, reply: step.Reply{Refused: refused}}, armed, true, false, true,
			true, "n1: cut"},
		"not confirmed": {answer{}, answer{err: cut}, false, false, false, true, "n1: confirm that it is armed: cut"},
		"no status":     {answer{}, status(nil), false, false, false, true, "n1: is not armed"},
		"no watchdog": {answer{}, status(&step.Status{Phase: step.PhaseArmed}), false, false, false, true,
			"n1: is not armed"},
		"over": {answer{}, status(&step.Status{Phase: step.PhaseOver, Watchdog: 7}), false, false, false, true,
			"n1: is not armed"},
		"gone": {answer{}, answer{reply: step.Reply{Refused: none}}, false, false, false, true,
			"n1: is not armed: " + none.Error()},
	} {
		r := runnerOf()
		m := &machine{answers: map[string][]answer{"arm": {tc.arm}, "status": {tc.status}}}
		got := r.arm(t.Context(), r.Plan.Targets[0], m)
		p := r.story.Machines[0]
		if _, kept := r.kept["n1"]; got != tc.armed || p.Armed != tc.armed || kept != tc.armed || !p.Touched ||
			(len(r.story.Refused) > 0) != tc.refused || r.armUnconfirmed["n1"] != tc.mayArm ||
			(len(m.answers["status"]) == 0) != tc.asked || strings.Join(r.story.Trouble, "; ") != tc.trouble {
			t.Errorf("%s: %v, %+v, trouble %q", name, got, p, r.story.Trouble)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &machine{}
	if r := runnerOf(); r.arm(ctx, r.Plan.Targets[0], m) || len(m.asked) > 0 {
		t.Errorf("asked after the end: %q", m.asked)
	}
}

// TestSeeUntil: a probe is repeated until it gives the wanted result; a tool that did not run gives none.
func TestSeeUntil(t *testing.T) {
	holds, fails, cut := answer{}, answer{out: Output{Code: 1, Text: "no"}}, answer{err: errors.New("cut")}
	for name, tc := range map[string]struct {
		want    bool
		answers []answer
		held    bool
		notRun  bool
		why     string
		took    diag.Millis
	}{
		"wanted":                   {true, []answer{holds}, true, false, "", 1},
		"not wanted":               {false, []answer{fails}, false, false, "x: exit code 1: no", 1},
		"wanted later":             {true, []answer{fails, holds}, true, false, "", 300},
		"not wanted, and it holds": {false, []answer{holds, holds, holds}, true, false, "", 600},
		"not run, then as wanted":  {false, []answer{cut, fails}, false, false, "x: exit code 1: no", 300},
		"never run":                {false, []answer{cut, cut, cut}, false, true, "cut", 600},
		"run once, then not":       {true, []answer{fails, cut, cut}, false, false, "x: exit code 1: no", 600},
		"held once, then not run":  {false, []answer{holds, cut, cut}, true, false, "", 600},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{answers: map[string][]answer{"x": tc.answers}}
			l := chaos.PlannedProbe{Check: step.Check{Name: "n", Exec: step.Exec{Argv: []string{"x"}}, Within: 600}}
			got, ok := see(t.Context(), m, l, During, tc.want)
			if want := (Seen{"n", During, tc.held, tc.notRun, tc.why, tc.took}); !ok || got != want ||
				len(m.answers["x"]) > 0 {
				t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
			}
			m.answers["x"] = tc.answers
			if got := (&runner{Job: Job{Machines: map[string]Machine{"": m}, Write: func(Event, *diag.Report) error {
				return nil
			}}}).runProbe(t.Context(), l, During, tc.want); got != (tc.held == tc.want && !tc.notRun) {
				t.Errorf("%s: as wanted: %v", name, got)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			m.answers["x"] = []answer{holds}
			if got, ok := see(ctx, m, l, During, true); ok || got != (Seen{}) {
				t.Errorf("after the end: %+v, %v", got, ok)
			}
		})
	}
}

// TestRenewOne: what each answer to a renewal says about the machine.
func TestRenewOne(t *testing.T) {
	armed := answer{reply: step.Reply{Status: &step.Status{Phase: step.PhaseArmed}}}
	over := answer{reply: step.Reply{Status: &step.Status{Phase: step.PhaseOver, Why: step.WhyTTL}}}
	gaveUp := answer{reply: step.Reply{Status: &step.Status{Phase: step.PhaseOver, Why: step.WhyFailed}}}
	busy := answer{reply: step.Reply{Refused: step.Refuse(step.RefusedBusy, "no")}}
	gone, cut := answer{reply: step.Reply{Refused: none}}, answer{err: errors.New("cut")}
	for name, tc := range map[string]struct {
		answers []answer
		kinds   []Kind
		text    string // of the last event
	}{
		"renewed, then over":         {[]answer{armed, armed, over}, []Kind{Renewed, Renewed, Lost}, step.WhyTTL},
		"gone":                       {[]answer{gone}, []Kind{Lost}, none.Error()},
		"cut, then over":             {[]answer{cut, over}, []Kind{Trouble, Lost}, step.WhyTTL},
		"busy, then over":            {[]answer{busy, over}, []Kind{Trouble, Lost}, step.WhyTTL},
		"it could not make a change": {[]answer{armed, gaveUp}, []Kind{Renewed}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := runnerOf(Event{Kind: Arming, Machine: "n1"})
			var events []Event
			r.Observe = func(e Event, _ *Story) { events = append(events, e) }
			ended := false
			m := &machine{answers: map[string][]answer{"renew": tc.answers}}
			began := time.Now()
			r.renew(t.Context(), r.Plan.Targets[0], m, func(error) { ended = true })
			var kinds []Kind
			for _, e := range events {
				kinds = append(kinds, e.Kind)
			}
			lost := r.story.Machines[0].Lost != ""
			if !slices.Equal(kinds, tc.kinds) || events[len(events)-1].Text != tc.text || ended != lost ||
				time.Since(began) != time.Duration(len(tc.answers))*step.RenewEvery || len(m.answers["renew"]) > 0 {
				t.Errorf("%s: %q after %v, ended %v", name, kinds, time.Since(began), ended)
			}
			if kept, ok := r.kept["n1"]; ok != slices.Contains(kinds, Renewed) || kept.After(time.Now()) {
				t.Errorf("%s: kept %v, %v", name, kept, ok)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			m.asked = nil
			if r.renew(ctx, r.Plan.Targets[0], m, nil); len(m.asked) > 0 {
				t.Errorf("%s: asked after the end", name)
			}
		})
	}
}
