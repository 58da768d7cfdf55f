package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script writes a shell script as a program.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), Program)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAskOfBadPrograms: whatever the program does, the result is an error without a judgement.
func TestAskOfBadPrograms(t *testing.T) {
	const good = `{"schema":1,"version":"v1"`
	for name, tc := range map[string]struct{ text, want string }{
		"another build":  {`cat >/dev/null; echo '{"schema":1,"version":"v2"}'`, `is of build "v2"`},
		"another schema": {`cat >/dev/null; echo '{"schema":2,"version":"v1"}'`, "(schema 2)"},
		"an error": {`cat >/dev/null; echo '` + good + `,"error":"there is no such thing"}'`,
			"there is no such thing"},
		"no JSON":          {`cat >/dev/null; echo hello`, "read the reply"},
		"nothing":          {`cat >/dev/null`, "read the reply"},
		"a failure":        {`cat >/dev/null; echo 'no stack left' >&2; exit 7`, "exit status 7: no stack left"},
		"does not read":    {`exit 3`, "exit status 3"},
		"writes for ever":  {`exec yes`, errTooMuch.Error()},
		"an environment":   {`cat >/dev/null; test -z "$HOME$PATH2" || exit 9; echo '` + good + `,"error":"none"}'`, "none"},
		"two replies":      {`cat >/dev/null; echo '` + good + `}'; echo '` + good + `}'`, "read the reply"},
		"a reply cut off":  {`cat >/dev/null; printf '` + good + `,"judgement":{"health":"HEALTHY"'`, "read the reply"},
		"killed by itself": {`kill -9 $$`, "killed"},
	} {
		r, err := Ask(t.Context(), script(t, tc.text), "v1", Request{Op: OpCheck})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if r.Judgement != nil && r.Error == "" && err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, err := Ask(t.Context(), filepath.Join(t.TempDir(), "none"), "v1", Request{}); err == nil {
		t.Error("a program that is not there")
	}
}

// TestFindRefusesAForeignProgram: it would run with the caller's rights. The sticky folder is a shared machine's /tmp.
func TestFindRefusesAForeignProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	program := script(t, "exit 0")
	dir := filepath.Dir(program)
	if got, err := Find([]string{dir}, nil); got != program || err != nil {
		t.Fatalf("ours: %q %v", got, err)
	}
	if err := errors.Join(os.Chmod(dir, 0o777|os.ModeSticky), os.Chown(program, 65534, -1)); err != nil {
		t.Fatal(err)
	}
	if got, err := Find([]string{dir}, nil); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("another user's: %q %v", got, err)
	}
	if err := errors.Join(os.Chown(program, 0, -1), os.Chmod(program, 0o777)); err != nil {
		t.Fatal(err)
	}
	if got, err := Find([]string{dir}, nil); err == nil || !strings.Contains(err.Error(), "run: chmod go-w "+program) {
		t.Errorf("writable by all: %q %v", got, err)
	}
}

// TestAskEnds: Ask ends with its context, even if the program never does.
func TestAskEnds(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	program := script(t, `: >`+started+`; read -r line; while read -r more </dev/zero; do :; done; exec /bin/sleep 600`)
	go func() {
		_, err := Ask(ctx, program, "v1", Request{})
		done <- err
	}()
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("it has ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFind: Find returns an executable program, in the order of the folders.
func TestFind(t *testing.T) {
	path := script(t, "")
	folder, empty := filepath.Dir(path), t.TempDir()
	if got, err := Find([]string{empty, folder}, nil); err != nil || got != path {
		t.Errorf("%s, %v", got, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Find([]string{folder}, nil); err == nil {
		t.Errorf("%s cannot be run", got)
	}
	if err := os.Mkdir(filepath.Join(empty, Program), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := Find([]string{empty}, nil); err == nil || !strings.Contains(err.Error(), Program) {
		t.Errorf("%s is a folder: %v", got, err)
	}
}

// TestLimited: as much is kept as may be; one byte more is none of it, and stops the writer.
func TestLimited(t *testing.T) {
	stopped := 0
	l := &limited{most: 3, full: func() { stopped++ }}
	for _, text := range []string{"a", "bc"} {
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil || stopped > 0 {
			t.Errorf("%q: %d %v, stopped %d", text, n, err, stopped)
		}
	}
	if n, err := l.Write([]byte("d")); n != 0 || err == nil || stopped != 1 || l.kept.String() != "abc" {
		t.Errorf("%d %v, stopped %d, %q", n, err, stopped, l.kept.String())
	}
}
