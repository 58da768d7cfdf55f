package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/update"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// bootOf returns a node whose update is about to be started.
func bootOf(t *testing.T, d durable.Dir) (*Boot, *node) {
	t.Helper()
	n := newNode(t, d, nil, t.TempDir())
	b := openBoot(d, slog.New(slog.DiscardHandler), n)
	b.launch(crashPackage, crashKeys)
	a, refusal := b.keeper.Journal().Accept(*crashTask(), update.Node{ID: "n1", Keys: crashKeys}, time.Now())
	if refusal != nil {
		t.Fatal(refusal)
	}
	b.step(func(j update.Journal) update.Journal { return j.Begin(a, time.Now()) })
	get := func(_ context.Context, _ string, take func(io.Reader) error) error {
		return take(strings.NewReader(string(crashProgram)))
	}
	if err := errors.Join(b.prepare(t.Context(), get, a), b.activate(n.env, a.Payload)); err != nil {
		t.Fatal(err)
	}
	b.step(update.Journal.Ended)
	return b, n
}

// TestABuildThatCannotBeStarted: a folder mounted noexec ends the rollout at once, and the installed program keeps
// running.
func TestABuildThatCannotBeStarted(t *testing.T) {
	b, n := bootOf(t, inMemory())
	tries := 0
	b.exec = func(string, []string, []string) error {
		if last := n.records[len(n.records)-1]; last.What != "start another build" {
			t.Errorf("started before it was recorded: %+v", last)
		}
		tries++
		return os.ErrPermission
	}
	b.launch(crashPackage, crashKeys)
	r := b.keeper.Journal().Rollout
	if tries != 1 || b.Running != crashPackage || r.State != wire.RolloutReverted ||
		!strings.Contains(r.Result, "cannot be started") {
		t.Errorf("%d tries, %s runs, rollout %+v", tries, b.Running.Version, r.Rollout)
	}
}

// inMemory returns an empty folder in memory.
func inMemory() durable.Dir {
	d, _ := durabletest.NewDir()
	return d
}

// TestWhatCannotBeCountedIsNotTried: on a full disk, where crashes cannot be counted, no new build is tried.
func TestWhatCannotBeCountedIsNotTried(t *testing.T) {
	disk := durabletest.New(false)
	d := durable.Dir{FS: disk, Root: "/state"}
	_, n := bootOf(t, d)
	disk.Fault = func(string, string) error { return syscall.ENOSPC }
	b := openBoot(d, slog.New(slog.DiscardHandler), n)
	b.exec = func(string, []string, []string) error { t.Error("the target is started"); return nil }
	b.launch(crashPackage, crashKeys)
	if b.Running != crashPackage || b.Hold != "" {
		t.Errorf("%+v runs", b.Running)
	}
	said := false
	for _, d := range n.records {
		said = said || (d.Reason == "record_degraded" && strings.Contains(d.Detail, "no space"))
	}
	if !said {
		t.Error("the record does not say so")
	}
}

// TestOnHoldNoWorkIsTaken: a node on hold reports, and does nothing else.
func TestOnHoldNoWorkIsTaken(t *testing.T) {
	s := newState()
	s.Phase, s.Hold = PhaseGate, "the prior build is not trusted"
	s.Heartbeat.InFlight = true
	s, effects := Step(s, Event{What: HeartbeatDone{}})
	for _, e := range effects {
		if _, ok := e.(WaitTask); ok {
			t.Error("it asks for work")
		}
	}
	if s.Posture() != wire.PostureStopped {
		t.Errorf("posture %s", s.Posture())
	}
}

// TestABrokenTransferIsTriedAgain, and a wrong package is not.
func TestABrokenTransferIsTriedAgain(t *testing.T) {
	b := openBoot(inMemory(), slog.New(slog.DiscardHandler), &node{t: t})
	tries := 0
	get := func(_ context.Context, _ string, take func(io.Reader) error) error {
		if tries++; tries == 1 {
			return take(transfer{io.MultiReader(strings.NewReader("half"), failing{})})
		}
		return take(strings.NewReader(string(crashProgram)))
	}
	if err := b.fetch(t.Context(), crashTarget.SHA256, get); err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 1
	other := strings.Repeat("0", 64)
	if err := b.fetch(t.Context(), other, get); !errors.Is(err, update.ErrDigest) || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
	if b.packages.Check(other) == nil {
		t.Error("a wrong package lies there")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

// TestAnotherMachinesProgram is refused before it gets its name.
func TestAnotherMachinesProgram(t *testing.T) {
	b := openBoot(inMemory(), slog.New(slog.DiscardHandler), &node{t: t})
	for _, text := range []string{"#!/bin/sh\nexit 0\n", "", "\x7fELF\x01\x01\x01" + strings.Repeat("\x00", 40)} {
		get := func(_ context.Context, _ string, take func(io.Reader) error) error {
			return take(strings.NewReader(text))
		}
		if err := b.fetch(t.Context(), hexOf([]byte(text)), get); err == nil || b.packages.Check(hexOf([]byte(text))) == nil {
			t.Errorf("%q is taken for a program", text)
		}
	}
}

// TestTheNextProcessGetsTheTokenOfNow: the next process takes its environment for the file's content, so it must
// get the current token, and not one that a rotation or an operator has replaced since this process started.
func TestTheNextProcessGetsTheTokenOfNow(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"untouched": {KeyToken + "=before\n", "before"},
		"rotated":   {KeyToken + "=of-now\n", "of-now"},
		"taken":     {"OTHER=1\n", ""},
		"no file":   {"", "before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(KeyToken, "before")
			cfg := Config{Dir: t.TempDir()}.withDefaults()
			must(t, os.WriteFile(cfg.EnvFile, []byte(KeyToken+"=before\n"), 0o600))
			installed := t.TempDir() + "/installed"
			b, err := OpenBoot(cfg, func(string) string { return installed })
			must(t, err)
			if name != "untouched" {
				must(t, os.Remove(cfg.EnvFile))
			}
			if name != "untouched" && tc.text != "" {
				must(t, os.WriteFile(cfg.EnvFile, []byte(tc.text), 0o600))
			}
			var given []string
			b.exec = func(_ string, _, env []string) error {
				for _, kv := range env {
					if v, ok := strings.CutPrefix(kv, KeyToken+"="); ok {
						given = append(given, v)
					}
				}
				return os.ErrPermission
			}
			b.restart = "self-update"
			if err := b.Reexec(); err == nil || strings.Join(given, " ") != tc.want {
				t.Errorf("%v, given %q", err, given)
			}
		})
	}
}
