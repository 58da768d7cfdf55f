//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// TestTextControl: the library's own text format, as on the lab's nodes, gives the same values as the mapped file
// that a test makes from it. A replaced text takes effect at once, and raises its events once.
func TestTextControl(t *testing.T) {
	b := buildAll(t)
	paths, err := filepath.Glob(filepath.Join(nvmlDir, "profiles", "*.txt"))
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d profiles: %v", len(paths), err)
	}
	for _, path := range paths {
		profile := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(profile, func(t *testing.T) {
			mapped := newControl(t, profile)
			text := &control{t: t, path: path}
			want, got := b.once(t, b.fake, mapped), b.once(t, b.fake, text)
			if want, got := facts(t, want), facts(t, got); got != want {
				t.Errorf("by the text\n%s\nby the mapped file\n%s", got, want)
			}
		})
	}
	t.Run("changes", func(t *testing.T) {
		before, err := os.ReadFile(filepath.Join(nvmlDir, "profiles", "lab.txt"))
		if err != nil {
			t.Fatal(err)
		}
		c := &control{t: t, path: filepath.Join(t.TempDir(), "nvml")}
		write := func(more string) {
			t.Helper()
			if err := os.WriteFile(c.path+".new", append(before, more...), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(c.path+".new", c.path); err != nil {
				t.Fatal(err)
			}
		}
		heat := func(s *report.Sample) int64 { n, _ := s.GPUs[1].Value(report.Temperature); return n }
		write("")
		r := b.start(t, c, patient)
		r.await("29 C", func(s *report.Sample) bool { return heat(s) == 29 })
		r.event(report.CoverageEvent, "events are waited for", func(*report.Event) bool { return true })
		write("@1 nvmlDeviceGetTemperature 96\n@0 event 8 79\n")
		r.await("96 C", func(s *report.Sample) bool { return heat(s) == 96 })
		r.event(report.XIDEvent, "XID 79", func(e *report.Event) bool { return *e.XID.Code == 79 && *e.GPU.Index == 0 })
		write("@1 nvmlDeviceGetTemperature 97\n@0 event 8 79\n@0 event 8 31\n")
		r.event(report.XIDEvent, "XID 31", func(e *report.Event) bool { return *e.XID.Code == 31 })
		write("@1 nvmlDeviceGetTemperature 30\n")
		r.await("30 C", func(s *report.Sample) bool { return heat(s) == 30 })
		if n := r.count(func(e *report.Event) bool { return e.XID != nil }); n != 2 {
			t.Errorf("%d XIDs, want 79 and 31, each once", n)
		}
	})
}

// facts returns a sample without its time.
func facts(t *testing.T, s *report.Sample) string {
	t.Helper()
	c := *s
	c.At, c.TookMS = time.Time{}, 0
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
