package drill

import (
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Story is what a run's events add up to, at any time of it.
type Story struct {
	Plan        chaos.Plan
	Tool        string // version of the tool that ran it; "" where its log does not have it
	Rules       string // version of the rules by which its walks were judged, likewise
	Game        *Game  // of the game day; nil: it is of none
	Began       diag.Time
	Ended       diag.Time // zero: it goes on, or was killed
	NowMS       int64     // of the last event
	Refused     []chaos.Refusal
	Stopped     string // by a guard
	Interrupted string // by the operator
	Walks       []Sight
	Looks       []Look
	Machines    []Part
	Decided     *string // what is against it, "" nothing; nil: the platform was not called
	Trouble     []string
}

// Look is what an independent probe saw, and when.
type Look struct {
	Seen
	MS int64
}

// Part is one machine's part in the story.
type Part struct {
	MachineResult
	Touched    bool             // it was asked to make ready
	Broken     bool             // a step was about to be made
	Made       map[string]int64 // when each step was, in milliseconds of the run
	begunMS    int64            // when the last one was asked for
	Against    string           // what is against a step that was made
	Lost       string           // why it reverted itself
	AskedMS    int64            // when it was asked to revert everything, at first; 0 not
	RevertedMS int64            // when it was known; 0 not
	NotClosed  string           // what is against its closing
}

// Tell folds events into a story.
func Tell(events []Event) Story {
	var s Story
	for _, e := range events {
		s.Add(e)
	}
	return s
}

// Add takes one more event in. One of a kind that is not known is passed over.
func (s *Story) Add(e Event) {
	s.NowMS = e.MS
	switch e.Kind {
	case Begun:
		s.begin(e)
	case Refused:
		s.Refused = append(s.Refused, e.Refused...)
	case Walked:
		if e.Sight != nil {
			s.Walks = append(s.Walks, *e.Sight)
		}
	case Looked:
		if e.Seen != nil {
			s.Looks = append(s.Looks, Look{*e.Seen, e.MS})
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
			Part{MachineResult: MachineResult{ID: t.ID, Role: t.Role, Tier: t.Tier}, Made: map[string]int64{}})
	}
}

func (s *Story) part(id string) *Part {
	i := slices.IndexFunc(s.Machines, func(p Part) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Machines[i]
}

// add takes in what happened on the machine, which is armed for ttl. The machine's own word on its state is the last
// one that was had.
func (p *Part) add(e Event, ttl time.Duration) {
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

// madeAgo is how long before its answer a step was made, by the machine's own journal: the answer comes only once the
// machine has looked at the effect, and until then the chain could have seen the fault. It is 0 if the answer has no
// times.
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

// InPlace is when the last step was made; false while one is not, or has something against it.
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

// PutBack is when the last machine was known to have reverted everything; false while one is not.
func (s *Story) PutBack() (ms int64, ok bool) {
	for _, p := range s.Machines {
		if p.Armed && !p.back() {
			return 0, false
		}
		ms, ok = max(ms, p.RevertedMS), ok || p.Armed
	}
	return ms, ok
}

// back reports whether the machine answered that it is as before: what was made of the drill, if any, is reverted, by
// it or by another process.
func (p *Part) back() bool {
	return p.RevertedMS > 0 && (p.State == step.Reverted || p.State == step.Lost || p.State == step.Planned)
}

// Look is the last probe of that name in that stage, or nil.
func (s *Story) Look(stage Stage, name string) *Look {
	for i, l := range slices.Backward(s.Looks) {
		if l.Name == name && l.Stage == stage {
			return &s.Looks[i]
		}
	}
	return nil
}

// walks are those of a stage, in order.
func (s *Story) walks(stage Stage) []Sight {
	var all []Sight
	for _, w := range s.Walks {
		if w.Stage == stage {
			all = append(all, w)
		}
	}
	return all
}
