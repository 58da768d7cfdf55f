//go:build linux

package node

import (
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// spotOf returns a change, after Snapshot.
func spotOf(t *testing.T, s *System, c step.Change, n int) Location {
	t.Helper()
	location := Location{Run: "r", Step: "s", N: n, Change: c}
	note, err := s.Snapshot(context.Background(), location)
	fine(t, err)
	location.Note = note
	looks(t, s, location, Before)
	return location
}

// TestMount mounts over a file and a folder, and unmounts only while no other mount covers that.
func TestMount(t *testing.T) {
	if !inside(t) {
		return
	}
	ctx := context.Background()
	fine(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")) // as on a machine
	defer func() { fine(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")) }()
	s := &System{Dir: "/mnt"}
	for n, m := range []step.Mount{
		{Target: "/etc/hosts", Text: "10.0.0.1 elsewhere\n"}, {Target: "/etc/hosts", Source: "/etc/group"},
		{Target: "/etc/gpuaas", Tmpfs: &step.Tmpfs{Bytes: 65536, Inodes: 4}, Writable: true},
		{Target: "/etc/gpuaas", Source: "/etc/systemd"},
	} {
		before, err := mountItems(ctx, step.Scope{})
		fine(t, err)
		location := spotOf(t, s, step.Change{Mount: &m}, n)
		fine(t, s.Make(ctx, location))
		looks(t, s, location, Injected)
		if err := os.WriteFile(m.Target, []byte("x"), 0o600); !m.Writable && m.Target == "/etc/hosts" &&
			!errors.Is(err, unix.EROFS) {
			t.Errorf("%+v: written: %v", m, err)
		}
		over := "/etc/passwd"
		if m.Target == "/etc/gpuaas" {
			over = "/run"
		}
		fine(t, unix.Mount(over, m.Target, "", unix.MS_BIND, "")) // another process does
		looks(t, s, location, Foreign)
		now, err := mountItems(ctx, step.Scope{})
		fine(t, err)
		if len(now) != len(before)+2 {
			t.Errorf("%+v: what somebody mounts over it is seen elsewhere: %d mounts, %d before", m, len(now), len(before))
		}
		fine(t, unix.Unmount(m.Target, 0))
		fine(t, s.Undo(ctx, location))
		looks(t, s, location, Before)
		after, err := mountItems(ctx, step.Scope{})
		fine(t, err)
		if len(before) != len(after) {
			t.Errorf("%+v: %d mounts before, %d after", m, len(before), len(after))
		}
	}
	if b, err := os.ReadFile("/etc/hosts"); string(b) != "127.0.0.1 localhost\n" {
		t.Errorf("%q %v", b, err)
	}
}

// TestHold fills a file system to the last byte and to the last inode, keeps it full, and releases it.
func TestHold(t *testing.T) {
	if !inside(t) {
		return
	}
	ctx := context.Background()
	leave := int64(0)
	for n, h := range []step.Hold{{Leave: &leave}, {Inodes: true}, {Percent: 90}} {
		fine(t, unix.Mount("small", "/mnt", "tmpfs", 0, "size=1m,nr_inodes=100"))
		fine(t, os.WriteFile("/mnt/log", make([]byte, 100<<10), 0o600))
		h.Dir = "/mnt"
		s := &System{}
		location := spotOf(t, s, step.Change{Hold: &h}, n)
		fine(t, s.Make(ctx, location))
		looks(t, s, location, Injected)
		full := func() bool { return os.WriteFile("/mnt/x", make([]byte, 8192), 0o600) != nil }
		if h.Percent == 0 && !full() {
			t.Errorf("%+v: there is room", h)
		}
		os.Remove("/mnt/x")
		fine(t, os.Remove("/mnt/log")) // a log rotation
		fine(t, s.TopUp(ctx))
		if h.Percent == 0 && !full() {
			t.Errorf("%+v: there is room again", h)
		}
		os.Remove("/mnt/x")
		if want, err := (&holdPlace{Location: location, system: s}).missing(); err != nil || want > 0 {
			t.Errorf("%+v: %d are missing, %v", h, want, err)
		}
		fine(t, s.Undo(ctx, location))
		looks(t, s, location, Before)
		if full() {
			t.Errorf("%+v: it is still full", h)
		}
		fine(t, unix.Unmount("/mnt", 0))
	}
}
