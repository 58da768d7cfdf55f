package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
)

// trustEnv points the tool at the server and at the test's own known_hosts file.
func trustEnv(t *testing.T, s *sshtest.Server) (known string) {
	t.Helper()
	known = filepath.Join(t.TempDir(), "ssh", "known_hosts")
	t.Setenv("GPUAASCTL_SSH_PORT", strconv.Itoa(s.Port))
	t.Setenv("GPUAASCTL_SSH_KNOWN_HOSTS", known)
	return known
}

func TestTrustAcceptsAFirstKeyAndNeverAnother(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	known := trustEnv(t, s)
	cmd, out := start(t, "gpuaasctl", "ssh", "trust", "127.0.0.1", "--confirm", "127.0.0.1")
	if code := waitCode(t, cmd); code != 0 || !strings.Contains(out.String(), "127.0.0.1 accepted: ssh-ed25519 SHA256:") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	text, err := os.ReadFile(known)
	if err != nil || bytes.Count(text, []byte("\n")) != 1 {
		t.Fatalf("known_hosts is %q, %v", text, err)
	}
	cmd, out = start(t, "gpuaasctl", "ssh", "trust", "127.0.0.1", "--confirm", "127.0.0.1")
	if code := waitCode(t, cmd); code != 0 || !strings.Contains(out.String(), "127.0.0.1 was known") {
		t.Errorf("exit code %d: %s", code, out)
	}

	other := sshtest.Start(t, sshtest.Config{}) // another key on the known address
	// The address is written again: it is hashed where the machine's ssh_config says HashKnownHosts.
	_, key, _ := strings.Cut(string(text), " ")
	moved := fmt.Sprintf("[127.0.0.1]:%d %s", other.Port, key)
	if err := os.WriteFile(known, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUAASCTL_SSH_PORT", strconv.Itoa(other.Port))
	cmd, out = start(t, "gpuaasctl", "ssh", "trust", "127.0.0.1", "--confirm", "127.0.0.1")
	if code := waitCode(t, cmd); code != cmdutil.ExitFailed || out.Len() != 0 {
		t.Errorf("a changed key: exit code %d: %s", code, out)
	}
	if now, _ := os.ReadFile(known); string(now) != moved {
		t.Errorf("a changed key was written: %s", now)
	}
}

func TestTrustWithoutAnybodyToAskWantsConfirm(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	known := trustEnv(t, s)
	for _, args := range [][]string{{"trust", "127.0.0.1"}, {"trust", "127.0.0.1", "--confirm", "other"}} {
		cmd, _ := command(t, append([]string{"gpuaasctl", "ssh"}, args...)...)
		var wrote strings.Builder
		cmd.Stderr = &wrote
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if code := waitCode(t, cmd); code != cmdutil.ExitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
		if shown := strings.Contains(wrote.String(), "host key SHA256:"); shown != (len(args) == 2) {
			t.Errorf("%v: a fingerprint is shown: %t: %s", args, shown, wrote.String())
		}
	}
	if _, err := os.Stat(known); err == nil {
		t.Error("a key was written")
	}
}

// onTerminal runs a program on a terminal of 80x24, types into it after its first output, and returns all output.
func onTerminal(t *testing.T, typed string, args ...string) (string, int) {
	t.Helper()
	cmd, _ := command(t, args...)
	cmd.Stdout, cmd.Stderr = nil, nil
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var out bytes.Buffer
	buf := make([]byte, 4096)
	if err := tty.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		t.Logf("no deadline on this terminal: %v", err)
	}
	for {
		n, err := tty.Read(buf)
		out.Write(buf[:n])
		asked := bytes.Contains(out.Bytes(), []byte("to accept it:")) || bytes.Contains(out.Bytes(), []byte("1 of 5:"))
		if typed != "" && asked {
			if _, err := tty.WriteString(typed); err != nil {
				t.Fatal(err)
			}
			typed = ""
		}
		if err != nil { // EIO is a terminal's end of file
			break
		}
	}
	return out.String(), waitCode(t, cmd)
}

func TestTrustAsksOnATerminal(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	known := trustEnv(t, s)
	out, code := onTerminal(t, "yes\n", "gpuaasctl", "ssh", "trust", "127.0.0.1")
	if code != cmdutil.ExitUsage || !strings.Contains(out, "the key was not accepted") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if _, err := os.Stat(known); err == nil {
		t.Error("a key was written without its node's name")
	}
	out, code = onTerminal(t, "127.0.0.1\n", "gpuaasctl", "ssh", "trust", "127.0.0.1")
	if code != 0 || !strings.Contains(out, "shows the host key SHA256:") ||
		!strings.Contains(out, "127.0.0.1 accepted: ssh-ed25519") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestInterruptEndsAQuestion: Ctrl-C ends a command that waits for an answer.
func TestInterruptEndsAQuestion(t *testing.T) {
	trustEnv(t, sshtest.Start(t, sshtest.Config{}))
	for _, args := range [][]string{{"ssh", "trust", "127.0.0.1"}, {"profile", "init", "new"}} {
		if out, code := onTerminal(t, "\x03", append([]string{"gpuaasctl"}, args...)...); code != cmdutil.ExitInterrupted {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
}

// On a terminal the table is drawn, and it shows the same verdict as a pipe.
func TestWalkOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("LANG", "C.UTF-8")
	args := []string{"gpuaasctl", "preflight", "--node-id", "n1", "--api-base", "http://127.0.0.1:1", "--only",
		"control_plane_access"}
	for _, noColor := range []string{"", "1"} {
		t.Setenv("NO_COLOR", noColor)
		out, code := onTerminal(t, "", args...)
		if code != cmdutil.ExitFailed || !strings.Contains(out, "control_plane_api_unreachable") ||
			!strings.Contains(out, "FAIL") {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		if coloured := strings.Contains(out, "\x1b[31m") || strings.Contains(out, "\x1b[1;31m"); coloured == (noColor != "") {
			t.Errorf("NO_COLOR=%q, coloured %t:\n%q", noColor, coloured, out)
		}
	}
}
