//go:build linux

package inprocess

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
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
	"github.com/gpuaas/gpuaasctl/profile"
)

// The listeners of a platform, and the paths that each serves.
const (
	atAPI      = "API edge"
	atTerminal = "terminal edge"
	atIngress  = "node ingress"
)

var pathsAt = map[string][]string{
	atAPI: {profile.PathHealthz, profile.PathAllocation, profile.PathNode, profile.PathNodeGPU, profile.PathNodeTasks,
		profile.PathTask, profile.PathTrust, profile.PathNodeReenroll, profile.PathEvidence, profile.PathNodeEvidence,
		profile.PathSessionEvidence, profile.PathTerminalToken, profile.PathTerminalSession},
	atTerminal: {profile.PathTerminalWS, profile.PathTerminalHealthz},
	atIngress:  {profile.PathHealthz, profile.PathTaskWait, profile.PathNodeTerminal},
}

// posted lists the paths that are used with POST; all others are read.
var posted = []string{profile.PathNodeTasks, profile.PathTerminalToken, profile.PathNodeReenroll}

// guard sees every request to a platform, and fails the test for one that no mapped path explains.
type guard struct {
	t  *testing.T
	mu sync.Mutex // guards by
	by map[string]profile.Mapping
}

// watch installs the guard in front of all of the world's listeners.
func watch(t *testing.T, w *world) *guard {
	g := &guard{t: t, by: map[string]profile.Mapping{}}
	for at, front := range map[string]*platformtest.Front{atAPI: w.platform.APIEdge, atTerminal: w.platform.TerminalEdge,
		atIngress: w.platform.Ingress} {
		front.Watch(func(r *http.Request) { g.see(at, r) })
	}
	t.Cleanup(func() {
		for _, front := range []*platformtest.Front{w.platform.APIEdge, w.platform.TerminalEdge, w.platform.Ingress} {
			front.Watch(nil)
		}
	})
	return g
}

// allow sets the requests that a walk or command with that correlation id may send.
func (g *guard) allow(correlation string, m profile.Mapping) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.by[correlation] = m
}

func (g *guard) see(at string, r *http.Request) {
	g.mu.Lock()
	m, ours := g.by[r.Header.Get("X-Correlation-Id")]
	g.mu.Unlock()
	if at == atIngress && r.Header.Get("X-GPUaaS-Probe") == "" && !strings.HasPrefix(r.UserAgent(), "gpuaasctl") {
		return // the world's own agent
	}
	for _, name := range pathsAt[at] {
		method := http.MethodGet
		if slices.Contains(posted, name) {
			method = http.MethodPost
		}
		if ours && r.Method == method && m.Path(name, nil) != "" && pattern(m, name).MatchString(r.URL.RequestURI()) {
			return
		}
	}
	g.t.Errorf("%s: no mapped path makes %s %s", at, r.Method, r.URL.RequestURI())
}

var placeholder = regexp.MustCompile(`\\\{\w+\\\}`)

// pattern is what a mapped path looks like with its placeholders filled in.
func pattern(m profile.Mapping, name string) *regexp.Regexp {
	template := m.Paths[name]
	return regexp.MustCompile("^" + placeholder.ReplaceAllString(regexp.QuoteMeta(template), `[^/?&]+`) + "$")
}

// away returns a mapping without the named paths and fields.
func away(m profile.Mapping, names []string) profile.Mapping {
	m.Paths, m.Fields = maps.Clone(m.Paths), maps.Clone(m.Fields)
	for _, n := range names {
		if _, path := m.Paths[n]; path {
			m.Paths[n] = profile.Absent
		} else {
			m.Fields[n] = profile.Absent
		}
	}
	return m
}

// absences are what is mapped away: all paths, all fields, everything; a few singly; and drawn sets. Package preflight
// walks without every path and field singly, in virtual time.
func absences(rng *rand.Rand, drawn int, judged []string) [][]string {
	d := profile.DefaultMapping()
	paths, fields := slices.Sorted(maps.Keys(d.Paths)), slices.Sorted(maps.Keys(d.Fields))
	every := slices.Concat(paths, fields)
	sets := [][]string{nil, paths, fields, every}
	for range drawn / 2 {
		sets = append(sets, []string{judged[rng.IntN(len(judged))]})
	}
	for range drawn - drawn/2 {
		var set []string
		share := rng.Float64()
		for _, n := range every {
			if rng.Float64() < share {
				set = append(set, n)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// seamless is a world in which all listeners can be watched: the ingress replaces the node terminal as far as a
// walk uses it.
func seamless(t *testing.T) *world {
	o := ownWorld()
	o.nodeEnv = func(w *world, env map[string]string) { env["GPUAAS_TERMINAL_API_URL"] = w.platform.NodeAPIURL }
	o.profile = func(p *profile.Profile) { p.NodeTerminalURL = p.NodeRuntimeAPIURL }
	w := start(t, o)
	w.platform.Ingress.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/terminal/preflight-nobody") {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(rw).Encode(map[string]any{
			"error": map[string]string{"code": "session_not_found", "message": "nobody"},
		})
		return true
	})
	return w
}

