package update

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

var (
	installedBuild = wire.Build{Version: "v1", SHA256: packageSHA}
	targetBuild    = wire.Build{Version: "v2", SHA256: targetSHA}
)

// activating returns a node that is about to start the target for the first time.
func activating(t testing.TB) Journal {
	t.Helper()
	j := installed()
	a, refusal := j.Accept(old.task("t1", target), here, testNow)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return j.Begin(a, testNow).Verified(testNow).Ended().Activating(testNow)
}

// started is activating after the target's first start.
func started(t testing.TB) Journal {
	t.Helper()
	j, s := Launch(activating(t), installedBuild, host(keys(old)), testNow)
	if s.Build != targetBuild || s.Package || !s.Trial {
		t.Fatalf("start %+v", s)
	}
	return j
}

func soaking(t testing.TB) Journal { return started(t).Handshake(targetBuild, targetBuild, testNow) }

func converged(t testing.TB) Journal {
	j := soaking(t)
	for _, p := range [...]string{wire.ProbeTaskWait, wire.ProbeNoop} {
		j = j.Observe(p, true, "", testNow)
	}
	return j.Observe(wire.ProbeHeartbeat, true, "", testNow.Add(time.Hour))
}

func TestAnUpdateConverges(t *testing.T) {
	j := converged(t)
	if j.Rollout.State != wire.RolloutConverged || j.Committed() != targetBuild {
		t.Fatalf("%+v", j.Rollout)
	}
	if _, s := Launch(j, installedBuild, host(keys(old)), testNow); s.Build != targetBuild || s.Trial {
		t.Errorf("start %+v", s)
	}
	var stored []string
	for _, n := range j.Notes {
		stored = append(stored, n.Decision)
		for _, key := range []string{"requested_version", "package_sha256", "verifier_set", "token", "result",
			"rollback_hint"} {
			if n.Facts[key] == "" {
				t.Errorf("the note of %q lacks %s", n.Decision, key)
			}
		}
	}
	want := []string{"accept", "update", "activate", "commit", "probe passes", "probe passes", "converge"}
	if !slices.Equal(stored, want) {
		t.Errorf("reported %q", stored)
	}
}

// TestOnlyTheHandshakeCommits: if the platform names any other build, the rollout does not advance.
func TestOnlyTheHandshakeCommits(t *testing.T) {
	j := started(t)
	for name, c := range map[string]struct{ known, running wire.Build }{
		"the platform names the prior build":     {installedBuild, targetBuild},
		"the platform names nothing":             {wire.Build{}, targetBuild},
		"another process than the target speaks": {targetBuild, installedBuild},
		"the version alone is right":             {wire.Build{Version: "v2", SHA256: thirdSHA}, targetBuild},
	} {
		if got := j.Handshake(c.known, c.running, testNow); got.Rollout.State != wire.RolloutActivating {
			t.Errorf("%s: %s", name, got.Rollout.State)
		}
	}
}

// crash restarts the target after a crash.
func crash(j Journal, h Host) (Journal, Start) { return Launch(j, installedBuild, h, testNow) }

func TestACrashLoopGoesBackAndIsSkipped(t *testing.T) {
	for name, j := range map[string]Journal{"in activate": started(t), "in soak": soaking(t)} {
		t.Run(name, func(t *testing.T) {
			var s Start
			for i := range MaxCrashes {
				if j, s = crash(j, host(keys(old))); i < MaxCrashes-1 && s.Build != targetBuild {
					t.Fatalf("after %d crashes: %+v", i+1, s)
				}
			}
			if j.Rollout.State != wire.RolloutReverted || s.Build != installedBuild || !s.Package || s.Hold != "" {
				t.Fatalf("start %+v, rollout %+v", s, j.Rollout.Rollout)
			}
			if _, refusal := j.Accept(old.task("t2", target), here, testNow); refusal == nil || refusal.Code != CodeSkipped {
				t.Errorf("tried again: %+v", refusal)
			}
			if _, s := Launch(j, installedBuild, host(keys(old)), testNow); s.Build != installedBuild {
				t.Errorf("the next start: %+v", s)
			}
		})
	}
}

