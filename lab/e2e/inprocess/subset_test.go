//go:build linux

package inprocess

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

// subsetsDrawn is the number of random subsets of hops, in addition to all singles. GPUAASCTL_SUBSETS overrides it.
// Package preflight walks pairs and more, in virtual time, and judges every subset.
const subsetsDrawn = 24

// asked is one way to ask for a walk.
type asked struct {
	options    hop.Options
	allocation string
}

func (a asked) String() string {
	o := a.options
	return fmt.Sprintf("--only %v --skip %v, token %t, SSH %t, session %t, allocation %q", o.Only, o.Skip, o.Token, o.SSH,
		o.Session, a.allocation)
}

// walksAgain is how often a failed walk is repeated: on a busy machine a getent may time out, which would not
// repeat, as a false blame would.
const walksAgain = 4

// suspects are walks that failed next to others. They are repeated alone, when the others are done.
type suspects struct {
	mu    sync.Mutex // guards walks
	walks []func() []string
}

// try runs a walk, which returns its errors, and keeps it if there are any.
func (s *suspects) try(walk func() []string) {
	if len(walk()) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walks = append(s.walks, walk)
}

// settle fails the test for every walk that fails each time.
func (s *suspects) settle(t *testing.T) {
	for _, walk := range s.walks {
		var wrong []string
		for range walksAgain {
			if wrong = walk(); len(wrong) == 0 {
				break
			}
		}
		for _, problem := range wrong {
			t.Error(problem)
		}
	}
}

// prepare prepares a walk of the world.
func (a asked) prepare(t *testing.T, w *world) *job {
	j := w.prepare(t)
	j.env.Subject = hop.NewSubject(j.env.Profile, nodeID, "", a.allocation, "")
	j.plan = hops.BuiltIn().NewPlan(j.env.Profile, j.env.Subject, a.options)
	return j
}

// subsets returns each hop for --only and --skip with all inputs, and random subsets with random inputs.
func subsets(rng *rand.Rand, drawn int) []asked {
	var all []asked
	full := func(only, skip []diag.HopID) {
		all = append(all, asked{hop.Options{Only: only, Skip: skip, Session: true, Token: true, SSH: true}, alloc})
	}
	for _, a := range diag.HopIDs() {
		full([]diag.HopID{a}, nil)
		full(nil, []diag.HopID{a})
	}
	likely := func() bool { return rng.IntN(4) > 0 }
	for range drawn {
		var set []diag.HopID
		for _, id := range diag.HopIDs() {
			if rng.IntN(2) == 0 {
				set = append(set, id)
			}
		}
		a := asked{options: hop.Options{Session: likely(), Token: likely(), SSH: likely()}}
		if likely() {
			a.allocation = alloc
		}
		if rng.IntN(2) == 0 {
			a.options.Only = set
		} else {
			a.options.Skip = set
		}
		all = append(all, a)
	}
	return all
}

// ownWorld is a healthy world that uses nothing of the machine that runs the tests: the platform knows the agent
// by this machine's address, and a record that another agent left here is not read.
func ownWorld() options {
	return options{
		platform: func(o *platformtest.Options) {
			addrs, _ := net.InterfaceAddrs()
			for _, a := range addrs {
				if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
					o.Nodes[0].PrivateIP = n.IP.String()
				}
			}
		},
		yaml: "mapping:\n  record: false\n",
	}
}

// TestSubsetsOfAHealthyWorld: whatever is left out of a walk of a healthy world, nothing fails and no action is
// due; a walk that measures nothing of the node is no pass. Two requests with the same steps are walked once.
func TestSubsetsOfAHealthyWorld(t *testing.T) {
	t.Parallel()
	seed, drawn := uint64(time.Now().UnixNano()), subsetsDrawn
	if n, err := strconv.Atoi(os.Getenv("GPUAASCTL_SUBSETS")); err == nil {
		drawn = n
	}
	if n, err := strconv.ParseUint(os.Getenv("GPUAASCTL_SUBSETS_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("GPUAASCTL_SUBSETS_SEED=%d", seed)
	w := start(t, ownWorld())
	began, walked := time.Now(), map[string]bool{}
	slots := make(chan struct{}, 4)
	var wg sync.WaitGroup
	var doubts suspects
	all := subsets(rand.New(rand.NewPCG(seed, 0)), drawn)
	for _, a := range all {
		j := a.prepare(t, w)
		if key := stepsOf(j.plan); walked[key] {
			continue
		} else {
			walked[key] = true
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			doubts.try(func() []string {
				r := a.prepare(t, w).run(t.Context(), t)
				nothing := !slices.ContainsFunc(r.Hops, func(h diag.HopResult) bool { return h.Status != diag.StatusSkipped })
				want := diag.OutcomePass
				if chain := hops.BuiltIn(); chain.WantsNode(j.plan) && !asksNode(chain, j.plan) {
					want = diag.OutcomeInconclusive // it would be the same for any name
				}
				if (r.Verdict.Outcome != want && !nothing) || r.Verdict.Reason != diag.ReasonNone ||
					r.Verdict.Blame != nil {
					return []string{fmt.Sprintf("%s: reason %q, because %v\n%s", a, r.Verdict.Reason, r.Classification.Because,
						describe(r))}
				}
				return nil
			})
		})
	}
	wg.Wait()
	doubts.settle(t)
	t.Logf("%d ways to ask, %d walks, %s", len(all), len(walked), time.Since(began).Round(time.Millisecond))
}

// asksNode reports whether a walk measures the node. This platform judges no GPUs, so to ask for them alone does not.
func asksNode(chain *hop.Chain, plan diag.Plan) bool {
	plan.Hops = slices.Clone(plan.Hops)
	for i := range plan.Hops {
		if plan.Hops[i].ID == diag.HopGPUHealth {
			plan.Hops[i].Skip = "not judged"
		}
	}
	return chain.AsksNode(plan)
}

// stepsOf returns the steps of a plan.
func stepsOf(plan diag.Plan) string {
	var b strings.Builder
	for _, h := range plan.Hops {
		for _, s := range h.Steps {
			if h.Skip == "" && h.Left[s] == "" {
				fmt.Fprintf(&b, "%s/%s ", h.ID, s)
			}
		}
	}
	return b.String()
}

// TestRunbookExamples runs the two command lines of the terminal runbook on a healthy world: the first names an
// allocation without a token, the second has neither.
func TestRunbookExamples(t *testing.T) {
	t.Parallel()
	w := start(t, ownWorld())
	for _, allocation := range []string{alloc, ""} {
		j := w.prepare(t)
		j.env.Token = diag.Secret{}
		j.env.Subject = hop.NewSubject(j.env.Profile, nodeID, "", allocation, "")
		j.plan = hops.BuiltIn().NewPlan(j.env.Profile, j.env.Subject, hop.Options{Session: true, SSH: true})
		r := j.run(t.Context(), t)
		if r.Verdict.Outcome != diag.OutcomePass || r.Verdict.Reason != diag.ReasonNone {
			t.Errorf("allocation %q\n%s", allocation, describe(r))
		}
		if h := resultOf(t, r, diag.HopBrowserTerminalWS); allocation != "" &&
			!strings.Contains(h.Because, "no operator token given") {
			t.Errorf("%s is %s: %s", h.ID, h.Status, h.Because)
		}
	}
}
