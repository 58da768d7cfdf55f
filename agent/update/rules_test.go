package update

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

var states = []string{wire.RolloutPending, wire.RolloutVerified, wire.RolloutActivating, wire.RolloutSoaking,
	wire.RolloutConverged, wire.RolloutReverted, wire.RolloutFailed, wire.RolloutRebootstrap}

// in returns a node whose rollout is in a state.
func in(t testing.TB, state string) Journal {
	t.Helper()
	j := soaking(t)
	j.Notes = nil
	j.Rollout.State = state
	return j
}

// TestStepsInEachState: which state each step leads to, from each state; a step that does not apply changes nothing.
func TestStepsInEachState(t *testing.T) {
	const pending, verified, activating, soaking, failed = wire.RolloutPending, wire.RolloutVerified,
		wire.RolloutActivating,
		wire.RolloutSoaking, wire.RolloutFailed
	ended := func(state string) func(Journal) Journal {
		return func(j Journal) Journal { return j.Merge(wire.Rollout{ID: "t1", State: state, Result: "r"}, testNow) }
	}
	for name, tc := range map[string]struct {
		step func(Journal) Journal
		to   map[string]string // from; a state that is missing stays
	}{
		"verified": {func(j Journal) Journal { return j.Verified(testNow) },
			map[string]string{pending: verified}},
		"activating": {func(j Journal) Journal { return j.Activating(testNow) },
			map[string]string{pending: activating, verified: activating}},
		"named": {func(j Journal) Journal { return j.Handshake(targetBuild, targetBuild, testNow) },
			map[string]string{activating: soaking}},
		"failed": {func(j Journal) Journal { return j.Fail("x", testNow) },
			map[string]string{pending: failed, verified: failed}},
		"the platform says reverted":  {ended(wire.RolloutReverted), map[string]string{pending: failed, verified: failed}},
		"the platform says failed":    {ended(failed), map[string]string{pending: failed, verified: failed}},
		"the platform says converged": {ended(wire.RolloutConverged), nil},
		"the platform says soaking":   {ended(soaking), nil},
		"the platform speaks of another": {func(j Journal) Journal {
			return j.Merge(wire.Rollout{ID: "t2", State: failed}, testNow)
		}, nil},
	} {
		for _, from := range states {
			j := in(t, from)
			got := tc.step(j)
			want, moves := tc.to[from]
			if !moves {
				want = from
			}
			if got.Rollout.State != want || (len(got.Notes) > 0) != moves || j.Rollout.State != from {
				t.Errorf("%s in %s: %s with %d notes, want %s", name, from, got.Rollout.State, len(got.Notes), want)
			}
		}
	}
	for _, from := range states {
		got := in(t, from).RevertOnStart("x").Rollout.Condemned
		if want := from == activating || from == soaking; (got == "x") != want {
			t.Errorf("condemned in %s: %q", from, got)
		}
		if again := in(t, from).RevertOnStart("x").RevertOnStart("y").Rollout.Condemned; again != got {
			t.Errorf("condemned twice in %s: %q", from, again)
		}
		j := in(t, from)
		if active, want := j.Active() != nil, slices.Index(states, from) < 4; active != want {
			t.Errorf("%s is active: %v", from, active)
		}
		j.Rollout.Result = "r"
		if why, want := j.HoldReason(), from == wire.RolloutRebootstrap; (why == "r") != want {
			t.Errorf("%s holds: %q", from, why)
		}
	}
	none := installed()
	none.Notes = nil
	if got := none.due(testNow.Add(time.Hour)); !same(got, none) {
		t.Errorf("the end of no soak: %+v", got)
	}
	if got := New("j").Ended(); got.Run != nil {
		t.Errorf("the end of no process: %+v", got.Run)
	}
	if got := none.Verified(testNow).Fail("x", testNow).RevertOnStart("x").Observe(wire.ProbeNoop, false, "", testNow).
		Merge(wire.Rollout{ID: ""}, testNow); !same(got, none) {
		t.Errorf("steps without a rollout: %+v", got)
	}
}

