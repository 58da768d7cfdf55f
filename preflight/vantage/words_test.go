package vantage

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"golang.org/x/crypto/ssh"
)

// Every way in which a login fails, and its failure word.
func TestFailureWords(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault sshtest.Fault
		words string
		word  diag.Failure
		phase string
		text  string
	}{
		{"silent after accept", sshtest.Silent, "", diag.Timeout, "banner", "no SSH banner"},
		{"penalised", sshtest.Words, "Not allowed at this time\r\n", diag.SSHPenalty, "banner", "Not allowed"},
		{"too many logins", sshtest.Words, "Exceeded MaxStartups\r\n", diag.SSHPenalty, "banner", "MaxStartups"},
		{"another protocol", sshtest.Words, "HTTP/1.1 400 Bad Request\r\n\r\n", diag.SSHTransport, "banner", "HTTP/1.1 400"},
		{"closed at once", sshtest.CloseAtOnce, "", diag.SSHTransport, "banner", "before any banner"},
		{"no key exchange", sshtest.HangAtKex, "", diag.Timeout, "host_key", "key exchange"},
		{"key rejected", sshtest.RejectAuth, "", diag.SSHAuth, "auth", "SHA256:"},
		{"passwords only", sshtest.PasswordsOnly, "", diag.SSHAuth, "auth",
			"accepts no public keys for user root: it offers password"},
		{"prompts only", sshtest.PromptsOnly, "", diag.SSHAuth, "auth",
			"accepts no public keys for user root: it offers keyboard-interactive, GSSAPI or"},
		{"undecided on the key", sshtest.HangAtAuth, "", diag.Timeout, "auth", "login"},
		{"closed at login", sshtest.CloseAtAuth, "", diag.SSHTransport, "auth", "broke off"},
		{"no answer to a channel", sshtest.HangAtOpen, "", diag.Timeout, "exec", "logged us in"},
		{"channel refused", sshtest.RefuseOpen, "", diag.SSHExec, "exec", "no more sessions"},
		{"exec refused", sshtest.RefuseExec, "", diag.SSHExec, "exec", "refuses to run commands"},
		{"closed at exec", sshtest.CloseAtExec, "", diag.SSHExec, "exec", "closed"},
		{"silent exec", sshtest.SilentExec, "", diag.Timeout, "exec",
			"did not start the helper within"},
		{"no shell for this login", sshtest.ForcedCommand, "echo This account is currently not available.; exit 1",
			diag.SSHExec, "exec", "not available"},
		{"only a status", sshtest.ForcedCommand, "exit 3", diag.SSHExec, "exec",
			"the channel was closed before our command printed anything: exit status 3"},
		{"ended after the start of the helper", sshtest.ForcedCommand,
			"echo GPUAASCTL-SENTINEL start how=installed path=/x/a", diag.SSHExec, "exec",
			"without an answer, after our shell had gone on to start /x/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, sshtest.Config{Words: c.words})
			s.Set(c.fault)
			cfg, clock := configFor(t, s), diag.Request{ID: "clock", Op: diag.OpClock}
			n, facts := open(t, cfg), []diag.Fact(nil)
			if c.word == diag.Timeout {
				n, facts = inVain(t, cfg, c.word, c.phase, clock)
			} else {
				facts = n.Probe(within(t, 60*time.Second), []diag.Request{{ID: "login", Op: diag.OpSSH}, clock})
			}
			wantFailure(t, facts[0], c.word, c.phase)
			wantFailure(t, facts[1], c.word, "ssh")
			if !strings.Contains(facts[0].Detail, c.text) {
				t.Errorf("detail %q does not say %q", facts[0].Detail, c.text)
			}
			if n.Info().Missing == "" {
				t.Error("the vantage does not say that it is missing")
			}
			if tries := s.OtherTries(); tries > 0 {
				t.Errorf("%d passwords or answers were sent", tries)
			}
		})
	}
}

// The text may arrive with the end of the connection, before the library has sent its own version line.
func TestPenaltyIsHeardOnABrokenConnection(t *testing.T) {
	w := newWire(&broken{words: strings.NewReader("Not allowed at this time\r\n")}, nil)
	_, _, _, err := ssh.NewClientConn(w, "node:22", &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(nil)})
	if !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the connection's own error is lost: %v", err)
	}
	if r := handshakeRefusal(t.Context(), phaseBanner, w, &target{}, &credentials{}, err); r.word != diag.SSHPenalty {
		t.Errorf("got %q: %s", r.word, r.detail)
	}
}

// broken is a connection whose peer has disconnected, with unread text of it.
type broken struct {
	net.Conn
	words *strings.Reader
}

func (b *broken) Read(p []byte) (int, error) { return b.words.Read(p) }
func (b *broken) Write([]byte) (int, error)  { return 0, syscall.EPIPE }
func (b *broken) Close() error               { return nil }

// A waiting request is answered as soon as the login has failed, before the link is marked as ready.
func TestFailedLoginIsNamedBeforeTheLinkIsReady(t *testing.T) {
	l := &link{cfg: &NodeConfig{}, ready: make(chan struct{}), gate: newGate(), stop: func() {}}
	l.client = probe.NewClient(l.gate, l.gate)
	n := &Node{link: l}
	l.fail(&refusal{word: diag.SSHPenalty, phase: phaseBanner, detail: "the server turned us away"})
	f := n.Probe(within(t, 30*time.Second), []diag.Request{{ID: "clock", Op: diag.OpClock}})[0]
	wantFailure(t, f, diag.SSHPenalty, phaseSSH)
	close(l.ready)
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

func TestTCPRefused(t *testing.T) {
	tier.NeedsHost(t)
	cfg := configFor(t, sshtest.Nobody(t))
	facts := open(t, cfg).Probe(within(t, 30*time.Second), []diag.Request{{Op: diag.OpSSH}, {Op: diag.OpClock}})
	wantFailure(t, facts[0], diag.TCPRefused, "tcp")
	wantFailure(t, facts[1], diag.TCPRefused, "ssh")
	if facts[0].Errno != "ECONNREFUSED" {
		t.Errorf("errno %q", facts[0].Errno)
	}
}

// A name server does not know the name, or none answers, or this machine has no network.
func TestUnknownName(t *testing.T) {
	cfg := NodeConfig{Host: "no-such-node.invalid", ConfigFile: "none", AgentSocket: "none",
		ConnectTimeout: 2 * time.Second}
	f := loginFact(within(t, 30*time.Second), open(t, cfg))
	if (!strings.HasPrefix(string(f.Failure), "dns_") && f.Failure != diag.TCPNetUnreachable) || f.Phase != "dns" {
		t.Errorf("got %q in phase %q: %s", f.Failure, f.Phase, f.Detail)
	}
}
