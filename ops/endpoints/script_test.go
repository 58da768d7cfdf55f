//go:build linux

package endpoints

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// sh runs a script as a node would, and returns its output.
func sh(t *testing.T, script, input string, args ...string) []string {
	t.Helper()
	tier.NeedsHost(t)
	cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, words.String())
	}
	var said []string
	for line := range strings.Lines(out.String()) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "GPUAASCTL-SENTINEL "); ok {
			said = append(said, rest)
		}
	}
	return said
}

// apply plans lab for the file hosts, and applies the plan.
func apply(t *testing.T, hosts, log string, entries []Entry) error {
	t.Helper()
	s, err := ParseRead(sh(t, ReadScript, "", hosts, log))
	if err != nil {
		return err
	}
	p, err := Make(s.Text, entries)
	if err != nil {
		return err
	}
	if !p.Changed {
		return nil
	}
	line, err := Line{At: time.Unix(0, 0), RunID: "run-1", By: "a'b $(id)\n", Action: "apply", Before: Hash(p.Before),
		After: Hash(p.After), Old: p.Old, New: p.New}.Text()
	if err != nil {
		t.Fatal(err)
	}
	return ParseApply(sh(t, ApplyScript, p.After, hosts, Hash(p.Before), Hash(p.After), log, line), Hash(p.After))
}

func TestApply(t *testing.T) {
	for _, before := range []string{"", local, "127.0.0.1 localhost", strings.Repeat("10.0.0.1 x # a line\r\n", 20000)} {
		hosts, log := files(t, before)
		if err := apply(t, hosts, log, lab); err != nil {
			t.Fatal(err)
		}
		want, _ := Make(before, lab)
		got, err := os.ReadFile(hosts)
		if err != nil || string(got) != want.After {
			t.Fatalf("%v: %d bytes, want %d", err, len(got), len(want.After))
		}
		if st, err := os.Stat(hosts); err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("mode %v, %v", st.Mode(), err)
		}
		s, err := ParseRead(sh(t, ReadScript, "", hosts, log))
		if err != nil || s.Last == nil || s.Last.By != "a'b $(id)\n" || s.Last.After != Hash(want.After) || s.Mode != "640" {
			t.Errorf("%v: %+v", err, s.Last)
		}
		if rest, err := filepath.Glob(filepath.Join(filepath.Dir(hosts), ".hosts*")); err != nil || len(rest) > 0 {
			t.Errorf("left behind: %v %v", rest, err)
		}
	}
}

