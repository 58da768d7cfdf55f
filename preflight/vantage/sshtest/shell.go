package sshtest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// endGrace is how long a command may continue after its client disconnected: as with OpenSSH, it only sees the end
	// of its input.
	endGrace = 2 * time.Second
	// outputGrace is how long to wait for the output of a command that has ended: a child may hold it open.
	outputGrace = 10 * time.Second
)

// session serves one channel: one exec request.
func (s *Server) session(c *freezer, nc ssh.NewChannel, fault Fault) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	gone := make(chan struct{}) // the channel was closed, by either side
	defer close(gone)
	ran := false
	for r := range reqs {
		if r.Type != "exec" || ran || fault == RefuseExec {
			if r.WantReply {
				_ = r.Reply(false, nil)
			}
			continue
		}
		ran = true
		var m struct{ Command string }
		if err := ssh.Unmarshal(r.Payload, &m); err != nil {
			return
		}
		s.mu.Lock()
		s.execs = append(s.execs, m.Command)
		s.mu.Unlock()
		if r.WantReply {
			_ = r.Reply(true, nil)
		}
		switch fault {
		case CloseAtExec:
			_ = ch.Close()
			continue
		case SilentExec:
			continue
		case ForcedCommand:
			m.Command = s.cfg.Words
		}
		var out io.Writer = ch
		if fault == FreezeAtWords {
			out = freezing{ch, c}
		}
		wg.Go(func() {
			if s.cfg.Run == nil || !s.cfg.Run(m.Command, ch, out) {
				s.run(ch, out, m.Command, gone)
			} else {
				exited(ch, 0)
			}
			_ = ch.Close()
		})
	}
}

// freezing freezes the connection after something was written.
type freezing struct {
	io.Writer
	conn *freezer
}

func (f freezing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	f.conn.freeze()
	return n, err
}

// run runs `sh -c command` between the channel's streams, with its output to out.
func (s *Server) run(ch ssh.Channel, out io.Writer, command string, gone <-chan struct{}) {
	argv := append(append([]string{}, s.cfg.Wrap...), "sh", "-c", command)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = s.cfg.Env
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	}
	cmd.Stdout, cmd.Stderr = out, ch.Stderr()
	cmd.WaitDelay = outputGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return
	}
	if err := cmd.Start(); err != nil {
		return
	}
	s.track(cmd.Process.Pid, true)
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(in, ch)
		_ = in.Close()
	}()
	go func() {
		select {
		case <-done:
			return
		case <-gone:
		}
		select {
		case <-done:
		case <-time.After(endGrace):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // including its children, which hold its output open
		}
	}()
	err = cmd.Wait()
	s.track(cmd.Process.Pid, false)
	close(done)
	status := uint32(0)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = uint32(exit.ExitCode())
	}
	exited(ch, status)
}

// exited reports a command's exit status.
func exited(ch ssh.Channel, status uint32) {
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
}

// track notes whether the command of a process group runs.
func (s *Server) track(group int, runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if runs {
		s.groups[group] = struct{}{}
	} else {
		delete(s.groups, group)
	}
}

// StopCommands stops the running commands, as SIGSTOP does: the server itself still answers.
func (s *Server) StopCommands() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for group := range s.groups {
		_ = syscall.Kill(-group, syscall.SIGSTOP)
	}
}

// forget closes a connection that has been served.
func (s *Server) forget(f *freezer) {
	_ = f.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, f)
}