// TestNoCrash has the ends of a target that do not count against it.
func TestNoCrash(t *testing.T) {
	rebooted := host(keys(old))
	rebooted.Boot = "boot-2"
	for name, again := range map[string]func(Journal) (Journal, Start){
		"an orderly stop": func(j Journal) (Journal, Start) {
			return Launch(j.Ended(), installedBuild, host(keys(old)), testNow)
		},
		"a power cut": func(j Journal) (Journal, Start) {
			rebooted.Boot += "+"
			return Launch(j, installedBuild, rebooted, testNow)
		},
		"a platform that cannot be reached": func(j Journal) (Journal, Start) {
			for range 100 {
				j = j.Observe(wire.ProbeHeartbeat, false, "api_unreachable", testNow)
				j = j.Observe(wire.ProbeTaskWait, false, "api_unreachable", testNow.Add(time.Hour))
				j = j.Observe(wire.ProbeNoop, false, "api_unreachable", testNow.Add(time.Hour))
			}
			return Launch(j.Ended(), installedBuild, host(keys(old)), testNow)
		},
	} {
		for state, j := range map[string]Journal{"in activate": started(t), "in soak": soaking(t)} {
			for range 20 {
				var s Start
				if j, s = again(j); s.Build != targetBuild || j.Rollout.Attempts != 0 || len(j.Skip) > 0 {
					t.Fatalf("%s %s: %+v, %d crashes", name, state, s, j.Rollout.Attempts)
				}
			}
		}
	}
}

func TestARefusedProbeGoesBack(t *testing.T) {
	for _, probe := range []string{wire.ProbeTaskWait, wire.ProbeNoop} {
		j := soaking(t)
		for range maxProbeFails {
			j = j.Observe(probe, false, "identity_rejected", testNow)
		}
		j, s := Launch(j.Ended(), installedBuild, host(keys(old)), testNow)
		if j.Rollout.State != wire.RolloutReverted || s.Build != installedBuild ||
			!strings.Contains(j.Rollout.Result, probe) {
			t.Errorf("%s: %+v %+v", probe, s, j.Rollout.Rollout)
		}
	}
}

// TestPriorNotTrusted: the prior build is started only while its digest and its verifier set are trusted;
// otherwise the node takes no work and asks for a bootstrap, until an operator has acted.
func TestPriorNotTrusted(t *testing.T) {
	second := converged(t) // v2 is committed, v3 is on trial
	second.Skip = nil
	a, refusal := second.Accept(old.task("t2", wire.SelfUpdatePayload{Version: "v3", SHA256: thirdSHA}), here, testNow)
	if refusal != nil {
		t.Fatal(refusal)
	}
	trying := second.Begin(a, testNow).Verified(testNow).Activating(testNow).RevertOnStart("it does not work")
	damaged := host(keys(old))
	damaged.Check = func(sha string) error {
		if sha == targetSHA {
			return errors.New("another digest")
		}
		return nil
	}
	for name, c := range map[string]struct {
		j Journal
		h Host
	}{
		"its digest is another":           {trying, damaged},
		"its signature's key is gone":     {trying, host(keys(next))},
		"its verifier set is not trusted": {activating(t).RevertOnStart("x"), host(keys(next))},
	} {
		t.Run(name, func(t *testing.T) {
			j, s := Launch(c.j, installedBuild, c.h, testNow)
			if j.Rollout.State != wire.RolloutRebootstrap || s.Hold == "" || !s.Package ||
				!strings.Contains(j.Rollout.RollbackHint, "rebootstrap") {
				t.Fatalf("start %+v, rollout %+v", s, j.Rollout.Rollout)
			}
			if again, s := Launch(j, installedBuild, c.h, testNow); s.Hold == "" || again.HoldReason() == "" {
				t.Error("it does not hold")
			}
			other, s := Launch(j, wire.Build{Version: "v9", SHA256: thirdSHA}, c.h, testNow)
			if s.Hold != "" || other.HoldReason() != "" {
				t.Errorf("an operator's package does not run: %+v", s)
			}
			if j, s := Launch(j, installedBuild, host(keys(old, next)), testNow); s.Hold != "" || j.HoldReason() != "" {
				t.Errorf("an operator's verifier set changes nothing: %+v", s)
			}
		})
	}
}

