package drill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

const runID = "r1"

// world holds machines, a platform and a chain in memory, in the virtual time of a bubble.
type world struct {
	booted time.Time
	boxes  map[string]*box
	chain
	looks

	refusesDecision error
	hangs           bool          // the platform never responds to a decision
	fullAt          int           // from this event on the log cannot be written
	interrupt       time.Duration // of the run
	abandon         time.Duration
	kind            drill.Kind // the operator interrupts at the first event of this kind,
	seq             int        // or at the event with this number
	tenant          drill.OpenTerminal
	ready           func(chaos.Plan) (chaos.Plan, error)
	observe         func(drill.Event, *drill.Story)

	busy    sync.WaitGroup // what still runs on machines
	mu      sync.Mutex     // guards what follows
	changed map[string]time.Time
	broken  map[string]bool // places
	makes   map[string]int  // by step
	events  []drill.Event
	log     bytes.Buffer
	wrong   []string // what must never happen
	decided int
	walks   int
}

// chain is how walks see the world.
type chain struct {
	takes   time.Duration
	blind   time.Duration // time after the injection during which they see nothing
	sore    time.Duration // time after the revert during which they still see it
	never   bool
	sick    bool                  // they see a fault before the injection
	blames  map[string]diag.Blame // by step
	symptom diag.HopID            // fails as well
	flicker diag.HopID            // a hop that fails in the second walk only
	muted   bool                  // the gateway lost the id
	nobody  bool                  // no report at all
	bend    func(r *diag.Report)  // changes the report; may be nil
}

// looks is how independent probes see the world.
type looks struct {
	always  bool            // the probe always passes
	cut     map[string]bool // this look cannot be made
	control bool            // the control probe fails once the fault is injected
	lame    bool            // it never did
	unproof bool            // the repair is never proved
	proves  bool            // the proof of repair always passes
}

func newWorld(ids ...string) *world {
	w := &world{boxes: map[string]*box{}, changed: map[string]time.Time{}, broken: map[string]bool{},
		makes: map[string]int{}}
	w.takes = time.Second
	w.blames = map[string]diag.Blame{
		"block": {Hop: diag.HopNodeRuntimeAPI, Signal: diag.SigAPIUnreachable, Failure: "tcp_timeout"},
		"disk":  {Hop: diag.HopNodeReadiness, Signal: diag.SigDiskFull},
	}
	w.cut = map[string]bool{}
	for i, id := range ids {
		b := newBox(w, id)
		// so that the order is deterministic
		b.line.hitches, b.line.delay = map[string][]hitch{}, time.Duration(10+3*i)*time.Millisecond
		w.boxes[id] = b
	}
	return w
}

// stepOf returns the step that changes a place.
func stepOf(place string) string { return strings.TrimPrefix(place, "/run/") }

func (w *world) mark(place string, broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed[place], w.broken[place] = time.Now(), broken
}

func (w *world) made(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.makes[id]++
}

func (w *world) since(place string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed[place]
}

// felt returns the steps whose effect the chain notices now.
func (w *world) felt() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for place, broken := range w.broken {
		since := time.Since(w.changed[place])
		if (broken && since >= w.blind) || (!broken && since < w.sore) {
			all = append(all, stepOf(place))
		}
	}
	slices.Sort(all)
	return all
}

func (w *world) anyBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, broken := range w.broken {
		if broken {
			return true
		}
	}
	return false
}

// anyMended reports whether something was broken, and everything is reverted.
func (w *world) anyMended() bool {
	w.mu.Lock()
	known := len(w.broken) > 0
	w.mu.Unlock()
	return known && !w.anyBroken()
}