// TestProbesOfTheSoak: what a probe's result changes, by what is known about it and about the heartbeat.
func TestProbesOfTheSoak(t *testing.T) {
	type state struct {
		known, pass bool
		fails       int
	}
	unknown, passes, failing := state{}, state{true, true, 0}, state{true, false, 1}
	for _, tc := range []struct {
		probe           string
		was, heart      state
		ok              bool
		pass, noted     bool
		fails           int
		condemned, skip bool // skip: it changes nothing
	}{
		{probe: wire.ProbeNoop, was: unknown, heart: passes, ok: true, pass: true, noted: true},
		{probe: wire.ProbeNoop, was: passes, heart: passes, ok: true, skip: true},
		{probe: wire.ProbeNoop, was: failing, heart: passes, ok: true, pass: true, noted: true},
		{probe: wire.ProbeNoop, was: unknown, heart: passes, fails: 1, noted: true},
		{probe: wire.ProbeNoop, was: passes, heart: passes, fails: 1, noted: true},
		{probe: wire.ProbeNoop, was: failing, heart: passes, fails: 2},
		{probe: wire.ProbeNoop, was: state{true, false, 2}, heart: passes, fails: 3, condemned: true},
		{probe: wire.ProbeTaskWait, was: state{true, false, 1}, heart: passes, fails: 2},
		{probe: wire.ProbeTaskWait, was: state{true, false, 2}, heart: passes, fails: 3, condemned: true},
		{probe: wire.ProbeNoop, was: state{true, false, 2}, heart: failing, skip: true},
		{probe: wire.ProbeNoop, was: unknown, heart: failing, skip: true},
		{probe: wire.ProbeNoop, was: failing, heart: failing, ok: true, pass: true, noted: true},
		{probe: wire.ProbeHeartbeat, was: passes, heart: passes, ok: true, skip: true},
		{probe: wire.ProbeHeartbeat, was: passes, heart: passes, fails: 1, noted: true},
		{probe: wire.ProbeHeartbeat, was: failing, heart: failing, skip: true},
		{probe: wire.ProbeHeartbeat, was: failing, heart: failing, ok: true, pass: true, noted: true},
		{probe: wire.ProbeHeartbeat, was: unknown, heart: unknown, fails: 1, noted: true},
	} {
		j := in(t, wire.RolloutSoaking)
		set := func(probe string, s state) {
			delete(j.Rollout.Probes, probe)
			if s.known {
				j.Rollout.Probes[probe] = wire.ProbeState{Pass: s.pass, Fails: s.fails, At: testNow}
			}
		}
		set(wire.ProbeHeartbeat, tc.heart)
		set(tc.probe, tc.was)
		got := j.Observe(tc.probe, tc.ok, "why", testNow.Add(time.Second))
		if tc.skip {
			if !same(got, j) {
				t.Errorf("%+v: changes %+v", tc, got.Rollout)
			}
			continue
		}
		p := got.Rollout.Probes[tc.probe]
		if p.Pass != tc.pass || p.Fails != tc.fails || !p.At.Equal(testNow.Add(time.Second)) ||
			(len(got.Notes) > 0) != tc.noted || (got.Rollout.Condemned != "") != tc.condemned {
			t.Errorf("%+v: %+v, %d notes, condemned %q", tc, p, len(got.Notes), got.Rollout.Condemned)
		}
		if tc.noted && (got.Notes[0].Facts["probe"] != tc.probe || got.Notes[0].Text != "why" ||
			got.Notes[0].Decision != map[bool]string{true: "probe passes", false: "probe fails"}[tc.ok]) {
			t.Errorf("%+v: note %+v", tc, got.Notes[0])
		}
	}
	for _, from := range states {
		j := in(t, from)
		if got := j.Observe(wire.ProbeNoop, false, "", testNow); same(got, j) != (from != wire.RolloutSoaking) {
			t.Errorf("a probe in %s: %+v", from, got.Rollout)
		}
	}
	j := in(t, wire.RolloutSoaking).RevertOnStart("x")
	if got := j.Observe(wire.ProbeNoop, false, "", testNow); !same(got, j) {
		t.Errorf("a probe of a condemned build: %+v", got.Rollout)
	}
	j = in(t, wire.RolloutSoaking)
	j.Rollout.Probes[wire.ProbeNoop] = wire.ProbeState{Fails: 3}
	j.Rollout.Probes[wire.ProbeHeartbeat] = wire.ProbeState{Fails: 1}
	if got := j.Observe(wire.ProbeTaskWait, true, "", testNow); got.Rollout.Condemned != "" {
		t.Errorf("condemned without the platform's word: %+v", got.Rollout)
	}
}

