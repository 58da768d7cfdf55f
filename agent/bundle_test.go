package agent

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

const bundleSecret = "bundle-secret-canary"

func newBundle(t *testing.T, ca authority) wire.Bundle {
	t.Helper()
	token, err := wire.Token(wire.TokenClaims{NodeID: testNode, Profile: "lab", IssuedAt: time.Now(),
		ExpiresAt: time.Now().Add(time.Hour)}, bundleSecret)
	must(t, err)
	return wire.Bundle{NodeID: testNode, Token: token, Profile: "lab", APIURL: "https://node-api.new.test",
		TerminalURL: "https://term.new.test", CABundle: ca.pem(), RecoveryCA: ca.pem(), CorrelationID: "corr-1",
		TaskKeys: "k2:" + base64.StdEncoding.EncodeToString(testKey.Public().(ed25519.PublicKey))}
}

func bundleNode(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "agent.env"),
		[]byte("# ours\nGPUAAS_NODE_ID="+testNode+
			"\nGPUAAS_API_URL=https://old.test\nGPUAAS_ENVIRONMENT_PROFILE=lab\nOTHER=1\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, fileBundle), []byte(newAuthority(t, "old CA").pem()), 0o644))
	return Config{Dir: dir, EnvFile: filepath.Join(dir, "agent.env"), StateDir: filepath.Join(dir, "state")}
}

func apply(t *testing.T, cfg Config, b wire.Bundle) (Applied, error) {
	t.Helper()
	text, err := json.Marshal(b)
	must(t, err)
	return ApplyBundle(strings.NewReader(string(text)), cfg, time.Now())
}

func TestApplyBundle(t *testing.T) {
	cfg, ca := bundleNode(t), newAuthority(t, "new CA")
	old := newAuthority(t, "node CA")
	serial := (*fakePlatform)(nil).credentials(t, cfg.Dir, old, time.Now().Add(time.Hour))
	done, err := apply(t, cfg, newBundle(t, ca))
	must(t, err)
	text, err := os.ReadFile(cfg.EnvFile)
	must(t, err)
	env := hostprobe.ParseEnvFile(string(text))
	if env[KeyAPIURL] != "https://node-api.new.test" || env["OTHER"] != "1" ||
		!strings.HasPrefix(string(text), "# ours\n") ||
		env[KeyRecoveryCA] != filepath.Join(cfg.Dir, "recovery-ca.crt") || !strings.Contains(env[KeyToken], bundleSecret) {
		t.Errorf("environment:\n%s", text)
	}
	creds := credentialsIn(cfg.Dir)
	pair, err := creds.Pair()
	must(t, err)
	if bundle, _ := os.ReadFile(creds.Path(fileBundle)); string(bundle) != ca.pem() ||
		pair.Leaf.SerialNumber.Text(16) != serial {
		t.Error("the trust is not the bundle's, or the certificate was lost")
	}
	if was, _ := os.ReadFile(filepath.Join(done.Undo, "agent.env")); !strings.Contains(string(was), "https://old.test") {
		t.Errorf("undo copy: %q", was)
	}
	if said := strings.Join(done.Changes, "\n"); strings.Contains(said, bundleSecret) ||
		!strings.Contains(said, "node-api.new.test") || !strings.Contains(said, "new CA") {
		t.Errorf("it says %s", said)
	}
	if said := scrub.Text(strings.Join(done.Changes, "; ")); !strings.Contains(said,
		"a new enrollment token for node "+testNode+", good until ") {
		t.Errorf("the record says %s", said)
	}
	f := ledgerFile{dir: cfg.StateDir}
	l := f.load(time.Now())
	if len(l.Notes) != 1 || l.Notes[0].Correlation != "corr-1" || l.Notes[0].Reason != diag.RecRecoveryBundle {
		t.Errorf("notes %+v", l.Notes)
	}
	s := newState()
	s.Ledger = l
	s, effects := play(s, Started{})
	if !strings.Contains(effects, "record(recovery_bundle_applied identity update) SaveLedger") {
		t.Error(effects)
	}
	must(t, f.save(s.Ledger, nil))
	if l := (&ledgerFile{dir: cfg.StateDir}).load(time.Now()); len(l.Notes) != 0 {
		t.Errorf("recorded twice: %+v", l.Notes)
	}
}