// walk runs the whole chain once.
func (w *world) walk(ctx context.Context) *diag.Report {
	w.mu.Lock()
	w.walks++
	n := w.walks
	w.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(w.chain.takes):
	}
	if w.nobody {
		return nil
	}
	r := &diag.Report{Run: diag.Run{ID: fmt.Sprintf("w%d", n), CorrelationID: fmt.Sprintf("corr-%d", n),
		EndedBy: diag.EndedCompleted}}
	if ctx.Err() != nil {
		r.Run.EndedBy = diag.EndedInterrupted
		r.Verdict.Outcome = diag.OutcomeInconclusive
		return r
	}
	w.judge(r)
	r.Facts = []diag.Fact{{ID: "session", Request: diag.Request{Op: diag.OpSession}, WS: &diag.WSFacts{Upgraded: true}}}
	if len(r.Hops) > 0 && r.Verdict.Outcome == diag.OutcomeFail {
		r.Facts[0].WS.FirstFrame, r.Facts[0].WS.FrameCode, r.Facts[0].WS.FrameMessage = "error", "node_stream_timeout",
			"the node did not connect"
	}
	r.Evidence = []diag.EvidenceLine{{Kind: "task.completed", CorrelationID: r.Run.CorrelationID}}
	if !w.muted {
		r.Evidence = append(r.Evidence,
			diag.EvidenceLine{Kind: "terminal.browser_connected", CorrelationID: r.Run.CorrelationID})
	}
	if w.bend != nil {
		w.bend(r)
	}
	return r
}

// judge gives the report the findings of the faults in effect.
func (w *world) judge(r *diag.Report) {
	var found []diag.Blame
	if !w.never {
		for _, id := range w.felt() {
			found = append(found, w.blames[id])
		}
	}
	if w.sick {
		found = append(found, diag.Blame{Hop: diag.HopNodeHeartbeat, Signal: diag.SigHeartbeatStale})
	}
	r.Verdict.Outcome = diag.OutcomePass
	failing := map[diag.HopID]bool{}
	for i, b := range found {
		failing[b.Hop] = true
		if r.Verdict.Outcome = diag.OutcomeFail; i == 0 {
			r.Verdict.Blame, r.Verdict.FirstFailedHop = &b, b.Hop
		} else {
			r.Verdict.OtherFindings = append(r.Verdict.OtherFindings, b)
		}
	}
	if w.symptom != "" && len(found) > 0 {
		failing[w.symptom] = true
	}
	if w.flicker != "" && r.Run.ID == "w2" {
		failing[w.flicker], r.Verdict.Outcome = true, diag.OutcomeFail
		r.Verdict.OtherFindings = append(r.Verdict.OtherFindings, diag.Blame{Hop: w.flicker, Text: "it did not answer"})
	}
	for _, id := range diag.HopIDs() {
		h := diag.HopResult{ID: id, Finding: diag.Finding{Status: diag.StatusPass}}
		if failing[id] {
			h.Status = diag.StatusFail
		}
		if id == diag.HopBrowserTerminalWS {
			h.Steps = []diag.StepResult{{Name: "session", Fact: "session"}}
		}
		r.Hops = append(r.Hops, h)
	}
}

// tool runs a probe's tool.
func (w *world) tool(argv []string) drill.Output {
	time.Sleep(map[string]time.Duration{"sees": 20, "works": 40, "repaired": 60}[argv[0]] * time.Millisecond)
	no := func(is bool) drill.Output {
		if is {
			return drill.Output{Code: 1, Text: "no"}
		}
		return drill.Output{}
	}
	switch argv[0] {
	case "sees":
		return no(!w.always && !w.anyBroken())
	case "works":
		return no(w.lame || (w.control && w.anyBroken()))
	default:
		return no(!w.proves && (w.unproof || w.anyBroken()))
	}
}

// cutOff makes a tool fail.
func (w *world) cutOff(tool string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[tool] = true
}

// here is the operator's machine, from which probes of cut-off machines run.
type here struct{ *world }

