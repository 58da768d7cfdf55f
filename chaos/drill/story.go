package drill

import (
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Story is the fold of a run's events, at any time of the run.
type Story struct {
	Plan        chaos.Plan
	Tool        string // version of the tool that ran it; "" if its log lacks it
	Rules       string // version of the rules that judged its walks, likewise
	Game        *Game  // of the game day; nil: the run belongs to none
	Began       diag.Time
	Ended       diag.Time // zero: it is running, or was killed
	NowMS       int64     // of the last event
	Refused     []chaos.Refusal
	Stopped     string // by a guard
	Interrupted string // by the operator
	Walks       []WalkView
	Looks       []ProbeResult
	Machines    []MachineStory
	Decided     *string // why the decision failed, "" if it succeeded; nil: not attempted
	Trouble     []string
}

// ProbeResult is the result of an independent probe, and its time.
type ProbeResult struct {
	Seen
	MS int64
}

// MachineStory is one machine's part in the story.
type MachineStory struct {
	MachineResult
	Touched    bool             // it was asked to make ready
	Broken     bool             // a step was about to be made
	Made       map[string]int64 // when each step was made, in milliseconds of the run
	begunMS    int64            // when the last one was requested
	Against    string           // why a step that was made failed its check
	Lost       string           // why it reverted itself
	AskedMS    int64            // time of the first request to revert; 0: none
	RevertedMS int64            // when it was known; 0 not
	NotClosed  string           // what is against its closing
}

// Fold folds events into a story.
func Fold(events []Event) Story {
	var s Story
	for _, e := range events {
		s.Add(e)
	}
	return s
}

// Add adds an event. An event of an unknown kind is ignored.
func (s *Story) Add(e Event) {
	s.NowMS = e.MS
	switch e.Kind {
	case Begun:
		s.begin(e)
	case Refused:
		s.Refused = append(s.Refused, e.Refused...)
	case Walked:
		if e.WalkView != nil {
			s.Walks = append(s.Walks, *e.WalkView)
		}
	case Probed:
		if e.Seen != nil {
			s.Looks = append(s.Looks, ProbeResult{*e.Seen, e.MS})
		}
	case Stopped:
		s.Stopped = e.Text
	case Interrupt:
		s.Interrupted = e.Text
	case Decided:
		s.Decided = &e.Text
	case Trouble:
		s.Trouble = append(s.Trouble, where(e)+e.Text)
	case Ended:
		s.Ended = e.At
	}
	if p := s.part(e.Machine); p != nil {
		p.add(e, s.Plan.Budgets.TTL.Std())
	}
}

func where(e Event) string {
	if e.Machine == "" {
		return ""
	}
	return e.Machine + ": "
}

func (s *Story) begin(e Event) {
	s.Began, s.Game, s.Tool, s.Rules = e.At, e.Game, e.Tool, e.Rules
	if e.Plan == nil {
		return
	}
	s.Plan, s.Machines = *e.Plan, nil
	for _, t := range e.Plan.Targets {
		s.Machines = append(s.Machines,
			MachineStory{MachineResult: MachineResult{ID: t.ID, Role: t.Role, Tier: t.Tier}, Made: map[string]int64{}})
	}
}

func (s *Story) part(id string) *MachineStory {
	i := slices.IndexFunc(s.Machines, func(p MachineStory) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Machines[i]
}

// add adds an event about the machine, which is armed for ttl. The machine's last response determines its state.
func (p *MachineStory) add(e Event, ttl time.Duration) {
	if st := e.Status; st != nil {
		p.State, p.Reverter, p.Steps = st.State, st.Reverter, st.Steps
		if st.Why != "" && st.Why != step.WhyAsked {
			p.Why = st.Why
		}
		if st.Journal != nil {
			p.Journal = st.Journal
		}
	}
	switch e.Kind {
	case Arming:
		p.Touched = true
	case Armed:
		p.Armed = true
	case Breaking:
		p.Broken, p.begunMS = true, e.MS
	case Broken:
		p.Broken = true
		p.Made[e.Step] = max(p.begunMS, e.MS-madeAgo(e, ttl).Milliseconds())
		p.Against = e.Text
	case Reverting:
		p.AskedMS = max(1, e.MS)
	case Lost:
		p.Lost, p.Why = e.Text, e.Text
	case Reverted:
		p.RevertedMS, p.UndoUS = e.MS, e.TookUS
	case Compared:
		p.Clean, p.Residue = e.Clean, e.Residue
	case Closed:
		p.NotClosed, p.Closed = e.Text, e.Text == ""
	}
}

// madeAgo returns the time between a step and the machine's response to it, by the machine's journal: the machine
// responds only after checking the effect, and the chain could have seen the fault earlier. It is 0 if the
// response has no times.
func madeAgo(e Event, ttl time.Duration) time.Duration {
	st := e.Status
	if st == nil || st.ArmedAt == nil || st.TTLLeft == nil {
		return 0
	}
	for _, s := range st.Steps {
		if s.ID == e.Step && s.DoneAt != nil {
			return max(0, ttl-st.TTLLeft.Duration()-s.DoneAt.Sub(*st.ArmedAt))
		}
	}
	return 0
}

// InPlace returns when the last step was made; false if one was not made or failed.
func (s *Story) InPlace() (ms int64, ok bool) {
	for _, m := range s.Plan.Schedule {
		p := s.part(m.Machine)
		if p == nil || p.Against != "" {
			return 0, false
		}
		at, made := p.Made[m.Step]
		if !made {
			return 0, false
		}
		ms = max(ms, at)
	}
	return ms, len(s.Plan.Schedule) > 0
}

// RevertedAt returns when the last machine was known to have reverted everything; false if one is not known to have.
func (s *Story) RevertedAt() (ms int64, ok bool) {
	for _, p := range s.Machines {
		if p.Armed && !p.back() {
			return 0, false
		}
		ms, ok = max(ms, p.RevertedMS), ok || p.Armed
	}
	return ms, ok
}

// back reports whether the machine reported that it is in its earlier state: every change of the drill, if any, is
// reverted, by the drill or by another process.
func (p *MachineStory) back() bool {
	return p.RevertedMS > 0 && (p.State == step.Reverted || p.State == step.Lost || p.State == step.Planned)
}

// LastProbe returns the last probe of that name in that stage, or nil.
func (s *Story) LastProbe(stage Stage, name string) *ProbeResult {
	for i, l := range slices.Backward(s.Looks) {
		if l.Name == name && l.Stage == stage {
			return &s.Looks[i]
		}
	}
	return nil
}

// walks returns the walks of a stage, in order.
func (s *Story) walks(stage Stage) []WalkView {
	var all []WalkView
	for _, w := range s.Walks {
		if w.Stage == stage {
			all = append(all, w)
		}
	}
	return all
}