func TestBundleIsCheckedBeforeAnythingChanges(t *testing.T) {
	ca := newAuthority(t, "new CA")
	for name, spoil := range map[string]func(*wire.Bundle){
		"another node":         func(b *wire.Bundle) { b.NodeID = "node-2" },
		"an opaque token":      func(b *wire.Bundle) { b.Token = bundleSecret },
		"another profile":      func(b *wire.Bundle) { b.Profile = "prod" },
		"plain http":           func(b *wire.Bundle) { b.APIURL = "http://x.test" },
		"no trust":             func(b *wire.Bundle) { b.CABundle = "" },
		"damaged recovery CA":  func(b *wire.Bundle) { b.RecoveryCA = "x" },
		"no task signing keys": func(b *wire.Bundle) { b.TaskKeys = "" },
		"a quote in a URL":     func(b *wire.Bundle) { b.APIURL = `https://x.test/"` },
		"a command in a URL":   func(b *wire.Bundle) { b.RecoveryURL = "https://x.test/$(reboot)" },
		"a line in the keys":   func(b *wire.Bundle) { b.TaskKeys += ",\n" },
		"a line in the token":  func(b *wire.Bundle) { b.Token += "\nOTHER=2" },
		"no profile, and a token for one that the node does not run with": func(b *wire.Bundle) {
			b.Profile = ""
			b.Token, _ = wire.Token(wire.TokenClaims{NodeID: testNode, Profile: "prod", ExpiresAt: time.Now().Add(time.Hour)},
				bundleSecret)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := bundleNode(t)
			before, _ := os.ReadFile(cfg.EnvFile)
			b := newBundle(t, ca)
			spoil(&b)
			_, err := apply(t, cfg, b)
			if !errors.Is(err, ErrBundle) || strings.Contains(err.Error(), bundleSecret) {
				t.Errorf("error %v", err)
			}
			after, _ := os.ReadFile(cfg.EnvFile)
			if entries, _ := os.ReadDir(cfg.Dir); string(before) != string(after) || len(entries) != 2 {
				t.Errorf("something was changed: %v", entries)
			}
		})
	}
}

// TestUndoCopiesAreFew: only a few undo copies are kept, since each may hold a valid token; the copy of the
// current bundle is kept whatever the clock shows.
func TestUndoCopiesAreFew(t *testing.T) {
	cfg, ca := bundleNode(t), newAuthority(t, "new CA")
	undo := filepath.Join(cfg.StateDir, "undo")
	for _, name := range []string{"20200101T000000.000Z", "20200102T000000.000Z", "20990101T000000.000Z",
		"20990102T000000.000Z", "20990103T000000.000Z"} {
		must(t, os.MkdirAll(filepath.Join(undo, name), 0o700))
	}
	done, err := apply(t, cfg, newBundle(t, ca))
	must(t, err)
	if _, err := os.Stat(filepath.Join(done.Undo, "agent.env")); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(undo); len(left) != keepUndos+1 {
		t.Errorf("left: %v", left)
	}
	must(t, os.RemoveAll(filepath.Join(undo, "20990101T000000.000Z")))
	must(t, os.RemoveAll(filepath.Join(undo, "20990102T000000.000Z")))
	must(t, os.RemoveAll(filepath.Join(undo, "20990103T000000.000Z")))
	for range 4 {
		done, err = apply(t, cfg, newBundle(t, ca))
		must(t, err)
		wait.NextMillisecond() // which folders are named by
	}
	left, _ := os.ReadDir(undo)
	if len(left) != keepUndos || filepath.Join(undo, left[keepUndos-1].Name()) != done.Undo {
		t.Errorf("left: %v, the last is %s", left, done.Undo)
	}
}