func (here) Fault(context.Context, []byte, ...string) (step.Reply, error) {
	return step.Reply{}, errors.New("nothing is broken here")
}
func (here) Reconnect()                         {}
func (here) RemoveHelper(context.Context) error { return nil }
func (h here) Exec(_ context.Context, e step.Exec) (drill.Output, error) {
	h.mu.Lock()
	no := len(e.Argv) == 0 || h.cut[e.Argv[0]]
	h.mu.Unlock()
	if no {
		return drill.Output{}, errors.New("no such program")
	}
	return h.tool(e.Argv), nil
}

// expected checks that an action was logged before it begins.
func (w *world) expected(machine string, args []string) {
	kind := map[string]drill.Kind{"arm": drill.Arming, "do": drill.Breaking, "revert": drill.Reverting}[args[0]]
	if kind == "" {
		return
	}
	id := ""
	if i := slices.Index(args, "--step"); i > 0 {
		id = args[i+1]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	written := slices.ContainsFunc(w.events, func(e drill.Event) bool {
		return e.Kind == kind && e.Machine == machine && e.Step == id
	})
	// an action that could not be recorded is reverted as well
	if !written && (w.fullAt == 0 || kind != drill.Reverting) {
		w.wrong = append(w.wrong, fmt.Sprintf("%s was asked to %s before it was written down", machine, args[0]))
	}
}

func (w *world) write(e drill.Event, _ *diag.Report) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fullAt > 0 && e.Seq >= w.fullAt {
		return errors.New("no space left on device")
	}
	b, err := json.Marshal(e)
	w.log.Write(append(b, '\n'))
	w.events = append(w.events, e)
	return err
}

func (w *world) decide(ctx context.Context, _ chaos.Decision) error {
	w.mu.Lock()
	w.decided++
	w.mu.Unlock()
	if w.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return w.refusesDecision
}

// outcome is the result of a run.
type outcome struct {
	*world
	story *drill.Story
	took  time.Duration
	panic any
	until time.Duration // every machine was at rest
}

// run runs a plan in the world, and waits until its machines are idle.
func (w *world) run(t *testing.T, p chaos.Plan) (o outcome) {
	t.Helper()
	o.world = w
	synctest.Test(t, func(t *testing.T) {
		w.booted = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		abandon := make(chan struct{})
		j := drill.Job{
			Plan: p, Tool: "v1.2.3", Rules: "7", Machines: map[string]drill.Machine{"": here{w}}, Walk: w.walk, Decide: w.decide,
			Write: w.write, Abandon: abandon, Terminal: w.tenant,
			Observe: func(e drill.Event, s *drill.Story) {
				if e.Kind == w.kind || e.Seq == w.seq {
					cancel()
				}
				if w.observe != nil {
					w.observe(e, s)
				}
			},
		}
		for id, b := range w.boxes {
			b.lock = make(chan struct{}, 1)
			j.Machines[id] = b
		}
		if w.ready != nil {
			j.Ready = func(context.Context) (chaos.Plan, error) { return w.ready(p) }
		}
		if w.interrupt > 0 {
			defer time.AfterFunc(w.interrupt, cancel).Stop()
		}
		if w.abandon > 0 {
			defer time.AfterFunc(w.abandon, func() { close(abandon) }).Stop()
		}
		func() {
			defer func() { o.panic = recover() }()
			o.story = drill.Run(ctx, j)
		}()
		o.took = time.Since(w.booted)
		w.busy.Wait()
		o.until = time.Since(w.booted)
	})
	if o.panic != nil {
		w.wrong = append(w.wrong, fmt.Sprintf("panic: %v", o.panic))
		o.story = &drill.Story{}
	}
	return o
}

// left returns the machines on which a fault may be left.
func left(s *drill.Story) []string {
	var all []string
	for _, p := range s.Machines {
		if (p.Touched && !p.Closed) || (p.Clean != nil && !*p.Clean) ||
			slices.Contains([]step.State{step.Conflict, step.Failed}, p.State) {
			all = append(all, p.ID)
		}
	}
	return all
}
