package preflight

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// recordedHealthy returns a walk of a healthy lab, and its profile as far as a plan reads it.
func recordedHealthy(tb testing.TB) (*diag.Report, profile.Profile) {
	tb.Helper()
	data, err := os.ReadFile("../golden/reports/healthy.json")
	if err != nil {
		tb.Fatal(err)
	}
	var r diag.Report
	if err := json.Unmarshal(data, &r); err != nil {
		tb.Fatal(err)
	}
	return &r, profileOf(&r)
}

// profileOf returns the profile of a recorded walk as far as a plan reads it.
func profileOf(r *diag.Report) profile.Profile {
	x := r.Subject.Expected
	p := profile.Profile{
		Name: r.Plan.Profile, APIBase: x["api_base"], TerminalBase: x["terminal_base"],
		NodeRuntimeAPIURL: x["node_runtime_api_url"], NodeTerminalURL: x["node_terminal_url"], Policy: r.Plan.Policy,
		App: profile.App{
			Websocket: x["app_websocket"], HeadersPath: "/headers",
			InjectedHeaders: strings.Split(x["app_injected_headers"], ","),
		},
		PlatformSSH: profile.SSH{Host: "10.231.77.10"},
	}
	return p.WithDefaults()
}

// mask has which inputs of a walk the operator gave.
type mask struct{ token, allocation, ssh, session bool }

func (m mask) String() string {
	return fmt.Sprintf("token %t, allocation %t, SSH %t, session %t", m.token, m.allocation, m.ssh, m.session)
}

// masks returns all 16 masks.
func masks() []mask {
	var all []mask
	for i := range 16 {
		all = append(all, mask{i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0})
	}
	return all
}

func (m mask) apply(s diag.Subject, o *hop.Options) diag.Subject {
	o.Token, o.SSH, o.Session = m.token, m.ssh, m.session
	if !m.allocation {
		s.AllocationID = ""
	}
	return s
}

// cut returns the healthy walk as another plan would have measured it: with the facts of the plan's steps, in hops that
// keep accepts; nil accepts all.
func cut(r *diag.Report, s diag.Subject, plan diag.Plan, keep func(diag.HopID) bool) *diag.Report {
	out := *r
	out.Subject, out.Plan, out.Facts = s, plan, nil
	rows := map[diag.HopID]*diag.PlannedHop{}
	for i := range plan.Hops {
		rows[plan.Hops[i].ID] = &plan.Hops[i]
	}
	recorded := &hop.Case{Plan: r.Plan}
	for i := range out.Plan.Hops { // a step that came later than the recording is not judged
		row := &out.Plan.Hops[i]
		had := recorded.Planned(row.ID).Steps
		row.Steps = slices.DeleteFunc(slices.Clone(row.Steps), func(s string) bool { return !slices.Contains(had, s) })
	}
	for _, f := range r.Facts {
		hop, step, _ := strings.Cut(f.ID, "/")
		row := rows[diag.HopID(hop)]
		if row.Skip == "" && row.Left[step] == "" && (keep == nil || keep(row.ID)) {
			out.Facts = append(out.Facts, f)
		}
	}
	verdict.Judge(hops.BuiltIn(), &out)
	return &out
}

// wrongOnHealthy returns what is wrong in a report on a healthy platform, "" if nothing is.
func wrongOnHealthy(r *diag.Report) string {
	switch {
	case r.Verdict.Outcome == diag.OutcomeFail || r.Verdict.Blame != nil || r.Verdict.FirstFailedHop != "":
		return "a healthy platform is blamed"
	case r.Verdict.Outcome == diag.OutcomeInconclusive && r.Verdict.Reason == diag.ReasonNone &&
		r.Verdict.Owner == "operator access":
		// no step was left to walk, which the report tells the operator who asked for that
	case r.Verdict.Reason != diag.ReasonNone || r.Verdict.Owner != "":
		return "somebody is asked to act on a healthy platform: " + string(r.Verdict.Reason) + " " + r.Verdict.Owner
	}
	for _, h := range r.Hops {
		if h.Status != diag.StatusPass && h.Because == "" && h.Text == "" {
			return fmt.Sprintf("%s is %s without a reason", h.ID, h.Status)
		}
	}
	return ""
}

