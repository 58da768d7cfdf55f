package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/credstore"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// TestTenantHoldsEveryLock: a tenant who has locked every folder and file of the agent that it can open, with systemd's
// default modes and from before the start, stops neither the enrollment, the heartbeats, the ledger nor the end.
func TestTenantHoldsEveryLock(t *testing.T) {
	p := newFakePlatform(t)
	cfg, _ := recoveryConfig(t, p)
	cfg.Token = p.mint(t, nil)
	root := t.TempDir()
	cfg.Dir, cfg.StateDir = filepath.Join(root, "etc"), filepath.Join(root, "lib")
	cfg.MirrorDir = filepath.Join(root, "run")
	cfg.EnvFile = filepath.Join(cfg.Dir, "agent.env")
	for _, dir := range []string{filepath.Join(cfg.Dir, "generations"), cfg.StateDir, cfg.MirrorDir} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(cfg.Dir, fileBundle), []byte(p.ca.pem()), 0o644))
	old := p.credentials(t, cfg.Dir, p.ca, time.Now().Add(-time.Minute)) // a day without a heartbeat: it has to enroll

	for _, round := range []string{"the-first-start", "the-next-one-with-its-files"} {
		if held := durabletest.LockAll(t, root); len(held) < 4 {
			t.Fatalf("%s: only %v are held", round, held)
		}
		stop := start(t, cfg)
		p.served(t, func(s string) bool { return s != old })
		must(t, setEnv(cfg.EnvFile, map[string]string{"A": round}))
		_, err := credentialsIn(cfg.Dir).Replace(func() (credstore.Set, bool, error) { return credstore.Set{}, false, nil })
		must(t, err)
		if took := stop(); took > 5*time.Second { // the unit's TimeoutStopSec=
			t.Errorf("%s: the stop took %v", round, took)
		}
		if l := readLedger(filepath.Join(cfg.StateDir, fileLedger)); l.Written == 0 {
			t.Errorf("%s: no ledger was stored", round)
		}
	}
	if n := p.enrollments(); n != 1 {
		t.Errorf("%d enrollments", n)
	}
}

// TestHeldLedgerCostsAMoment: even a program of root's that holds the ledger's lock does not hold up the agent's loop.
func TestHeldLedgerCostsAMoment(t *testing.T) {
	dir := t.TempDir()
	f := ledgerFile{dir: filepath.Join(dir, "lib"), mirror: filepath.Join(dir, "run")}
	for _, d := range []string{f.dir, f.mirror} {
		durabletest.Hold(t, filepath.Join(d, "."+fileLedger+".new"))
	}
	began := time.Now()
	if err := f.save(Ledger{}, nil); err == nil {
		t.Error("two programs wrote one ledger")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
