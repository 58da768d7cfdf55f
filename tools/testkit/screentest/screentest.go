// Package screentest runs a program on a pseudo-terminal, presses keys and reads the screen. Its callers are tests.
package screentest

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// patience is the timeout for expected output, on a machine that is busy with other tests.
const patience = 3 * time.Minute

// Terminal is a program on a terminal of 80 by 24.
type Terminal struct {
	t   testing.TB
	far *os.File
	cmd *exec.Cmd

	mu   sync.Mutex // guards text
	text strings.Builder
}

// Start starts a program on a new terminal. The program ends with the test.
func Start(t testing.TB, cmd *exec.Cmd) *Terminal {
	t.Helper()
	tier.NeedsHost(t)
	far, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	s := &Terminal{t: t, far: far, cmd: cmd}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(s, far) // ends with EIO when the program has ended
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // in case the test failed before its end
		_ = far.Close()
		<-read
	})
	return s
}

// Write implements io.Writer for what the program draws.
func (s *Terminal) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *Terminal) drawn() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ansi.Strip(s.text.String())
}

// last returns the end of what was drawn.
func (s *Terminal) last() string {
	text := s.drawn()
	return text[max(0, len(text)-3000):]
}

// Await returns when text is on the screen. Programs only draw what differs, so Await resizes the terminal until a
// complete screen has the text.
func (s *Terminal) Await(text string) {
	s.t.Helper()
	rows := uint16(24)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if strings.Contains(s.drawn(), text) {
			return
		}
		rows = 49 - rows // 24 or 25
		_ = pty.Setsize(s.far, &pty.Winsize{Rows: rows, Cols: 80})
	}
	s.t.Fatalf("%q is not drawn: %q", text, s.last())
}

// Press sends keys, and discards what was drawn before.
func (s *Terminal) Press(keys string) {
	s.t.Helper()
	s.mu.Lock()
	s.text.Reset()
	s.mu.Unlock()
	if _, err := io.WriteString(s.far, keys); err != nil {
		s.t.Fatal(err)
	}
}

// Close closes the far end, like closing the window.
func (s *Terminal) Close() { _ = s.far.Close() }

// Ends requires that the program ends with an exit code.
func (s *Terminal) Ends(code int) {
	s.t.Helper()
	end := make(chan error, 1)
	go func() { end <- s.cmd.Wait() }()
	select {
	case <-end:
		if got := s.cmd.ProcessState.ExitCode(); got != code {
			s.t.Errorf("exit code %d, want %d: %q", got, code, s.last())
		}
	case <-time.After(patience):
		s.t.Fatalf("it does not end: %q", s.last())
	}
}
