package main

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/screentest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// atTerminal starts a program on a new terminal, and reads what it draws until done.
func atTerminal(t *testing.T, cmd *exec.Cmd) (far *os.File, drawn func(text string)) {
	t.Helper()
	cmd.Stdout, cmd.Stderr = nil, nil
	far, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = far.Close() })
	seen := ""
	return far, func(text string) {
		t.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(seen, text) {
			n, err := far.Read(buf)
			if seen += string(buf[:n]); err != nil {
				t.Fatalf("%v; %q is not drawn: %q", err, text, seen)
			}
		}
	}
}

// TestViewOnATerminal: the explorer uses the whole screen, and the key q restores the previous one.
func TestViewOnATerminal(t *testing.T) {
	cmd, _ := command(t, "gpuaasctl", "preflight", "view", "../../golden/reports/stale-ca-bundle.json")
	cmd.Env = append(cmd.Env, "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	far, drawn := atTerminal(t, cmd)
	drawn("\x1b[?1049h")
	drawn("blame")
	if _, err := io.WriteString(far, "q"); err != nil {
		t.Fatal(err)
	}
	drawn("\x1b[?1049l")
	go func() { _, _ = io.Copy(io.Discard, far) }()
	if code := waitCode(t, cmd); code != cmdutil.ExitPass {
		t.Errorf("exit code %d", code)
	}
}

// TestViewEndsWithItsTerminal: the view ends when its terminal is closed.
func TestViewEndsWithItsTerminal(t *testing.T) {
	cmd, _ := command(t, "gpuaasctl", "preflight", "view", "../../golden/reports/healthy.json")
	far, drawn := atTerminal(t, cmd)
	drawn("\x1b[?1049h")
	began := time.Now()
	_ = far.Close()
	_ = waitCode(t, cmd)
	if took := time.Since(began); took > atOnce {
		t.Errorf("ended only after %s", took)
	}
}

// TestAWalkWhoseTerminalCloses: the report is written, even if the key v requested the explorer.
func TestAWalkWhoseTerminalCloses(t *testing.T) {
	tier.NeedsHost(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and nothing answers
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "report.json")
	profile := "nodes: {n1: {host: 127.0.0.1}}\nbudgets: {control_plane_access: 1m, node_ops_access: 1m}\nssh: {port: " +
		strconv.Itoa(ln.Addr().(*net.TCPAddr).Port) + "}\n"
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, _ := command(t, "gpuaasctl", "preflight", "--profile", file, "--node-id", "n1", "--api-base",
		"http://"+ln.Addr().String(), "--out", out)
	cmd.Env = append(cmd.Env, "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	cmd.Stdout, cmd.Stderr = nil, nil
	s := screentest.Start(t, cmd)
	s.Await("v explores")
	s.Press("v")
	s.Await("explorer follows")
	s.Close()
	s.Ends(cmdutil.ExitInterrupted)
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var r diag.Report
	err = json.Unmarshal(data, &r)
	if err != nil || r.Run.EndedBy != diag.EndedInterrupted || len(r.Hops) != usualHops {
		t.Errorf("%v; ended by %q with %d hops", err, r.Run.EndedBy, len(r.Hops))
	}
}

// TestChaosViewOnATerminal: a drill from a run's folder, in which a walk opens.
func TestChaosViewOnATerminal(t *testing.T) {
	folder := t.TempDir()
	events, err := os.ReadFile("../../golden/drills/stale-ca-bundle.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	walk := regexp.MustCompile(`"n":2,"stage":"during","walk":"([^"]*)"`).FindSubmatch(events)
	report, err := os.ReadFile("../../golden/reports/stale-ca-bundle.json")
	if err != nil || walk == nil {
		t.Fatal(err, walk)
	}
	report = regexp.MustCompile(`"id": ?"run-[^"]*"`).ReplaceAll(report, []byte(`"id":"`+string(walk[1])+`"`))
	if err := os.Mkdir(filepath.Join(folder, "walks"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"events.ndjson": events, "walks/002.json": report} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd, _ := command(t, "gpuaasctl", "chaos", "view", folder)
	cmd.Env = append(cmd.Env, "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	cmd.Stdout, cmd.Stderr = nil, nil
	s := screentest.Start(t, cmd)
	s.Await("16 of 16 held")
	for _, step := range [][2]string{
		{"/walk 1, before\r", "match 1 of 1"}, {"\r", "not opened: "}, // its report is not there
		{"j", "walk 2, during"}, {"\r", "◀ blame"}, {"q", "walk 2, during"},
	} {
		s.Press(step[0])
		s.Await(step[1])
	}
	s.Press("q")
	s.Ends(cmdutil.ExitPass)
}