// TestSoakEnds: at its time and not before, and only while every probe passes.
func TestSoakEnds(t *testing.T) {
	all := []string{wire.ProbeHeartbeat, wire.ProbeTaskWait, wire.ProbeNoop}
	soak := func(failing string) Journal {
		j := in(t, wire.RolloutSoaking)
		for _, p := range all {
			j.Rollout.Probes[p] = wire.ProbeState{Pass: p != failing, At: testNow}
		}
		return j
	}
	until := soak("").Rollout.SoakUntil
	if want := testNow.Add(wire.DefaultSoak); !until.Equal(want) {
		t.Fatalf("until %v, want %v", until, want)
	}
	for after, want := range map[time.Duration]string{-1: wire.RolloutSoaking, 0: wire.RolloutConverged,
		1: wire.RolloutConverged} {
		if got := soak("").due(until.Add(after)).Rollout.State; got != want {
			t.Errorf("%v after its time: %s, want %s", after, got, want)
		}
	}
	for _, p := range all {
		if got := soak(p).due(until); got.Rollout.State != wire.RolloutSoaking {
			t.Errorf("%s fails: %s", p, got.Rollout.State)
		}
	}
	j := soak("")
	j.Skip = []Skipped{{Build: targetBuild}, {Build: wire.Build{SHA256: thirdSHA}}}
	if got := j.due(until); len(got.Skip) != 1 || got.Skip[0].SHA256 != thirdSHA || got.Current == nil ||
		got.Current.Build != targetBuild || got.Current.Task.ID != "t1" || len(got.Notes) != 1 {
		t.Errorf("%+v, current %+v", got.Skip, got.Current)
	}
	j.Package = targetBuild
	if got := j.due(until); got.Current != nil {
		t.Errorf("the package itself: %+v", got.Current)
	}
}

// TestMergeTakesTheNewer: of two results of a probe, the later one counts.
func TestMergeTakesTheNewer(t *testing.T) {
	for name, tc := range map[string]struct {
		ours, theirs time.Duration
		known        bool
		want         bool
	}{
		"unknown here": {0, -time.Hour, false, true}, "newer": {0, 1, true, true}, "as old": {0, 0, true, false},
		"older": {0, -1, true, false},
	} {
		j := in(t, wire.RolloutSoaking)
		if tc.known {
			j.Rollout.Probes[wire.ProbeNoop] = wire.ProbeState{Pass: false, At: testNow.Add(tc.ours)}
		}
		before := len(j.Rollout.Probes)
		got := j.Merge(wire.Rollout{ID: "t1", State: wire.RolloutSoaking, Probes: map[string]wire.ProbeState{
			wire.ProbeNoop: {Pass: true, At: testNow.Add(tc.theirs)}}}, testNow)
		if got.Rollout.Probes[wire.ProbeNoop].Pass != tc.want || len(j.Rollout.Probes) != before {
			t.Errorf("%s: %+v", name, got.Rollout.Probes)
		}
	}
	j := in(t, wire.RolloutSoaking)
	if got := j.Merge(wire.Rollout{ID: "t1", State: wire.RolloutSoaking, Probes: map[string]wire.ProbeState{
		wire.ProbeNoop: {Pass: true}}}, testNow); !got.Rollout.Probes[wire.ProbeNoop].Pass {
		t.Errorf("unknown here, without a time: %+v", got.Rollout.Probes)
	}
	j = in(t, wire.RolloutActivating)
	if got := j.Merge(wire.Rollout{ID: "t1", State: wire.RolloutSoaking, Probes: map[string]wire.ProbeState{
		wire.ProbeNoop: {Pass: true, At: testNow}}}, testNow); !same(got, j) {
		t.Errorf("before the soak: %+v", got.Rollout)
	}
}

