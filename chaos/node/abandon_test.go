//go:build linux

package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// A drill that died before its first journal entry is removed by name; nothing else is.
func TestAbandonRefuses(t *testing.T) {
	h := Host{Paths: Paths{State: filepath.Join(t.TempDir(), "gpuaasctl", "drill"), Memory: t.TempDir()}}
	if err := os.MkdirAll(h.folder("r1"), 0o700); err != nil {
		t.Fatal(err)
	}
	var refused *step.Refusal
	if err := h.RemoveUnarmed(t.Context(), "r2"); !errors.As(err, &refused) || refused.Code != step.RefusedNone {
		t.Errorf("one that is not there: %v", err)
	}
	if err := makeZeros(filepath.Join(h.folder("r1"), "journal"), step.JournalSize); err != nil {
		t.Fatal(err)
	}
	r, err := h.Open("r1")
	if err != nil {
		t.Fatal(err)
	}
	d := step.Drill{Schema: step.Schema, Run: "r1", Node: "n"}
	if err := r.Journal.Append(step.Entry{Event: step.EventDrill, Note: d.Encode()}); err != nil {
		t.Fatal(err)
	}
	if err := r.CloseFiles(); err != nil {
		t.Fatal(err)
	}
	if err := h.RemoveUnarmed(t.Context(), "r1"); !errors.As(err, &refused) || refused.Code != step.RefusedState {
		t.Errorf("one that could be reverted: %v", err)
	}
	if _, err := os.Stat(h.folder("r1")); err != nil {
		t.Error(err)
	}
}

// TestTidy: the remains of an arming process that died before the drill had a folder are removed, but not those of
// one that is still arming.
func TestTidy(t *testing.T) {
	root := filepath.Join(t.TempDir(), "gpuaasctl")
	h := Host{Paths: Paths{State: filepath.Join(root, "drill"), Memory: t.TempDir()}}
	fine(t, h.RemoveRemains(), os.MkdirAll(h.Paths.State, 0o700))
	unlock, err := lock(t.Context(), h.armLock(), time.Second)
	fine(t, err, h.RemoveRemains())
	if _, err := os.Stat(h.Paths.State); err != nil {
		t.Errorf("while somebody is arming: %v", err)
	}
	unlock()
	fine(t, os.Mkdir(h.folder("r1"), 0o700), h.RemoveRemains())
	if _, err := os.Stat(h.folder("r1")); err != nil {
		t.Errorf("a drill is there: %v", err)
	}
	fine(t, os.Remove(h.folder("r1")), h.RemoveRemains())
	if _, err := os.Stat(root); err == nil {
		t.Error("it is still there")
	}
}
