//go:build linux

package inprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

const (
	interruptions = 100
	// soon bounds the end of an interrupted walk, including closing its vantages: a second, plus what a machine
	// needs that runs all the other tests. A hop's budget is longer, see patient.
	soon = 20 * time.Second
)

// TestInterruptedAnywhere: a walk that is ended at a random moment, by its caller or by its deadline, ends at
// once, never counts as a pass, and gets the same verdict when replayed.
func TestInterruptedAnywhere(t *testing.T) {
	t.Parallel()
	w := start(t, options{})
	began := time.Now()
	for range 3 {
		w.walk(t)
	}
	typical := time.Since(began) / 3
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, a walk takes %s", seed, typical)
	roll := rand.New(rand.NewPCG(seed, 0))
	cut := 0
	n := deepOr(interruptions, interruptions/5)
	// Run more walks if most ended by themselves: walks have become faster since the first ones.
	for i := 0; i < n || (cut < n/4 && i < 20*n); i++ {
		after := time.Duration(roll.Int64N(int64(typical) * 3 / 4))
		ctx, cancel := context.WithCancel(context.Background())
		want := diag.EndedInterrupted
		if i%2 == 0 {
			ctx, cancel = context.WithTimeout(context.Background(), after)
			want = diag.EndedDeadline
		}
		timer := time.AfterFunc(after, cancel)
		j := w.prepare(t)
		begun := time.Now()
		r := j.run(ctx, t)
		late := time.Since(begun) - after
		timer.Stop()
		cancel()
		if late > soon {
			t.Errorf("seed %d, run %d: ended %s by %s, %s after it was interrupted (close: %s)\n%s", seed, i, j.took,
				r.Run.EndedBy,
				late, j.closeTook, spans(r))
		}
		if r.Run.EndedBy == diag.EndedCompleted {
			typical = typical * 9 / 10 // the machine was busy only at first
			continue
		}
		cut++
		if r.Run.EndedBy != want && i%2 == 1 {
			t.Errorf("seed %d, run %d: ended by %s, want %s", seed, i, r.Run.EndedBy, want)
		}
		if r.Verdict.Outcome != diag.OutcomeInconclusive || r.Verdict.Blame != nil {
			t.Errorf("seed %d, run %d, after %s: a healthy world that was not looked at to the end is %s\n%s", seed, i, after,
				r.Verdict.Outcome, describe(r))
		}
		checkReplay(t, r)
	}
	t.Logf("%d walks were cut short", cut)
	if cut < n/4 {
		t.Errorf("only %d walks were cut short", cut)
	}
}

// checkReplay writes a report, reads it back, and judges it: the bytes must be the same.
func checkReplay(t *testing.T, r *diag.Report) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var read diag.Report
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	again, err := verdict.Replay(hops.BuiltIn(), &read)
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	replayed, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, replayed) {
		t.Errorf("replayed otherwise:\n%s\n%s", text, replayed)
	}
}

// spans lists when each fact was begun and how long it took, in milliseconds.
func spans(r *diag.Report) string {
	var b strings.Builder
	for _, f := range r.Facts {
		fmt.Fprintf(&b, "%6d +%-6d %s %s\n", f.OffsetMS, f.DurationMS, f.ID, f.Failure)
	}
	return b.String()
}