// TestAcceptBounds: what is just allowed, and what is just not.
func TestAcceptBounds(t *testing.T) {
	with := func(change func(*wire.SelfUpdatePayload)) wire.SelfUpdatePayload { p := target; change(&p); return p }
	soak := func(s int64) wire.SelfUpdatePayload {
		return with(func(p *wire.SelfUpdatePayload) { p.SoakSeconds = s })
	}
	version := func(n int) wire.SelfUpdatePayload {
		return with(func(p *wire.SelfUpdatePayload) { p.Version = strings.Repeat("v", n) })
	}
	tokened := func(expires time.Duration, profile string) wire.SelfUpdatePayload {
		return with(func(p *wire.SelfUpdatePayload) { p.RecoveryToken = token("n1", profile, testNow.Add(expires)) })
	}
	digest := func(s string) wire.SelfUpdatePayload { return with(func(p *wire.SelfUpdatePayload) { p.SHA256 = s }) }
	verifiers := func(s string) wire.SelfUpdatePayload {
		return with(func(p *wire.SelfUpdatePayload) { p.Verifiers = s })
	}
	impostor := signer{old.id, next.key}
	anywhere := Node{ID: "n1", Keys: keys(old)}
	for name, tc := range map[string]struct {
		payload wire.SelfUpdatePayload
		node    Node
		code    string
	}{
		"no soak":             {soak(0), here, ""},
		"a day's soak":        {soak(86400), here, ""},
		"more than a day's":   {soak(86401), here, CodeInvalid},
		"a long version":      {version(128), here, ""},
		"a longer version":    {version(129), here, CodeInvalid},
		"a good token":        {tokened(1, "lab"), here, ""},
		"a token that ends":   {tokened(0, "lab"), here, CodeToken},
		"any profile":         {tokened(time.Hour, "prod"), anywhere, ""},
		"no hex":              {digest(strings.Repeat("x", 64)), here, CodeInvalid},
		"31 bytes":            {digest(strings.Repeat("ab", 31)), here, CodeInvalid},
		"33 bytes":            {digest(strings.Repeat("ab", 33)), here, CodeInvalid},
		"both keys":           {verifiers(old.text() + "," + next.text()), here, ""},
		"another key's id":    {verifiers(impostor.text()), here, CodeOverlap},
		"no keys":             {verifiers("x"), here, CodeInvalid},
		"a space in the keys": {verifiers(old.text() + ", " + next.text()), here, CodeInvalid},
	} {
		_, refusal := installed().Accept(old.task("t", tc.payload), tc.node, testNow)
		if code := codeOf(refusal); code != tc.code {
			t.Errorf("%s: %q, want %q", name, code, tc.code)
		}
	}
	a, _ := installed().Accept(old.task("t1", target), here, testNow)
	over := installed().Begin(a, testNow).Fail("x", testNow)
	for after, want := range map[time.Duration]string{-1: CodeOver, 0: "", 1: ""} {
		task := old.task("t2", wire.SelfUpdatePayload{Version: "v3", SHA256: thirdSHA})
		task.QueuedAt = task.QueuedAt.Add(after)
		if _, refusal := over.Accept(task, here, testNow); codeOf(refusal) != want {
			t.Errorf("queued %v after the last: %q, want %q", after, codeOf(refusal), want)
		}
	}
}

func codeOf(r *Refusal) string {
	if r == nil {
		return ""
	}
	return r.Code
}

// TestBeginRecordsTheWayBack: the prior build with its permission and keys, and what changes.
func TestBeginRecordsTheWayBack(t *testing.T) {
	for name, tc := range map[string]struct {
		from      Journal
		payload   wire.SelfUpdatePayload
		soak      int64
		prior     wire.Build
		permitted bool
		set       string
		token     string
	}{
		"from the package": {installed(), target, int64(wire.DefaultSoak / time.Second), installedBuild, false,
			keys(old).Version(), "unchanged"},
		"from a committed build": {converged(t), wire.SelfUpdatePayload{Version: "v3", SHA256: thirdSHA, SoakSeconds: 7,
			RecoveryToken: "x", Verifiers: old.text() + "," + next.text()}, 7, targetBuild, true,
			keys(old, next).Version(), "refreshed"},
	} {
		r := tc.from.Begin(Accepted{Task: old.task("t9", tc.payload), Payload: tc.payload, Keys: keys(old)}, testNow).Rollout
		if r.State != wire.RolloutPending || r.SoakSeconds != tc.soak || r.Prior != tc.prior ||
			(r.PriorTask != nil) != tc.permitted || r.VerifierSet != tc.set || r.Token != tc.token ||
			r.Target.SHA256 != tc.payload.SHA256 || r.ID != "t9" || r.CorrelationID != "corr-t9" {
			t.Errorf("%s: %+v", name, r)
		}
		notes := tc.from.Begin(Accepted{Task: old.task("t9", tc.payload), Payload: tc.payload}, testNow).Notes
		if _, crashed := notes[len(notes)-1].Facts["crashes"]; crashed {
			t.Errorf("%s: a crash before the start", name)
		}
	}
}