// The inputs that the model below knows, as bits above those of the hops.
const (
	haveToken = iota
	haveAllocation
	haveSSH
	haveSession
)

// modelStep is one step of the chain in bits: the hops and inputs that it needs, and the steps whose facts it asks
// with.
type modelStep struct {
	hop   int
	hops  uint32 // all of these must run (any of their steps)
	facts uint64 // all of these steps must run
	means uint32
	id    string
}

// model returns the chain as far as a plan of the reference platform depends on --only, --skip and the inputs.
func model(r *diag.Report, p profile.Profile, s diag.Subject) (steps []modelStep, closure []uint32) {
	chain, at := hops.BuiltIn().List(), map[string]int{}
	for h := range chain {
		for _, st := range chain[h].Steps {
			if st.Pure() || !slices.Contains((&hop.Case{Plan: r.Plan}).Planned(chain[h].ID).Steps, st.Name) {
				continue // a step that came later than the recording is not in it
			}
			if st.Needs.Profile != nil && st.Needs.Profile(&p).Verdict == hop.Skip {
				continue // this profile does not have the step, whatever the inputs
			}
			m := modelStep{hop: h, id: hop.FactID(chain[h].ID, st.Name)}
			for _, need := range st.Needs.Hops {
				m.hops |= 1 << need.Rank()
			}
			for _, f := range st.Needs.Facts {
				m.facts |= 1 << at[f]
			}
			for bit := haveToken; bit <= haveSession; bit++ {
				var o hop.Options
				all := hop.Options{Session: true}
				sub := masks()[15&^(1<<bit)].apply(s, &o)
				ended := !chain[h].Planned(&p, sub, o).Open() && chain[h].Planned(&p, s, all).Open()
				if ended || st.Planned(&p, o).Verdict == hop.Skip {
					m.means |= 1 << bit
				}
			}
			at[m.id] = len(steps)
			steps = append(steps, m)
		}
	}
	for h := range chain {
		want := uint32(0)
		for _, id := range hop.WithNeeds(chain, []diag.HopID{chain[h].ID}, true) {
			want |= 1 << id.Rank()
		}
		closure = append(closure, want)
	}
	return steps, closure
}

// stepsRun returns the steps that run if only these hops may run, with these inputs.
func stepsRun(steps []modelStep, hops, means uint32) uint64 {
	var ran uint64
	var alive uint32
	for i := range steps {
		s := &steps[i]
		if hops>>s.hop&1 == 1 && s.hops&^alive == 0 && s.facts&^ran == 0 && s.means&^means == 0 {
			ran |= 1 << i
			alive |= 1 << s.hop
		}
	}
	return ran
}

// stepsPlanned returns the steps that a plan runs, in the same bits.
func stepsPlanned(steps []modelStep, plan diag.Plan) uint64 {
	var ran uint64
	c := &hop.Case{Plan: plan}
	for i := range steps {
		hop, step, _ := strings.Cut(steps[i].id, "/")
		if row := c.Planned(diag.HopID(hop)); row.Skip == "" && row.Left[step] == "" {
			ran |= 1 << i
		}
	}
	return ran
}

// ofNode returns the steps whose recorded answers show something of the node.
func ofNode(steps []modelStep) (node uint64) {
	for i := range steps {
		_, s := hops.BuiltIn().NewCase(diag.Subject{}, diag.Plan{}, "", nil).Declared(steps[i].id)
		switch steps[i].id {
		case "node_heartbeat/read_model", "allocation_binding/allocation", "node_task_roundtrip/task":
			node |= 1 << i
		case "gpu_health/admission": // the recording is older than gpu.node
		default:
			if s != nil && s.From == hop.Node {
				node |= 1 << i
			}
		}
	}
	return node
}

