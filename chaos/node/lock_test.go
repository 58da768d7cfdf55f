//go:build linux

package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

func TestLock(t *testing.T) {
	ctx := context.Background()
	p := filepath.Join(t.TempDir(), "lock")
	fine(t, makeZeros(p, step.BlockSize))
	unlock, err := lock(ctx, p, time.Second)
	fine(t, err)
	if got := holder(p); got != strconv.Itoa(os.Getpid()) {
		t.Errorf("held by %q", got)
	}
	if !durable.Locked(p) {
		t.Error("not locked")
	}
	var refused *step.Refusal
	if _, err := lock(ctx, p, 20*time.Millisecond); !errors.As(err, &refused) || refused.Code != step.RefusedBusy {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	if durable.Locked(p) {
		t.Error("still locked")
	}
	unlock, err = lock(ctx, p, time.Second)
	fine(t, err)
	fine(t, os.Remove(p)) // the holder may remove the file: the next one must lock the new file
	again, err := lock(ctx, p, time.Second)
	fine(t, err)
	if there, err := os.Stat(p); err != nil || there.Size() == 0 {
		t.Errorf("the lock is on a file that is gone: %v", err)
	}
	again()
	unlock()
}

func TestLease(t *testing.T) {
	p := filepath.Join(t.TempDir(), "lease")
	fine(t, makeZeros(p, step.BlockSize))
	l := lease{p, "boot-1"}
	if got := l.Renewed(); got != 0 {
		t.Errorf("never renewed: %d", got)
	}
	fine(t, l.renew(1234567890123))
	if got := l.Renewed(); got != 1234567890123 {
		t.Errorf("renewed: %d", got)
	}
	if got := (lease{p, "boot-2"}).Renewed(); got != 0 {
		t.Errorf("another boot: %d", got)
	}
	b, err := os.ReadFile(p)
	fine(t, err)
	if len(b) != step.BlockSize {
		t.Errorf("%d bytes", len(b))
	}
	for i := range 60 {
		torn := append([]byte(nil), b...)
		torn[i] ^= 1
		fine(t, os.WriteFile(p, torn, 0o600))
		if got := l.Renewed(); got != 0 {
			t.Errorf("byte %d flipped: %d", i, got)
		}
	}
}