// TestCrashesAreCounted: an end counts against the target if it was the target that ran, in this boot, and did not
// announce its end.
func TestCrashesAreCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		run  *Run
		want int
	}{
		"none before":   {nil, 0},
		"a crash":       {&Run{Boot: "boot-1", SHA256: targetSHA}, 1},
		"an end":        {&Run{Boot: "boot-1", SHA256: targetSHA, Orderly: true}, 0},
		"another boot":  {&Run{Boot: "boot-0", SHA256: targetSHA}, 0},
		"another build": {&Run{Boot: "boot-1", SHA256: packageSHA}, 0},
	} {
		j := in(t, wire.RolloutActivating)
		j.Run = tc.run
		j, s := Launch(j, installedBuild, host(keys(old)), testNow)
		if j.Rollout.Attempts != tc.want || s.Build != targetBuild || !s.Trial || s.Package ||
			*j.Run != (Run{Boot: "boot-1", SHA256: targetSHA}) || (len(j.Notes) > 0) != (tc.want > 0) {
			t.Errorf("%s: %d crashes, start %+v, run %+v", name, j.Rollout.Attempts, s, j.Run)
		}
		if tc.want > 0 && j.Notes[0].Facts["crashes"] != "1" {
			t.Errorf("%s: the note says %v", name, j.Notes[0].Facts)
		}
	}
}

// TestWhatIsLaunched: the build that a start runs, by the journal's state.
func TestWhatIsLaunched(t *testing.T) {
	replaced := wire.Build{Version: "v9", SHA256: thirdSHA}
	for _, from := range states {
		j := in(t, from)
		j.Rollout.Result, j.Rollout.HeldUnder = "r", host(keys(old)).Material
		got, s := Launch(j, installedBuild, host(keys(old)), testNow)
		trial, held := from == wire.RolloutActivating || from == wire.RolloutSoaking, from == wire.RolloutRebootstrap
		if s.Trial != trial || (s.Build == targetBuild) != trial || s.Package == trial || (s.Hold != "") != held {
			t.Errorf("%s: %+v", from, s)
		}
		if got.Rollout.State != from {
			t.Errorf("%s becomes %s", from, got.Rollout.State)
		}
		got, s = Launch(j, replaced, host(keys(old)), testNow)
		want := from
		if held || slices.Index(states, from) < 4 {
			want = wire.RolloutFailed
		}
		if got.Rollout.State != want || s.Build != replaced || !s.Package || s.Hold != "" || len(got.Notes) == 0 {
			t.Errorf("%s, and an operator's package: %s, %+v", from, got.Rollout.State, s)
		}
	}
	j := in(t, wire.RolloutConverged)
	j.Current = &Trusted{Build: installedBuild}
	if got, s := Launch(j, installedBuild, host(keys(old)), testNow); !s.Package || len(got.Notes) > 0 {
		t.Errorf("the package is the committed build: %+v, %d notes", s, len(got.Notes))
	}
	j = in(t, wire.RolloutActivating)
	j.Rollout.Target, j.Package = installedBuild, installedBuild
	if _, s := Launch(j, installedBuild, host(keys(old)), testNow); !s.Package || !s.Trial {
		t.Errorf("a rotation of keys with the package: %+v", s)
	}
}

