package recorder_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// mounted mounts a file system until the end of the test. It skips the test if the machine cannot.
func mounted(t *testing.T, args ...string) string {
	t.Helper()
	tier.NeedsHost(t)
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Skipf("skipped: mount %s: %v %s", strings.Join(args, " "), err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// ext4 creates an ext4 file system of that many MiB in a file.
func ext4(t *testing.T, mib int) (dir, image string) {
	t.Helper()
	tier.NeedsHost(t)
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	image = filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, make([]byte, mib<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", image).CombinedOutput(); err != nil {
		t.Skipf("skipped: mkfs.ext4: %v %s", err, out)
	}
	return mounted(t, "-o", "loop", image), image
}

// fill fills the disk to the last byte.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "another"), []byte("text"), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
}

func here(dir, mirror string) recorder.Config {
	return recorder.Config{Dir: filepath.Join(dir, "gpuaas", "diag"), Mirror: filepath.Join(mirror, "diag"),
		Boot: "boot-1", NodeID: "node-1"}
}

func act(r *recorder.Recorder, n int) error {
	return r.Write(diag.RecordEntry{Reason: diag.RecTaskClaimFailed, About: "task", Decision: "refuse",
		Detail: fmt.Sprint("act ", n)})
}

// TestFullDisk: an existing record takes writes on a disk that is otherwise full, and its reserve makes room for
// more important files.
func TestFullDisk(t *testing.T) {
	for name, mount := range map[string]func(*testing.T) string{
		"ext4":  func(t *testing.T) string { dir, _ := ext4(t, 24); return dir },
		"tmpfs": func(t *testing.T) string { return mounted(t, "-t", "tmpfs", "-o", "size=8m", "tmpfs") },
		"overlay on tmpfs": func(t *testing.T) string {
			base := mounted(t, "-t", "tmpfs", "-o", "size=8m", "tmpfs")
			for _, d := range []string{"lower", "upper", "work"} {
				if err := os.Mkdir(filepath.Join(base, d), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			return mounted(t, "-t", "overlay", "-o",
				fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", base), "overlay")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := mount(t)
			cfg := here(dir, t.TempDir())
			r := recorder.Open(cfg)
			if s := r.Summary(); s["state"] != "ok" || strings.HasPrefix(name, "ext4") != (s["promise"] == "") ||
				s["reserve"] != "" {
				t.Fatalf("summary %v", s)
			}
			fill(t, dir)
			for i := range 300 { // more than a round
				if err := act(r, i); err != nil {
					t.Fatal(err)
				}
			}
			r.Close()
			r = recorder.Open(cfg) // an agent that is restarted on a full disk
			if err := act(r, 300); err != nil {
				t.Fatal(err)
			}
			f := read(t, cfg.Dir)
			if len(f.Damaged) > 0 || f.Entries[len(f.Entries)-1].Detail != "act 300" || len(f.Entries) != record.Slots {
				t.Errorf("%d entries, damaged %v", len(f.Entries), f.Damaged)
			}
			if err := r.ReleaseReserve(); err != nil {
				t.Fatal(err)
			}
			credential := filepath.Join(dir, "credential")
			if err := os.WriteFile(credential, make([]byte, 16<<10), 0o600); err != nil {
				t.Errorf("with the reserve released: %v", err)
			}
			if r.Summary()["reserve"] == "" {
				t.Error("the summary says nothing of the reserve")
			}
			if err := os.Remove(credential); err != nil {
				t.Fatal(err)
			}
			if err := r.RefillReserve(); err != nil || r.Summary()["reserve"] != "" {
				t.Errorf("refilled: %v, %v", err, r.Summary())
			}
		})
	}
}

// TestMadeOnAFullDisk: a record that cannot be created is reported with the right word, and created as soon as
// there is space.
func TestMadeOnAFullDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		mount func(*testing.T) string
		fill  func(*testing.T, string)
		word  diag.Failure
	}{
		"no room": {func(t *testing.T) string { return mounted(t, "-t", "tmpfs", "-o", "size=2m", "tmpfs") }, fill,
			diag.DiskFull},
		"no inodes": {func(t *testing.T) string { return mounted(t, "-t", "tmpfs", "-o", "size=8m,nr_inodes=16", "tmpfs") },
			fillInodes, diag.DiskInodes},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tc.mount(t)
			if err := os.MkdirAll(filepath.Join(dir, "gpuaas", "diag"), 0o700); err != nil {
				t.Fatal(err)
			}
			tc.fill(t, dir)
			cfg, now := here(dir, t.TempDir()), time.Now()
			cfg.Now = func() time.Time { return now }
			r := recorder.Open(cfg)
			if s := r.Summary(); s["state"] != "absent" || !strings.HasPrefix(s["why"], string(tc.word)) {
				t.Fatalf("summary %v", s)
			}
			if err := act(r, 1); err == nil {
				t.Error("accepted without room")
			}
			f, err := record.ReadBoth(os.DirFS(cfg.Dir), os.DirFS(cfg.Mirror))
			if err != nil || len(f.Entries) != 2 || f.Entries[1].Detail != "act 1" || f.Degraded == "" ||
				f.Source != record.SourceMirror {
				t.Errorf("read meanwhile: %v %+v", err, f)
			}
			names, err := filepath.Glob(filepath.Join(dir, "fill*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range names {
				if err := os.Remove(n); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(time.Hour)
			if err := act(r, 2); err != nil || r.Summary()["state"] != "ok" {
				t.Fatalf("with room: %v %v", err, r.Summary())
			}
			if a := amounts(read(t, cfg.Dir)); a[decision{diag.RecTaskClaimFailed, "task", "refuse", "act 1"}][0] != 1 {
				t.Errorf("what was decided before is lost: %v", a)
			}
		})
	}
}

func fillInodes(t *testing.T, dir string) {
	t.Helper()
	for i := range 100 {
		err := os.WriteFile(filepath.Join(dir, fmt.Sprint("fill", i)), nil, 0o600)
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("inodes do not end")
}

// TestADiskThatTurnsReadOnly: the disk becomes read-only under the running agent, as after a disk error, with
// files open. That is reported, and all later decisions are on the disk once it was repaired and mounted again.
func TestADiskThatTurnsReadOnly(t *testing.T) {
	tier.NeedsHost(t)
	dir, image := ext4(t, 24)
	cfg, now := here(dir, t.TempDir()), time.Now()
	cfg.Now = func() time.Time { return now }
	r := recorder.Open(cfg)
	if err := act(r, 1); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("skipped: %v: %v %s", args, err, out)
		}
	}
	run("mount", "-o", "remount,abort", dir)
	if err := act(r, 2); err == nil || r.Summary()["state"] != "degraded" ||
		!strings.HasPrefix(r.Summary()["why"], string(diag.DiskReadOnly)) {
		t.Fatalf("read-only: %v %v", err, r.Summary())
	}
	if f, err := record.ReadBoth(os.DirFS(cfg.Dir), os.DirFS(cfg.Mirror)); err != nil || len(f.Entries) != 3 ||
		f.Entries[1].Detail != "act 2" || !strings.Contains(f.Degraded, "read-only") {
		t.Errorf("read meanwhile: %v, degraded %q, %+v", err, f.Degraded, f.Entries)
	}
	run("umount", dir)
	_ = exec.Command("e2fsck", "-fy", image).Run() // its exit code reports what it repaired
	run("mount", "-o", "loop", image, dir)
	now = now.Add(time.Hour)
	if err := act(r, 3); err != nil {
		t.Fatal(err)
	}
	f := read(t, cfg.Dir)
	var got []string
	for _, e := range f.Entries {
		got = append(got, e.Decision)
	}
	if fmt.Sprint(got) != "[refuse refuse degraded refuse recovered]" || f.Degraded != "" || len(f.Damaged) > 0 {
		t.Errorf("%v, degraded %q", got, f.Degraded)
	}
	r.Close()
}

