//go:build linux

package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// TestConsentBounds: the last moment in which an owner's consent covers a drill, and the largest difference of clocks.
func TestConsentBounds(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		change func(*Consent, *step.Drill)
		want   string
	}{
		"ends with the drill": {func(c *Consent, _ *step.Drill) { c.Until = now.Add(30 * time.Second) }, ""},
		"ends before": {func(c *Consent, _ *step.Drill) { c.Until = now.Add(30*time.Second - 1) },
			step.RefusedExpired},
		"clock ahead": {func(_ *Consent, d *step.Drill) { d.At = now.Add(-2 * time.Minute) }, ""},
		"clock far ahead": {func(_ *Consent, d *step.Drill) { d.At = now.Add(-2*time.Minute - 1) },
			step.RefusedClock},
		"clock behind": {func(_ *Consent, d *step.Drill) { d.At = now.Add(2 * time.Minute) }, ""},
		"clock far behind": {func(_ *Consent, d *step.Drill) { d.At = now.Add(2*time.Minute + 1) },
			step.RefusedClock},
		"may be lost":             {func(c *Consent, d *step.Drill) { c.Disposable, d.Disposable = true, true }, ""},
		"may be lost, and is not": {func(c *Consent, _ *step.Drill) { c.Disposable = true }, ""},
		"is lost, and may not be": {func(_ *Consent, d *step.Drill) { d.Disposable = true }, step.RefusedDisposable},
		"another node":            {func(_ *Consent, d *step.Drill) { d.Node = "n2" }, step.RefusedNode},
	} {
		c, d := Consent{Node: "n", Until: now.Add(time.Hour)}, step.Drill{Node: "n", At: now, TTL: 30_000}
		tc.change(&c, &d)
		got := ""
		if r := c.Permits(d, now); r != nil {
			got = r.Code
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestConsentLines: every line is understood, or the consent is none.
func TestConsentLines(t *testing.T) {
	const whole = "node = a\nuntil = 2027-01-01T00:00:00Z\n"
	for text, want := range map[string]string{
		whole:                              "",
		whole + "disposable = no":          "",
		"  # a\n\n" + whole:                "",
		whole + "disposable = Yes":         "line 3: disposable: want yes or no",
		whole + "until = 2028-01-01":       "line 3: want key = value, each key once",
		"until = 2027-01-01T00:00:00Z":     "node and until must be there",
		whole + "= x":                      `line 3: no key ""`,
		whole + strings.Repeat("x", 1<<17): "token too long",
	} {
		c, err := ParseConsent(text)
		if (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) || c.Disposable {
			t.Errorf("%.60q: %+v, %v, want %q", text, c, err, want)
		}
	}
}

// TestConsentFile: the file counts only if nobody but root could have written it.
func TestConsentFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "chaos.allow")
	const trusted = "must be a file that only root can write"
	refused := func(name, want string) {
		t.Helper()
		if _, r := readConsent(path); r == nil || r.Code != step.RefusedConsent || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %v, want %q", name, r, want)
		}
	}
	refused("none", "has not agreed")
	fine(t, os.Mkdir(path, 0o700))
	refused("a folder", trusted)
	fine(t, os.Remove(path), os.Symlink("/etc/passwd", path))
	refused("a link", trusted)
	fine(t, os.Remove(path), os.WriteFile(path, []byte("node = a\nuntil = 2027-01-01T00:00:00Z\n"), 0o644))
	if os.Geteuid() != 0 {
		refused("another user's", trusted)
		path = "/etc/passwd" // root's, and no consent
		refused("root's", "line 1: want key = value")
		path = filepath.Join(dir, "chaos.allow", "below a file")
		refused("below a file", "not a directory")
		return
	}
	if c, r := readConsent(path); r != nil || c.Node != "a" {
		t.Errorf("root's: %+v, %v", c, r)
	}
	for mode, ok := range map[fs.FileMode]bool{0o600: true, 0o444: true, 0o664: false, 0o646: false} {
		fine(t, os.Chmod(path, mode))
		if _, r := readConsent(path); (r == nil) != ok {
			t.Errorf("mode %v: %v", mode, r)
		}
	}
	fine(t, os.Chmod(path, 0o600), os.Chown(path, 65534, -1))
	refused("another user's", trusted)
}