// TestTheWayBack: from a condemned target to the prior build, if that is trusted.
func TestTheWayBack(t *testing.T) {
	const gone, untrusted = "is not installed any more", "verifier set is not trusted"
	permission := old.task("t0", wire.SelfUpdatePayload{Version: "v0", SHA256: thirdSHA})
	missing := host(keys(old))
	missing.Check = func(sha string) error { return errors.New("no such file") }
	for name, tc := range map[string]struct {
		change func(*Journal)
		host   Host
		state  string
		pack   bool // the package runs
		hold   bool
		why    string
	}{
		"to the package":                            {nil, host(keys(old)), wire.RolloutReverted, true, false, ""},
		"to the package, other keys":                {nil, host(keys(next)), wire.RolloutRebootstrap, true, true, untrusted},
		"to the package, its file is not looked at": {nil, missing, wire.RolloutReverted, true, false, ""},
		"to a committed build": {func(j *Journal) {
			j.Rollout.Prior, j.Rollout.PriorTask = wire.Build{Version: "v0", SHA256: thirdSHA}, &permission
		}, host(keys(old)), wire.RolloutReverted, false, false, ""},
		"to a committed build without its file": {func(j *Journal) {
			j.Rollout.Prior, j.Rollout.PriorTask = wire.Build{Version: "v0", SHA256: thirdSHA}, &permission
		}, missing, wire.RolloutRebootstrap, true, true, "no such file"},
		"to a package that is gone": {func(j *Journal) {
			j.Rollout.Prior = wire.Build{Version: "v0", SHA256: thirdSHA}
		}, host(keys(old)), wire.RolloutRebootstrap, true, true, gone},
		"one key in common": {func(j *Journal) { j.Rollout.PriorKeys = keys(old, next) }, host(keys(old)),
			wire.RolloutReverted, true, false, ""},
		"to a package that is gone, other keys": {func(j *Journal) {
			j.Rollout.Prior = wire.Build{Version: "v0", SHA256: thirdSHA}
		}, host(keys(next)), wire.RolloutRebootstrap, true, true, gone},
	} {
		j := in(t, wire.RolloutActivating).RevertOnStart("why")
		if tc.change != nil {
			tc.change(&j)
		}
		for i := range maxSkipped {
			j.Skip = append(j.Skip, Skipped{Why: fmt.Sprint(i)})
		}
		got, s := Launch(j, installedBuild, tc.host, testNow)
		if got.Rollout.State != tc.state || s.Package != tc.pack || (s.Hold != "") != tc.hold ||
			(s.Build == installedBuild) != tc.pack || !strings.HasPrefix(got.Rollout.Result, "why") ||
			!strings.Contains(got.Rollout.Result, tc.why) {
			t.Errorf("%s: %s, %+v, %q", name, got.Rollout.State, s, got.Rollout.Result)
		}
		if n := len(got.Skip); n != 16 || got.Skip[n-1].SHA256 != targetSHA || got.Skip[0].Why != "1" {
			t.Errorf("%s: skips %+v", name, got.Skip)
		}
	}
}

// TestWhatIsKept: the files of builds that may run again.
func TestWhatIsKept(t *testing.T) {
	j := in(t, wire.RolloutSoaking)
	j.Current, j.Rollout.Prior = &Trusted{Build: wire.Build{SHA256: "cur"}}, wire.Build{SHA256: "prior"}
	for state, want := range map[string][]string{
		wire.RolloutSoaking: {packageSHA, "cur", "prior", targetSHA}, wire.RolloutFailed: {packageSHA, "cur", "prior"},
	} {
		j.Rollout.State = state
		if got := j.NeededDigests(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
	j.Rollout = nil
	if got := j.NeededDigests(); !slices.Equal(got, []string{packageSHA, "cur"}) {
		t.Errorf("no rollout: %v", got)
	}
}

// TestATargetThatCannotRun: a target whose file is not intact is not started.
func TestATargetThatCannotRun(t *testing.T) {
	missing := host(keys(old))
	missing.Check = func(string) error { return errors.New("no such file") }
	j, s := Launch(in(t, wire.RolloutActivating), installedBuild, missing, testNow)
	if j.Rollout.State != wire.RolloutReverted || s.Build != installedBuild || j.Rollout.Result != "no such file" {
		t.Errorf("%+v, %+v", s, j.Rollout.Rollout)
	}
}

// TestReports: the boot report has the rollout, if there is one, and what is skipped.
func TestReports(t *testing.T) {
	j := in(t, wire.RolloutSoaking)
	j.Skip = []Skipped{{Build: targetBuild}}
	r := j.Report(targetBuild, 7)
	if r.Rollout == nil || r.Rollout.ID != "t1" || r.Running != targetBuild || r.Package != installedBuild ||
		r.NextSeq != 7 ||
		len(r.Skipped) != 1 || r.Hold != "" {
		t.Errorf("%+v", r)
	}
	if r := installed().Report(installedBuild, 1); r.Rollout != nil || len(r.Skipped) != 0 {
		t.Errorf("without a rollout: %+v", r)
	}
	if _, ok := BoundaryOf("other"); ok {
		t.Error("a row for a reason that is in none")
	}
}