// TestOneWriter: a second process changes nothing, reports that, and takes over when the first has ended.
func TestOneWriter(t *testing.T) {
	cfg, now := here(t.TempDir(), t.TempDir()), time.Now()
	cfg.Now = func() time.Time { return now }
	first, second := recorder.Open(cfg), recorder.Open(cfg)
	for i := range 300 {
		if err := act(first, i); err != nil {
			t.Fatal(err)
		}
	}
	if s := second.Summary(); s["state"] == "ok" || !strings.Contains(s["why"], "another process") {
		t.Errorf("summary %v", s)
	}
	if err := act(second, 300); err == nil {
		t.Error("two write one record")
	}
	first.Close()
	now = now.Add(time.Minute)
	for i := 301; i < 303; i++ {
		if err := act(second, i); err != nil {
			t.Fatal(err)
		}
	}
	second.Close()
	f := read(t, cfg.Dir)
	if len(f.Damaged) > 0 || len(f.Entries) != record.Slots || f.Missing > 0 ||
		f.Entries[record.Slots-1].Detail != "act 302" || f.Degraded != "" {
		t.Errorf("%d entries, %d missing, %+v", len(f.Entries), f.Missing, f.Entries[record.Slots-4:])
	}
}

// TestADiskThatIsReadOnly: on a disk that is read-only before the agent starts, its content and new decisions form
// one record.
func TestADiskThatIsReadOnly(t *testing.T) {
	tier.NeedsHost(t)
	dir := mounted(t, "-t", "tmpfs", "-o", "size=8m", "tmpfs")
	cfg := here(dir, t.TempDir())
	r := recorder.Open(cfg)
	if err := act(r, 1); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Skipf("skipped: remount: %v %s", err, out)
	}
	cfg.Mirror, cfg.Boot = t.TempDir(), "boot-2"
	r = recorder.Open(cfg)
	defer r.Close()
	if err := act(r, 2); err == nil || !strings.HasPrefix(r.Summary()["why"], string(diag.DiskReadOnly)) {
		t.Errorf("read-only: %v %v", err, r.Summary())
	}
	f, err := record.ReadBoth(os.DirFS(cfg.Dir), os.DirFS(cfg.Mirror))
	var got []string
	for _, e := range f.Entries {
		got = append(got, e.BootID+" "+e.Decision)
	}
	if err != nil || strings.Join(got, ", ") != "boot-1 refuse, boot-2 degraded, boot-2 refuse" || f.Degraded == "" {
		t.Errorf("%v: %v, degraded %q", err, got, f.Degraded)
	}
}
