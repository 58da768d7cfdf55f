package vantage

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
)

// bare opens a vantage that does not push a helper and does not use sudo.
func bare(t *testing.T, s *sshtest.Server) *Node {
	t.Helper()
	cfg := configFor(t, s)
	cfg.Bare, cfg.SSH.Sudo = true, new(bool)
	return open(t, cfg)
}

// TestStream: arguments arrive unchanged, both streams are returned, and the exit status is the program's.
func TestStream(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	for _, tc := range []struct {
		argv, in, out, errs string
		code                int
	}{
		{"printf|%s.%s|a b; exit 9|$HOME", "", "a b; exit 9.$HOME", "", 0},
		{"sh|-c|echo out; echo err >&2; exit 42", "", "out\n", "err\n", 42},
		{"cat", "passed on", "passed on", "", 0},
	} {
		var out, errs bytes.Buffer
		c := Command{Argv: strings.Split(tc.argv, "|"), Out: &out, Errors: &errs, Most: 1 << 20}
		if tc.in != "" {
			c.Stdin = strings.NewReader(tc.in)
		}
		exit, err := bare(t, s).Stream(within(t, 20*time.Second), c)
		if err != nil || exit.Code != tc.code || out.String() != tc.out || errs.String() != tc.errs {
			t.Errorf("%s: %+v, %v, stdout %q, stderr %q", tc.argv, exit, err, &out, &errs)
		}
	}
}

// TestStreamEnds: Stream abandons a program that floods, one that never ends, and one whose node reports nothing.
func TestStreamEnds(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	var out bytes.Buffer
	_, err := bare(t, s).Stream(within(t, 20*time.Second),
		Command{Argv: []string{"yes"}, Out: &out, Errors: &out, Most: 1000})
	if !errors.Is(err, ErrTooMuch) || out.Len() != 1000 {
		t.Errorf("a flood: %v after %d bytes", err, out.Len())
	}
	for name, fault := range map[string]sshtest.Fault{"endless": sshtest.None, "silent": sshtest.SilentExec,
		"no channel": sshtest.HangAtOpen} {
		s.Set(fault)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := bare(t, s).Stream(ctx, Command{Argv: []string{"sleep", "600"}, Out: &out, Errors: &out, Most: 1000})
		cancel()
		if err == nil || errors.Is(err, ErrTooMuch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Set(sshtest.CloseAtExec)
	if exit, err := bare(t, s).Stream(within(t, 20*time.Second),
		Command{Argv: []string{"true"}, Out: &out, Errors: &out, Most: 1000}); err == nil {
		t.Errorf("a channel that closes without an exit status: %+v", exit)
	}
}