// TestNothingIsSentToAnAbsentPath: if a profile maps a path to "-", a walk of a healthy world sends nothing to it,
// fails no hop, and names in plan and report what was left out and why.
func TestNothingIsSentToAnAbsentPath(t *testing.T) {
	t.Parallel()
	seed, drawn := uint64(time.Now().UnixNano()), 16
	if n, err := strconv.Atoi(os.Getenv("GPUAASCTL_SUBSETS")); err == nil {
		drawn = n
	}
	if n, err := strconv.ParseUint(os.Getenv("GPUAASCTL_SUBSETS_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("GPUAASCTL_SUBSETS_SEED=%d", seed)
	w := seamless(t)
	g := watch(t, w)
	began := time.Now()
	slots := make(chan struct{}, 4)
	var wg sync.WaitGroup
	var doubts suspects
	whole := w.prepare(t)
	judged := judgedBy(hops.BuiltIn().NewPlan(whole.env.Profile, whole.env.Subject,
		hop.Options{Session: true, Token: true, SSH: true}))
	for i, set := range absences(rand.New(rand.NewPCG(seed, 0)), drawn, judged) {
		prepare := func() *job {
			j := w.prepare(t)
			e := &j.env
			e.CorrelationID = fmt.Sprintf("absent-%d", i)
			e.Profile.Mapping = away(e.Profile.Mapping, set)
			e.Subject.SessionID, e.Subject.CorrelationID = "sess-0", e.CorrelationID
			j.plan = hops.BuiltIn().NewPlan(e.Profile, e.Subject, hop.Options{Session: true, Token: true, SSH: true})
			g.allow(e.CorrelationID, e.Profile.Mapping)
			return j
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			doubts.try(func() (problems []string) {
				r := prepare().run(t.Context(), t)
				for _, problem := range wronged(r, set, judged) {
					problems = append(problems, fmt.Sprintf("without %v: %s\n%s", set, problem, describe(r)))
				}
				return problems
			})
		})
	}
	wg.Wait()
	doubts.settle(t)
	t.Logf("%s", time.Since(began).Round(time.Millisecond))
}

// wronged lists what a report contains that the absence of the paths in set does not explain.
func wronged(r *diag.Report, set, judged []string) []string {
	var out []string
	if r.Verdict.Outcome == diag.OutcomeFail || r.Verdict.Blame != nil || r.Verdict.Reason != diag.ReasonNone {
		out = append(out, fmt.Sprintf("%s, reason %s", r.Verdict.Outcome, r.Verdict.Reason))
	}
	// this platform answers without an endpoint
	if len(set) == 1 && r.Verdict.Outcome != diag.OutcomePass && set[0] != "allocation.app_port" {
		out = append(out, fmt.Sprintf("%s for want of one thing", r.Verdict.Outcome))
	}
	for i, p := range r.Plan.Hops {
		h := r.Hops[i]
		if p.Skip != "" && (h.Status != diag.StatusSkipped || h.Because != p.Skip) {
			out = append(out, fmt.Sprintf("%s: planned as skipped (%s), reported as %s (%s)", p.ID, p.Skip, h.Status, h.Because))
		}
		for _, s := range h.Steps {
			if why := p.Left[s.Name]; why != "" && (s.Status != diag.StatusSkipped || s.Because != why) {
				out = append(out, fmt.Sprintf("%s/%s: left out (%s), reported as %s (%s)", p.ID, s.Name, why, s.Status, s.Because))
			}
		}
		if strings.Contains(h.Text, "the token is accepted") && slices.Contains(set, profile.PathTrust) {
			out = append(out, "a token is accepted by nobody: "+h.Text)
		}
	}
	for _, f := range r.Facts {
		for name := range f.Request.Extract {
			if slices.Contains(set, name) {
				out = append(out, f.ID+" asks for "+name)
			}
		}
	}
	if len(set) == 1 && slices.Contains(judged, set[0]) {
		text, _ := json.Marshal(r.Plan)
		if !strings.Contains(string(text), set[0]) {
			out = append(out, "the plan does not name "+set[0])
		}
	}
	return out
}

// judgedBy returns the paths and fields without which a step or a hop of a planned walk is left out. Steps that
// the plan leaves out for another reason, such as a profile that names no injected headers, need none.
func judgedBy(plan diag.Plan) []string {
	var names []string
	for i, h := range hops.BuiltIn().List() {
		p := plan.Hops[i]
		if p.Skip != "" {
			continue
		}
		names = append(names, h.Fields...)
		for _, s := range h.Steps {
			if p.Left[s.Name] == "" {
				names = append(append(names, s.Needs.Paths...), s.Needs.Fields...)
			}
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return strings.Contains(n, "|") })
}