// TestCommittedNotTrusted: a committed build that has lost its file or its signer is replaced by the operator's
// installed build.
func TestCommittedNotTrusted(t *testing.T) {
	missing := host(keys(old))
	missing.Check = func(string) error { return errors.New("no such file") }
	for name, h := range map[string]Host{"file": missing, "signer": host(keys(next))} {
		j, s := Launch(converged(t), installedBuild, h, testNow)
		if !s.Package || s.Hold != "" || j.Current != nil || j.Notes[len(j.Notes)-1].Reason != diag.RecSelfUpdateReverted {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestVerifiersRotate: keys and token are updated with the running digest; if that fails, the digest is not
// skipped afterwards.
func TestVerifiersRotate(t *testing.T) {
	j := converged(t)
	both := Node{ID: "n1", Keys: keys(old)}
	a, refusal := j.Accept(old.task("t2",
		wire.SelfUpdatePayload{Version: "v2", SHA256: targetSHA, Verifiers: old.text() + "," + next.text()}), both, testNow)
	if refusal != nil {
		t.Fatal(refusal)
	}
	j = j.Begin(a, testNow).Verified(testNow).Ended().Activating(testNow)
	j, s := Launch(j, installedBuild, host(keys(old, next)), testNow)
	if s.Build != targetBuild {
		t.Fatalf("start %+v", s)
	}
	if j.Rollout.VerifierSet != keys(old, next).Version() || j.Rollout.VerifierSet == keys(old).Version() {
		t.Errorf("verifier set %q", j.Rollout.VerifierSet)
	}
	j = j.Handshake(targetBuild, targetBuild, testNow)
	// The old key is removed; the task that was signed with the new key permits the build.
	for _, p := range [...]string{wire.ProbeTaskWait, wire.ProbeNoop} {
		j = j.Observe(p, true, "", testNow)
	}
	j = j.Observe(wire.ProbeHeartbeat, true, "", testNow.Add(time.Hour))
	a, refusal = j.Accept(next.task("t3",
		wire.SelfUpdatePayload{Version: "v2", SHA256: targetSHA, Verifiers: next.text()}),
		Node{ID: "n1", Keys: keys(old, next)}, testNow)
	if refusal != nil {
		t.Fatal(refusal)
	}
	j = j.Begin(a, testNow).Verified(testNow).Ended().Activating(testNow)
	j, s = Launch(j, installedBuild, host(keys(next)), testNow)
	if s.Build != targetBuild {
		t.Fatalf("without the old key: %+v", s)
	}
	j, _ = Launch(j.RevertOnStart("x"), installedBuild, host(keys(next)), testNow)
	if len(j.Skip) != 0 {
		t.Errorf("the running build is skipped: %+v", j.Skip)
	}
}

func TestAnOperatorsPackageRuns(t *testing.T) {
	theirs := wire.Build{Version: "v9", SHA256: thirdSHA}
	for name, j := range map[string]Journal{"in activate": started(t), "in soak": soaking(t), "after": converged(t)} {
		j, s := Launch(j, theirs, host(keys(old)), testNow)
		if s.Build != theirs || !s.Package || j.Active() != nil || j.Committed() != theirs {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestStepsKeepTheirPromises takes random steps in any order.
func TestStepsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, now, rank, keyed := installed(), testNow, 0, map[string]bool{}
		boots := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "s")) * time.Second)
			before := fmt.Sprintf("%#v", j)
			was := j
			verify := func() {
				if fmt.Sprintf("%#v", was) != before {
					t.Fatal("a step changed its receiver")
				}
			}
			known := rapid.SampledFrom([]wire.Build{installedBuild, targetBuild}).Draw(t, "build")
			probe := rapid.SampledFrom([]string{wire.ProbeHeartbeat, wire.ProbeTaskWait, wire.ProbeNoop}).Draw(t, "probe")
			switch rapid.IntRange(0, 8).Draw(t, "step") {
			case 0:
				id := fmt.Sprint("t", rapid.IntRange(1, 3).Draw(t, "task"))
				if a, refusal := j.Accept(old.task(id, target), here, now); refusal == nil && j.Active() == nil {
					j, rank = j.Begin(a, now), 0
				}
			case 1:
				j = j.Verified(now)
			case 2:
				if j.Active() != nil && j.Active().State == wire.RolloutVerified {
					j = j.Activating(now)
				}
			case 3:
				j = j.Handshake(known, known, now)
			case 4:
				j = j.Observe(probe, rapid.Bool().Draw(t, "ok"), "why", now)
			case 5:
				j = j.Fail("why", now)
			case 6:
				j = j.Ended()
			case 7:
				j = j.RevertOnStart("why")
			case 8:
				if rapid.Bool().Draw(t, "reboot") {
					boots++
				}
				h := host(keys(old))
				h.Boot = fmt.Sprint(boots)
				var s Start
				j, s = Launch(j, installedBuild, h, now)
				if s.Build == targetBuild && j.Committed() != targetBuild &&
					wire.RolloutRank(j.Rollout.State) < wire.RolloutRank(wire.RolloutActivating) {
					t.Fatalf("the target runs in state %s", j.Rollout.State)
				}
				if s.Build == targetBuild && j.Skipped(targetSHA) != "" && j.Committed() != targetBuild {
					t.Fatal("a skipped build runs")
				}
			}
			verify()
			if r := j.Rollout; r != nil {
				if got := wire.RolloutRank(r.State); got < rank {
					t.Fatalf("a rollout went back to %s", r.State)
				} else {
					rank = got
				}
			}
			for _, n := range j.Notes {
				keyed[n.Key] = true
			}
			if len(keyed) != j.Noted || len(j.Notes) != j.Noted {
				t.Fatalf("%d notes with %d keys, %d counted", len(j.Notes), len(keyed), j.Noted)
			}
			if len(j.Skip) > maxSkipped {
				t.Fatal("the skip list grows")
			}
		}
		if !reflect.DeepEqual(j, j.clone()) {
			t.Fatal("a clone differs")
		}
	})
}
