//go:build linux

package inprocess

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the platform's own driver

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// lockDatabase holds the write lock of a platform's database until the end of the test, so that writers wait.
func lockDatabase(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = conn.ExecContext(context.Background(), "ROLLBACK")
		_ = conn.Close()
		_ = db.Close()
	})
}

// impatient shortens the time limit of hops that meet a silent peer. The other hops get their responses, however
// busy the machine is.
func impatient(hops []diag.HopID) func(*profile.Profile) {
	return func(p *profile.Profile) {
		for _, id := range hops {
			p.Budgets[id] = 2500 * time.Millisecond
		}
	}
}

// TestLockedDatabaseIsNoFaultOfTheTerminal: while the platform waits for its database, the API does not respond.
// Failures behind it are symptoms, from every side; the node's owners are not paged. The server decides which requests
// wait for the lock; an API that stalls is in package preflight, in virtual time.
func TestLockedDatabaseIsNoFaultOfTheTerminal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "platform.db")
	w := start(t, options{
		platform: func(o *platformtest.Options) {
			inner := o.Config
			o.Config = func(c *platform.Config) { inner(c); c.Database = path }
		},
		profile: impatient(append(asksTheAPI, diag.HopControlPlaneAccess, diag.HopTerminalTokenMint)),
	})
	lockDatabase(t, path)
	r := w.walk(t)
	blamesTheAPI(t, r)
}

// asksTheAPI lists the hops that wait for an API whose own page and trust page respond.
var asksTheAPI = []diag.HopID{diag.HopAllocationBinding, diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip,
	diag.HopTerminalOpenTask}

// blamesTheAPI checks for an inconclusive verdict at an API hop without a response, with the control plane as
// owner.
func blamesTheAPI(t *testing.T, r *diag.Report) {
	t.Helper()
	v := r.Verdict
	failed := 0
	for _, h := range r.Hops {
		if h.Status == diag.StatusFail {
			failed++
		}
	}
	switch {
	// its own read got no response, so the API is blamed directly
	case resultOf(t, r, diag.HopControlPlaneAccess).Status == diag.StatusFail:
		if v.Outcome != diag.OutcomeFail || v.Blame == nil || v.Blame.Hop != diag.HopControlPlaneAccess {
			t.Errorf("outcome %s, blame %+v\n%s", v.Outcome, v.Blame, describe(r))
		}
	case v.Outcome != diag.OutcomeInconclusive || v.Blame == nil || v.Blame.Status != diag.StatusInconclusive ||
		!slices.Contains(asksTheAPI, v.Blame.Hop):
		t.Errorf("outcome %s, blame %+v\n%s", v.Outcome, v.Blame, describe(r))
	case failed > 0 && len(v.Symptoms) == 0:
		t.Errorf("%d hops failed, and none is a symptom\n%s", failed, describe(r))
	}
	if !strings.HasPrefix(v.Owner, "control plane API") || len(v.Recovery) == 0 {
		t.Errorf("owner %q, steps %q", v.Owner, v.Recovery)
	}
	if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
		t.Errorf("replay: %v", err)
	}
	t.Logf("\n%s", describe(r))
}
