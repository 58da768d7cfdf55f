// Package sshtest is an SSH server in the test's own process, for tests of the node's vantage and of whole walks. It
// runs commands with a real shell, so the scripts and the probe code are the real ones; only the machine is simulated.
// Its faults are the ways in which a login can fail. It is for tests only.
package sshtest

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// Fault is one way in which a server fails its clients. A connection keeps the fault that was set when it was accepted.
type Fault int

// The faults, in the order of a login.
const (
	None          Fault = iota
	Silent              // accepts and sends nothing, like a stopped sshd
	Words               // sends Config.Words instead of a banner, and closes
	CloseAtOnce         // closes without sending anything
	HangAtKex           // sends its banner, then nothing
	RejectAuth          // accepts no key
	PasswordsOnly       // accepts passwords but no public keys
	PromptsOnly         // takes keyboard-interactive logins alone
	HangAtAuth          // never decides on a key
	CloseAtAuth         // closes when a key is offered
	HangAtOpen          // logs in and never answers the request for a channel
	RefuseOpen          // logs in and refuses every channel
	RefuseExec          // opens channels and runs nothing
	CloseAtExec         // closes the channel instead of running a command
	SilentExec          // reports the command as started, but does not run it
	ForcedCommand       // runs Config.Words with the shell instead of any command
	FreezeAtWords       // passes on the command's first output, then freezes like Freeze
)

// Config configures a server. The zero value accepts any key and runs commands with this process's PATH.
type Config struct {
	HostKeys []ssh.Signer // default: one new ed25519 key
	Accept   func(user string, key ssh.PublicKey) bool
	Banner   string   // version, default SSH-2.0-sshtest
	Env      []string // of commands; default: only PATH
	Wrap     []string // argv before the shell's
	Words    string   // see Words and ForcedCommand
	Forward  bool     // allows direct-tcpip, so that it can be a jump host
	Tries    int      // failed keys that end a login, default 6
	// Run runs a command in this process until its input ends; false leaves it to the shell.
	Run func(command string, in io.Reader, out io.Writer) bool
}

// Server is a running server on a loopback port.
type Server struct {
	Addr, Host string
	Port       int
	HostKey    ssh.Signer // the first

	cfg Config
	ln  net.Listener
	wg  sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	fault  Fault
	conns  map[*freezer]struct{}
	closed bool
	execs  []string         // every command that was requested
	groups map[int]struct{} // the process groups of the running commands
	logins int
	others int
}

// Start runs a server until the test ends.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	tier.NeedsHost(t)
	if len(cfg.HostKeys) == 0 {
		cfg.HostKeys = []ssh.Signer{NewKey(t)}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := ln.Addr().(*net.TCPAddr)
	s := &Server{Addr: a.String(), Host: "127.0.0.1", Port: a.Port, HostKey: cfg.HostKeys[0], cfg: cfg, ln: ln,
		conns: map[*freezer]struct{}{}, groups: map[int]struct{}{}}
	s.wg.Go(s.accept)
	t.Cleanup(s.Close)
	return s
}

// Close ends the server, its connections and their commands, and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	_ = s.ln.Close()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// Set makes later connections fail with f.
func (s *Server) Set(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Freeze stops reading from every connection, as SIGSTOP would: the sockets stay open.
func (s *Server) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.freeze()
	}
}

// Drop closes every connection.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

// Execs lists the commands that were requested.
func (s *Server) Execs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.execs...)
}

// Logins counts the connections that authenticated.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

func (s *Server) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		f := newFreezer(c)
		s.mu.Lock()
		fault := s.fault
		if s.closed {
			_ = c.Close()
		}
		s.conns[f] = struct{}{}
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(f, fault)
			s.forget(f)
		})
	}
}

func (s *Server) serve(c *freezer, fault Fault) {
	switch fault {
	case Silent:
		<-c.gone(s)
		return
	case Words:
		_, _ = c.Write([]byte(s.cfg.Words))
		return
	case CloseAtOnce:
		return
	case HangAtKex:
		_, _ = c.Write([]byte("SSH-2.0-sshtest\r\n"))
		<-c.gone(s)
		return
	}
	config := s.config(c, fault)
	conn, chans, reqs, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.logins++
	s.mu.Unlock()
	go answerGlobal(reqs)
	var wg sync.WaitGroup
	for ch := range chans {
		switch {
		case fault == HangAtOpen:
		case fault == RefuseOpen:
			_ = ch.Reject(ssh.ResourceShortage, "no more sessions")
		case ch.ChannelType() == "session":
			wg.Go(func() { s.session(c, ch, fault) })
		case ch.ChannelType() == "direct-tcpip" && s.cfg.Forward:
			wg.Go(func() { forward(ch) })
		case ch.ChannelType() == "direct-tcpip":
			_ = ch.Reject(ssh.Prohibited, "open failed: administratively prohibited")
		default:
			_ = ch.Reject(ssh.UnknownChannelType, ch.ChannelType())
		}
	}
	_ = conn.Close()
	wg.Wait()
}

// asked counts an attempt to authenticate without a key.
func (s *Server) asked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others++
}

// OtherTries returns how often clients tried a password or answered a prompt.
func (s *Server) OtherTries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others
}

func (s *Server) config(c *freezer, fault Fault) *ssh.ServerConfig {
	config := &ssh.ServerConfig{ServerVersion: s.cfg.Banner, MaxAuthTries: s.cfg.Tries,
		PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			switch {
			case fault == HangAtAuth:
				<-c.gone(s)
				return nil, errors.New("gone")
			case fault == CloseAtAuth:
				_ = c.Close()
				return nil, errors.New("closed")
			case fault == RejectAuth, s.cfg.Accept != nil && !s.cfg.Accept(m.User(), key):
				return nil, errors.New("not this key")
			}
			return nil, nil
		}}
	switch fault {
	case PasswordsOnly:
		config.PublicKeyCallback = nil
		config.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
			s.asked()
			return nil, errors.New("not this password")
		}
	case PromptsOnly:
		config.PublicKeyCallback = nil
		config.KeyboardInteractiveCallback = func(ssh.ConnMetadata,
			ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			s.asked()
			return nil, errors.New("not by these answers")
		}
	}
	if s.cfg.Banner == "" {
		config.ServerVersion = "SSH-2.0-sshtest"
	}
	for _, k := range s.cfg.HostKeys {
		config.AddHostKey(k)
	}
	return config
}

// answerGlobal refuses every global request, as OpenSSH does for a keepalive.
func answerGlobal(reqs <-chan *ssh.Request) {
	for r := range reqs {
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}

// forward connects a direct-tcpip channel.
func forward(ch ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &to); err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	out, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	in, reqs, err := ch.Accept()
	if err != nil {
		_ = out.Close()
		return
	}
	go ssh.DiscardRequests(reqs)
	relay(in, out)
}
