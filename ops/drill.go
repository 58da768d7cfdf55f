package ops

import (
	"cmp"
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// Drill is a drill that passed every check that needs no machine.
type Drill struct {
	Scenario chaos.Scenario
	Session  *Session // about the node of the walk
	Subject  chaos.Subject
	Machines []chaos.Machine
}

// Make plans from facts.
func (d *Drill) Make(facts chaos.Facts, run string) chaos.Plan {
	return chaos.Make(d.Scenario, d.Session.site.Profile, d.Subject, facts, run)
}

// Plan reads the machines and makes the plan. If something cannot be read, it returns the error, and the plan refuses
// the drill.
// Nothing is read for a drill that this environment cannot run.
func (d *Drill) Plan(ctx context.Context, run string) (chaos.Plan, chaos.Facts, error) {
	if len(d.Scenario.Lacks(d.Session.site.Profile, d.Subject)) > 0 {
		facts := chaos.Facts{Now: time.Now().UTC().Truncate(time.Second), Operator: d.Session.site.By}
		return d.Make(facts, run), facts, nil
	}
	facts, err := d.survey(ctx)
	plan := d.Make(facts, run)
	if err != nil {
		plan.Refused = unasked(err)
	}
	return plan, facts, err
}

// Suite is several drills that run one after the other.
type Suite struct {
	Drills   []Drill
	Game     *drill.Game     // the seed that decided their order; nil: the caller did
	Pause    time.Duration   // between two of them
	Folder   string          // folder of the runs' logs, see drill.CreateLog
	Deadline time.Duration   // for a walk, and for reading the machines
	Abandon  <-chan struct{} // closed to leave the machines to their watchdogs; may be nil
}

// Progress is one update of a running suite: an event of a run, or the state of the walk in progress.
type Progress struct {
	Index, Count int         // of the drill, from 0, and the number of drills
	Event        drill.Event // zero if the update is about the walk
	Walk         *walk.Event // nil: the update is Event
}

// Drill runs a suite until a drill leaves something on a machine, or ctx ends; in that case it reverts everything
// first. observe gets the progress, from one goroutine at a time.
func (s *Site) Drill(ctx context.Context, suite Suite, observe func(Progress)) *drill.Report {
	r := &drill.Report{
		Head: diag.NewHead(drill.ReportKind), ToolVersion: s.Tool, Profile: s.Profile.Name,
		Game: suite.Game, StartedAt: diag.At(time.Now()), Drills: []drill.Drill{}, EndedBy: diag.EndedCompleted,
	}
	for i := range suite.Drills {
		stop := i > 0 && len(r.Drills) > 0 && mustStop(r.Drills[len(r.Drills)-1])
		if stop || ctx.Err() != nil || (i > 0 && !sleep.For(ctx, suite.Pause)) {
			r.NotRun = append(r.NotRun, suite.Drills[i].Scenario.Metadata.ID)
			continue
		}
		r.Drills = append(r.Drills, suite.one(ctx, i, r, observe))
	}
	if ctx.Err() != nil {
		r.EndedBy = diag.EndedInterrupted
	}
	r.EndedAt = diag.At(time.Now())
	r.SetVerdict()
	return r
}

// mustStop reports that a machine must be checked before another drill may run.
func mustStop(d drill.Drill) bool {
	return d.Verdict.Word == drill.Residue || d.Verdict.Word == drill.Conflict || d.Open()
}

// one plans and runs the drill i.
func (suite *Suite) one(ctx context.Context, i int, r *drill.Report, observe func(Progress)) drill.Drill {
	d := suite.Drills[i]
	d.Session = d.Session.Renew("diag")
	site, run := d.Session.site, NewDrillID(d.Session.Began)
	plan, facts := d.planWithin(ctx, suite.Deadline, run)
	log, unwritten := drill.CreateLog(filepath.Join(suite.Folder, run))
	on := site.machines(d.Machines)
	defer on.close()
	var mu sync.Mutex // run and walk report progress concurrently
	report := func(e drill.Event, walk *walk.Event) {
		mu.Lock()
		defer mu.Unlock()
		observe(Progress{Index: i, Count: len(suite.Drills), Event: e, Walk: walk})
	}
	story := drill.Run(ctx, drill.Job{
		Plan: plan, Tool: site.Tool, Rules: verdict.RulesVersion, Game: r.Game, Machines: on.withHere(),
		Walk: func(ctx context.Context) *diag.Report {
			ctx, cancel := context.WithTimeout(ctx, suite.Deadline)
			defer cancel()
			return d.Session.Renew("drill").Walk(ctx, WalkOptions{Terminal: true},
				func(e walk.Event) { report(drill.Event{}, &e) })
		},
		Ready:    d.ready(plan, facts),
		Decide:   d.Session.decide,
		Terminal: d.Session.terminal(plan.Budgets.TTL.Std()),
		Write: func(e drill.Event, walk *diag.Report) error {
			if log == nil {
				return unwritten
			}
			return log.Write(e, walk)
		},
		Observe: func(e drill.Event, _ *drill.Story) { report(e, nil) }, Abandon: suite.Abandon,
	})
	result := story.Drill()
	if log != nil {
		result.Log = log.Dir()
		// Every event was synced, and an extra folder is harmless.
		_ = log.Close()
		_ = drill.Prune(suite.Folder)
	}
	return result
}

func (d *Drill) planWithin(ctx context.Context, limit time.Duration, run string) (chaos.Plan, chaos.Facts) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	plan, facts, _ := d.Plan(ctx, run) // the plan refuses the drill if something could not be read
	return plan, facts
}

// NewDrillID returns the id of a run: the time, and random digits in case two runs begin within one second.
func NewDrillID(now time.Time) string {
	id := walk.NewID("x")
	return now.UTC().Format("060102-150405") + "-" + cmp.Or(id[max(0, len(id)-4):], "0")
}
