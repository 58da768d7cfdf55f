package preflightcmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/compare"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

// watchReport returns a walk of two hops of three; one has the given status.
func watchReport(at time.Time, s diag.Status, signal diag.Signal) *diag.Report {
	r := &diag.Report{
		Plan: diag.Plan{Hops: []diag.PlannedHop{{ID: "node_ops_access"}, {ID: "node_readiness"},
			{ID: "gpu_health", Skip: "x"}}},
		Hops: []diag.HopResult{{ID: "node_ops_access", Finding: diag.Finding{Status: diag.StatusPass}},
			{ID: "node_readiness", Finding: diag.Finding{Status: s, Signal: signal, Text: "text"}}},
		Run:     diag.Run{EndedAt: diag.At(at), EndedBy: diag.EndedCompleted},
		Verdict: diag.Verdict{Outcome: diag.Outcome(s)},
	}
	if s == diag.StatusFail {
		r.Verdict.Blame, r.Verdict.Owner = &diag.Blame{Hop: "node_readiness", Signal: signal}, "node"
	}
	return r
}

// watched runs a watch over walks that take a second each, until the last one has begun, and returns its output, its
// bells, and its error.
func watched(t *testing.T, s *watchShow,
	walks ...func(time.Time) *diag.Report) (last *diag.Report, starts []time.Duration, err error) {
	t.Helper()
	began := time.Now()
	ctx, interrupt := context.WithCancel(t.Context())
	w := &watch{every: 30 * time.Second, show: s, each: func(*diag.Report) error { return nil },
		walk: func(ctx context.Context) *diag.Report {
			starts = append(starts, time.Since(began))
			if len(starts) > len(walks) {
				interrupt()
				return &diag.Report{}
			}
			time.Sleep(time.Second)
			return walks[len(starts)-1](time.Now())
		}}
	what := compare.NewWatched(hops.BuiltIn(), walks[0](began).Plan, "n1", 30000, false)
	last, err = w.run(ctx, what)
	return last, starts, err
}

func passing(at time.Time) *diag.Report { return watchReport(at, diag.StatusPass, "") }
func failing(at time.Time) *diag.Report { return watchReport(at, diag.StatusFail, "disk_full") }

// TestWatchShowsOnlyChanges: a partial verdict is marked as partial, unchanged states are not repeated, and an
// interrupted walk does not count.
func TestWatchShowsOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, bell bytes.Buffer
		a := &cmdutil.App{Stdout: &out, Stderr: io.Discard, Env: func(string) string { return "" }}
		s := newWatchShow(a, cmdutil.FormatTable, true)
		s.bell = &bell
		last, starts, err := watched(t, s, passing, passing, failing, failing, passing)
		if !errors.Is(err, context.Canceled) || last == nil || last.Verdict.Outcome != diag.OutcomePass {
			t.Errorf("it ended by %v with %+v", err, last)
		}
		for i, at := range starts {
			if want := time.Duration(i) * 30 * time.Second; at != want {
				t.Errorf("walk %d began after %s, want %s", i, at, want)
			}
		}
		want := `2000-01-01T00:00:00Z  watching n1 every 30s: 2 of 3 hops
Not asked, a watch changes nothing (--full asks it): node_readiness (a write on the node's disks)
Not asked, x: gpu_health
The login is kept between walks, and made again every 10 minutes. Ctrl-C ends the watch.
2000-01-01T00:00:01Z  ✔ verdict: pass of what is asked (2 of 3 hops)
2000-01-01T00:01:01Z  ✘ verdict: fail of what is asked (2 of 3 hops), was pass  blame node_readiness  disk_full  owner node
2000-01-01T00:01:01Z  ✘ fail  node_readiness, was pass  disk_full  text
2000-01-01T00:02:01Z  ✔ verdict: pass of what is asked (2 of 3 hops), was fail disk_full
2000-01-01T00:02:01Z  ✔ pass  node_readiness, was fail disk_full  text
`
		if out.String() != want {
			t.Errorf("it wrote\n%s\nwant\n%s", out.String(), want)
		}
		if bell.String() != "\a\a" {
			t.Errorf("it rang %q", bell.String())
		}
	})
}

// TestWatchOfAllThatIsBuilt: hops that are not implemented are named, but do not make the watch a partial one.
func TestWatchOfAllThatIsBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := &cmdutil.App{Stdout: &out, Stderr: io.Discard, Env: func(string) string { return "" }}
		s := newWatchShow(a, cmdutil.FormatTable, false)
		r := passing(time.Now())
		r.Plan.Hops[2].Skip = "not built yet: it needs x"
		if err := s.begin(compare.NewWatched(hops.BuiltIn(), r.Plan, "n1", 30000, true)); err != nil {
			t.Fatal(err)
		}
		if err := s.walked(nil, r, time.Second); err != nil {
			t.Fatal(err)
		}
		const want = `2000-01-01T00:00:00Z  watching n1 every 30s: 2 hops
Not built yet: gpu_health
The login is kept between walks, and made again every 10 minutes. Ctrl-C ends the watch.
2000-01-01T00:00:00Z  ✔ verdict: pass
`
		if out.String() != want {
			t.Errorf("it wrote\n%s\nwant\n%s", out.String(), want)
		}
	})
}

// TestWatchBeats: on a terminal one line is rewritten, and removed before another line is written.
func TestWatchBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		a := &cmdutil.App{Stdout: &screen, Stderr: io.Discard, Env: func(string) string { return "" }}
		s := newWatchShow(a, cmdutil.FormatTable, false)
		s.live, s.width = &screen, func() int { return 200 }
		if _, _, err := watched(t, s, passing, failing); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if text := screen.String(); !strings.Contains(text, "next in 12s; walk 1 took 1.0 s; no change for 17s") ||
			!strings.HasSuffix(text, "\r\x1b[K") || !strings.Contains(text, "\x1b[K2000-01-01T00:00:31Z  ✘") {
			t.Errorf("%q", text)
		}
	})
}

// TestWatchEvents: every change is a line of JSON; the first line lists the omitted hops.
func TestWatchEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := &cmdutil.App{Stdout: &out, Stderr: io.Discard, Env: func(string) string { return "" }}
		_, _, _ = watched(t, newWatchShow(a, cmdutil.FormatNDJSON, false), failing, failing, passing)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 5 || !strings.Contains(lines[0], `{"hop":"gpu_health","because":"x"}]`) ||
			!strings.Contains(lines[1], `"now":{"status":"fail","hop":"node_readiness","signal":"disk_full"`) ||
			!strings.Contains(lines[1], `"asked":2,"of":3`) ||
			!strings.Contains(lines[4], `"hop":"node_readiness","before":{"status":"fail"`) {
			t.Errorf("%s", out.String())
		}
	})
}

// TestWatchEndsWithItsReader: a write error ends the watch.
func TestWatchEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &cmdutil.App{Stdout: broken{}, Stderr: io.Discard, Env: func(string) string { return "" }}
		_, starts, err := watched(t, newWatchShow(a, cmdutil.FormatNDJSON, false), passing)
		if !errors.Is(err, io.ErrClosedPipe) || len(starts) > 0 {
			t.Errorf("%v after %d walks", err, len(starts))
		}
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
