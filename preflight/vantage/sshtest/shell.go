package sshtest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// endGrace is how long a command may go on after its client has gone: as with OpenSSH it only sees its input's end.
const endGrace = 2 * time.Second

// session serves one channel: one exec request.
func (s *Server) session(nc ssh.NewChannel, fault Fault) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
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
		wg.Go(func() {
			s.run(ch, m.Command)
			_ = ch.Close()
		})
	}
}

// run is `sh -c command` between the channel's streams.
func (s *Server) run(ch ssh.Channel, command string) {
	argv := append(append([]string{}, s.cfg.Wrap...), "sh", "-c", command)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = s.cfg.Env
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	}
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	cmd.WaitDelay = endGrace
	in, err := cmd.StdinPipe()
	if err != nil {
		return
	}
	if err := cmd.Start(); err != nil {
		return
	}
	gone := make(chan struct{})
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(in, ch)
		_ = in.Close()
		close(gone)
	}()
	go func() {
		<-gone
		select {
		case <-done:
		case <-time.After(endGrace):
			_ = cmd.Process.Kill()
		}
	}()
	err = cmd.Wait()
	close(done)
	status := uint32(0)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = uint32(exit.ExitCode())
	}
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
}
