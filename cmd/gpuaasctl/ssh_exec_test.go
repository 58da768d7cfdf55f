package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
)

// execEnv points the tool at the server, with its host key known and a key to log in with.
func execEnv(t *testing.T, s *sshtest.Server) {
	t.Helper()
	login := s.Login(t)
	for name, value := range map[string]string{
		"SSH_PORT": strconv.Itoa(s.Port), "SSH_KNOWN_HOSTS": login.KnownHosts, "SSH_IDENTITY": login.Identity,
		"NODE_USER": "root",
	} {
		t.Setenv("GPUAASCTL_"+name, value)
	}
}

// TestExecOnANode: the command's arguments arrive unchanged, its streams are returned, and its end is an exit code of
// this tool.
func TestExecOnANode(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	execEnv(t, s)
	for _, tc := range []struct {
		flags, argv []string
		code        int
		out, errs   string
	}{
		{nil, []string{"--", "printf", "%s.", "a b", "$HOME", "it's"}, 0, "a b.$HOME.it's.", ""},
		{nil, []string{"--", "sh", "-c", "echo out; echo err >&2; exit 4"}, cmdutil.ExitFailed, "out\n", "err\n"},
		{nil, []string{"--", "sh", "-c", "exit 4"}, cmdutil.ExitFailed, "", "ended with exit code 4"},
		{nil, []string{"--", "printf", "\033[2Jx"}, 0, `\u001b[2Jx`, ""},
		{[]string{"--stdin"}, []string{"--", "cat"}, 0, "from here", ""},
		{nil, []string{"--", "cat"}, 0, "", ""},
		{[]string{"--deadline", "8s"}, []string{"--", "sleep", "600"}, cmdutil.ExitInconclusive, "", "deadline"},
		{nil, []string{"--"}, cmdutil.ExitUsage, "", "NODE -- COMMAND"},
		{nil, []string{"true"}, cmdutil.ExitUsage, "", "NODE -- COMMAND"},
	} {
		cmd, out := command(t, append(append([]string{"gpuaasctl", "ssh", "exec", "n1", "--node-host", "127.0.0.1"},
			tc.flags...), tc.argv...)...)
		errs := &bytes.Buffer{}
		cmd.Stdin, cmd.Stderr = strings.NewReader("from here"), errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if code := waitCode(t, cmd); code != tc.code || out.String() != tc.out || !strings.Contains(errs.String(), tc.errs) {
			t.Errorf("%v %q: exit code %d, stdout %q, stderr %q", tc.flags, tc.argv, code, out, errs)
		}
	}
	t.Setenv("GPUAASCTL_SSH_KNOWN_HOSTS", filepath.Join(t.TempDir(), "none"))
	if err := os.WriteFile(os.Getenv("GPUAASCTL_SSH_KNOWN_HOSTS"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := len(s.Execs())
	cmd, out := start(t, "gpuaasctl", "ssh", "exec", "n1", "--node-host", "127.0.0.1", "--", "true")
	if code := waitCode(t, cmd); code != cmdutil.ExitInconclusive || out.Len() > 0 || len(s.Execs()) != before {
		t.Errorf("an unknown host key: exit code %d: %s", code, out)
	}
}

// TestExecIsInterrupted: Ctrl-C ends it while the command runs.
func TestExecIsInterrupted(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	execEnv(t, s)
	cmd, _ := command(t, "gpuaasctl", "ssh", "exec", "n1", "--node-host", "127.0.0.1", "--", "sh", "-c",
		"echo runs; exec sleep 600")
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := waitCode(t, cmd); code != cmdutil.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
}
