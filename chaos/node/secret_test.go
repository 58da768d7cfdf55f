//go:build linux

package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// TestSecretsStayInMemory searches for a secret in everything that arming writes: it is nowhere on the disk, in
// memory only root can read it, and it is removed once everything is over, whichever process ended the drill. The
// changed file contains it nevertheless.
func TestSecretsStayInMemory(t *testing.T) {
	if !inside(t) {
		return
	}
	for run, end := range map[string]func(*Run) error{
		"put-back": func(r *Run) error { return r.Revert(t.Context(), step.ByCLI, step.WhyAsked) },
		"watched": func(r *Run) error {
			now := r.host.Clock.Now
			r.host.Clock.Now = func() int64 { return now() + int64(time.Minute) } // its time to live is over
			if err := r.Watch(t.Context(), t.Logf); !errors.Is(err, ErrOver) {
				return fmt.Errorf("it is not over: %w", err)
			}
			return nil
		},
	} {
		t.Run(run, func(t *testing.T) { secretStays(t, run, end) })
	}
}

// secretStays runs a drill with that id and that end.
func secretStays(t *testing.T, run string, end func(*Run) error) {
	t.Helper()
	const canary = "GPUAAS-CANARY-7d1f"
	clock, err := HostClock()
	fine(t, err)
	h := Host{Paths: Paths{State: "/mnt/disk/gpuaasctl/drill", Memory: "/run", Units: "/etc/systemd/system"}, Clock: clock,
		Exe: "/bin/true"}
	fine(t, os.MkdirAll(h.Paths.State, 0o700))
	d := step.Drill{Schema: step.Schema, Run: run, Scenario: "s", Node: "n", By: "me", At: time.Now(), TTL: 30_000,
		Steps: []step.Step{{
			ID: "s", Fault: "f", Tier: step.TierBoot, Changes: []step.Change{
				{File: &step.File{Path: "/run/header", Text: canary + " file", Mode: 0o600, Secret: true}},
				{Mount: &step.Mount{Target: "/etc/gpuaas/copy", Text: canary + " mount", Mode: 0o600, Secret: true}},
			}}}}
	r, err := h.prepare(t.Context(), d, Fingerprint{})
	fine(t, err)
	found := func(root string) (all []string) {
		fine(t, filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(p)
			if bytes.Contains(b, []byte("CANARY")) {
				all = append(all, p)
				if fi, _ := e.Info(); fi.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %v", p, fi.Mode())
				}
			}
			return err
		}))
		return all
	}
	for _, disk := range []string{"/mnt", "/etc"} {
		if all := found(disk); len(all) > 0 {
			t.Errorf("armed: it is on the disk: %v", all)
		}
	}
	if fi, err := os.Stat(h.secrets(run)); err != nil || fi.Mode().Perm() != 0o700 || len(found(h.secrets(run))) != 3 {
		t.Errorf("armed: not in memory for root alone: %v %v", fi, err)
	}
	k := r.keeper(step.ByWatchdog)
	fine(t, k.write(step.Entry{Event: step.EventWanted, Step: "s"}), r.lease.renew(clock.Now()))
	_, err = k.Tick(t.Context())
	fine(t, err)
	for p, want := range map[string]string{"/run/header": canary + " file", "/etc/gpuaas/copy": canary + " mount"} {
		if b, err := os.ReadFile(p); err != nil || string(b) != want {
			t.Errorf("%s has %q %v", p, b, err)
		}
	}
	st, err := r.Status(true)
	fine(t, err)
	if b, err := json.Marshal(st); err != nil || bytes.Contains(b, []byte("CANARY")) || len(found("/mnt")) > 0 {
		t.Errorf("made: it is printed, or on the disk: %v %s", err, b)
	}
	fine(t, end(r))
	if got := r.Journal.Ledger.State(); got != step.Reverted {
		t.Errorf("it is %s", got)
	}
	for _, dir := range []string{"/mnt", "/etc", "/run"} {
		if all := found(dir); len(all) > 0 {
			t.Errorf("over: %v", all)
		}
	}
	own := map[string]string{}
	if fine(t, ownMounts(own), ownBeside(own, "/run", "gpuaasctl-", "")); len(own) > 0 {
		t.Errorf("over: %v", own)
	}
}