// TestRefusals: a file that cannot be replaced safely is not replaced, and the error explains why.
func TestRefusals(t *testing.T) {
	tier.NeedsHost(t)
	for _, tc := range []struct {
		name, want string
		spoil      func(t *testing.T, hosts, log string)
	}{
		{"a link", "is a symbolic link", func(t *testing.T, hosts, _ string) {
			must(t, os.Rename(hosts, hosts+".real"))
			must(t, os.Symlink("hosts.real", hosts))
		}},
		{"a folder", "is not a regular file", func(t *testing.T, hosts, _ string) {
			must(t, os.Remove(hosts))
			must(t, os.Mkdir(hosts, 0o755))
		}},
		{"gone", "is not a regular file", func(t *testing.T, hosts, _ string) { must(t, os.Remove(hosts)) }},
		{"no log", "no folder for the audit log", func(t *testing.T, _, log string) {
			must(t, os.WriteFile(filepath.Dir(log), nil, 0o600))
		}},
		{"mounted over", "is mounted from somewhere else", func(t *testing.T, hosts, _ string) {
			if err := exec.Command("mount", "--bind", hosts, hosts).Run(); err != nil {
				t.Skip("skipped: needs root to mount")
			}
			t.Cleanup(func() { must(t, exec.Command("umount", hosts).Run()) })
		}},
		{"immutable", "is immutable", func(t *testing.T, hosts, _ string) {
			if err := exec.Command("chattr", "+i", hosts).Run(); err != nil {
				t.Skip("skipped: needs root and a file system with attributes")
			}
			t.Cleanup(func() { must(t, exec.Command("chattr", "-i", hosts).Run()) })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hosts, log := files(t, local)
			tc.spoil(t, hosts, log)
			if err := apply(t, hosts, log, lab); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestSwap: a file that changed after it was read is not replaced, and an incomplete text is not installed.
func TestSwap(t *testing.T) {
	hosts, log := files(t, local)
	p, err := Make(local, lab)
	must(t, err)
	must(t, os.WriteFile(hosts, []byte("10.0.0.1 mine\n"), 0o644))
	said := sh(t, ApplyScript, p.After, hosts, Hash(p.Before), Hash(p.After), log, "{}")
	if err := ParseApply(said, Hash(p.After)); !errors.Is(err, ErrMoved) {
		t.Errorf("%v: %v", said, err)
	}
	must(t, os.WriteFile(hosts, []byte(local), 0o644))
	said = sh(t, ApplyScript, p.After[:len(p.After)-9], hosts, Hash(p.Before), Hash(p.After), log, "{}")
	if err := ParseApply(said, Hash(p.After)); err == nil || !strings.Contains(err.Error(), "did not arrive complete") {
		t.Errorf("%v: %v", said, err)
	}
	if got, _ := os.ReadFile(hosts); string(got) != local {
		t.Errorf("the file was changed: %q", got)
	}
}

// TestApplyThatIsCutLeavesNothing: if the connection ends while the new text arrives, the new file is removed, although
// nobody is left to read what the script says.
func TestApplyThatIsCutLeavesNothing(t *testing.T) {
	tier.NeedsHost(t)
	hosts, log := files(t, local)
	p, err := Make(local, lab)
	must(t, err)
	cmd := exec.Command("sh", "-c", ApplyScript, "sh", hosts, Hash(p.Before), Hash(p.After), log, "{}")
	cmd.Stdin = strings.NewReader(p.After[:20])
	read, write, err := os.Pipe()
	must(t, err)
	cmd.Stdout = write
	must(t, read.Close())
	_ = cmd.Run() // how it ends does not matter
	must(t, write.Close())
	left, err := filepath.Glob(filepath.Join(filepath.Dir(hosts), ".hosts.gpuaasctl.*"))
	must(t, err)
	if len(left) != 0 {
		t.Errorf("it left %v", left)
	}
	if _, err := os.Stat(log + ".lock"); err != nil {
		t.Errorf("the script did not get as far as its lock: %v", err)
	}
}

// TestAtOnce: of many callers that apply different blocks at once, one block is left, complete, and the log ends with
// it.
func TestAtOnce(t *testing.T) {
	tier.NeedsHost(t)
	hosts, log := files(t, local)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			entries := []Entry{{"node-api.gpuaas.test", fmt.Sprintf("10.0.0.%d", i+1)}}
			err := apply(t, hosts, log, entries)
			for err != nil && strings.Contains(err.Error(), "somebody else is at work") { // for seconds on a busy disk
				err = apply(t, hosts, log, entries)
			}
			if err != nil && !errors.Is(err, ErrMoved) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(hosts)
	must(t, err)
	p, err := Make(string(text), nil)
	if err != nil || p.After != local || len(p.Old) != 1 {
		t.Errorf("%v: %q", err, text)
	}
	s, err := ParseRead(sh(t, ReadScript, "", hosts, log))
	if err != nil || s.Last == nil || s.Last.After != Hash(string(text)) {
		t.Errorf("%v: the log ends with %+v", err, s.Last)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEndedBeforeItWasDone: if the machine crashes between the rename and the line that reports it, the file's digest
// shows that the change was made.
func TestEndedBeforeItWasDone(t *testing.T) {
	hosts, log := files(t, local)
	must(t, apply(t, hosts, log, lab))
	text, err := os.ReadFile(log)
	must(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], `,"done":true}`) {
		t.Fatalf("the log: %q", lines)
	}
	for name, kept := range map[string]string{"whole": lines[0] + lines[1], "not said": lines[0]} {
		must(t, os.WriteFile(log, []byte(kept), 0o600))
		s, err := ParseRead(sh(t, ReadScript, "", hosts, log))
		if err != nil || s.Left == nil || s.Left.Done != (name == "whole") {
			t.Errorf("%s: %v, %+v", name, err, s.Left)
		}
	}
}

// TestReadWhileItIsReplaced: digest and text are of one file, although it is replaced before the text is read.
func TestReadWhileItIsReplaced(t *testing.T) {
	hosts, log := files(t, local)
	bin := t.TempDir()
	stat := "#!/bin/sh\necho 10.0.0.1 other >\"$HOSTS.new\" && mv -f \"$HOSTS.new\" \"$HOSTS\"\nPATH=/usr/bin:/bin exec " +
		"stat \"$@\"\n"
	must(t, os.WriteFile(bin+"/stat", []byte(stat), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("HOSTS", hosts)
	s, err := ParseRead(sh(t, ReadScript, "", hosts, log))
	if err != nil || s.Text != local {
		t.Errorf("%q, %v", s.Text, err)
	}
	if now, err := os.ReadFile(hosts); err != nil || string(now) == local {
		t.Errorf("the file was not replaced: %v", err)
	}
}