func namesOf(set uint32) []diag.HopID {
	var ids []diag.HopID
	for i, id := range diag.HopIDs() {
		if set>>i&1 == 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestHealthyNeverBlamed: a healthy platform is never blamed, and no action is asked for, whatever is left out of a
// walk: every subset of the hops in --only and its complement in --skip, with every mask of inputs. A walk that was to
// measure the node and measured nothing of it does not pass.
//
// It is exhaustive although it judges only some thousand cases, because what is measured depends only on which steps
// run. For each of the 2^18 x 16 x 2 walks the steps are computed in bits from the chain's own needs; each set of steps
// is planned and judged once. NewPlan must agree with the bits for each set, and for random walks.
func TestHealthyNeverBlamed(t *testing.T) {
	began := time.Now()
	r, p := recordedHealthy(t)
	steps, closure := model(r, p, r.Subject)
	node := ofNode(steps)
	all := uint32(1)<<len(diag.HopIDs()) - 1
	closed := make([]uint32, all+1) // by subset: with what its hops need
	for set := uint32(1); set <= all; set++ {
		low := set & -set
		i := 0
		for low>>i != 1 {
			i++
		}
		closed[set] = closed[set&^low] | closure[i]
	}
	seen := map[uint64]bool{}
	walks := 0
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for bits, m := range masks() {
		if testing.Short() && bits%15 != 0 { // the race detector's run: the code is the same
			continue
		}
		for set := range all + 1 {
			for mode := range 2 {
				walks++
				may, o := closed[set], hop.Options{Only: nil}
				if mode == 1 {
					may = set
				} else if set == 0 {
					continue // no --only is all hops, as is an empty --skip
				}
				ran := stepsRun(steps, may, uint32(bits))
				drawn := rng.IntN(1<<13) == 0
				if seen[ran] && !drawn {
					continue
				}
				seen[ran] = true
				if mode == 0 {
					o.Only = namesOf(set)
				} else {
					o.Skip = namesOf(all &^ set)
				}
				s := m.apply(r.Subject, &o)
				plan := hops.BuiltIn().NewPlan(p, s, o)
				if got := stepsPlanned(steps, plan); got != ran {
					t.Fatalf("--only %v --skip %v, %s: steps %b are planned, their needs allow %b", o.Only, o.Skip, m, got, ran)
				}
				want := diag.OutcomePass
				if ran == 0 || (ran&node == 0 && hops.BuiltIn().WantsNode(plan)) {
					want = diag.OutcomeInconclusive
				}
				if got := cut(r, s, plan, nil); wrongOnHealthy(got) != "" || got.Verdict.Outcome != want {
					t.Fatalf("--only %v --skip %v, %s: %s: %s\n%s", o.Only, o.Skip, m, got.Verdict.Outcome, wrongOnHealthy(got),
						describe(got))
				}
			}
		}
	}
	t.Logf("%d walks, %d sets of steps, %s", walks, len(seen), time.Since(began).Round(time.Millisecond))
}

// TestHealthyFactsCut: nothing fails if a healthy walk loses all facts of some hops: of a few, of all but a few, and of
// random subsets, or with GPUAASCTL_SUBSETS=all of every subset.
func TestHealthyFactsCut(t *testing.T) {
	r, p := recordedHealthy(t)
	o := hop.Options{Session: true, Token: true, SSH: true}
	plan := hops.BuiltIn().NewPlan(p, r.Subject, o)
	all := uint32(1)<<len(diag.HopIDs()) - 1
	check := func(set uint32) {
		got := cut(r, r.Subject, plan, func(id diag.HopID) bool { return set>>id.Rank()&1 == 1 })
		if got.Verdict.Outcome == diag.OutcomeFail || got.Verdict.Blame != nil || got.Verdict.Reason != diag.ReasonNone {
			t.Fatalf("facts of %v: %s, reason %s\n%s", namesOf(set), got.Verdict.Outcome, got.Verdict.Reason, describe(got))
		}
	}
	if os.Getenv("GPUAASCTL_SUBSETS") == "all" {
		for set := range all + 1 {
			check(set)
		}
		return
	}
	for i := range diag.HopIDs() {
		for j := range i + 1 {
			check(1<<i | 1<<j)
			check(all &^ (1<<i | 1<<j))
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		check(rng.Uint32() & all)
	}
}
