package vantage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	netprobe "github.com/gpuaas/gpuaasctl/preflight/probe/net"
)

// link is one attempt to reach the node, and the resulting connection. It is made once per Node.
//
// A cold login costs eleven round trips with OpenSSH: TCP, version, key exchange (two: the server's Nagle holds its
// first packet back until its banner is acknowledged), service, "none", key query, signature, channel (two, Nagle
// again), exec. The library always tries "none" and queries a key before it signs. Omitting these, or sending them
// ahead, needs modified copies of its login code: 10,000 lines of cryptography to maintain, for two or three round
// trips of one connection per walk. We do not: a walk overlaps its other traffic with the login instead.
type link struct {
	cfg   *NodeConfig
	begun time.Time
	stop  context.CancelFunc
	ready chan struct{} // closed when connected or failed
	ended chan struct{} // closed when an established connection has ended
	wg    sync.WaitGroup

	gate   *gate
	client *probe.Client

	refused error // why our program is not pushed; only connect uses it

	mu      sync.Mutex // guards the fields below
	target  target
	phase   string
	jump    string // the jump host whose login is in progress; "" for the node itself
	ssh     diag.SSHFacts
	dns     *diag.DNSFacts
	tcp     *diag.TCPFacts
	counted *netprobe.Counted // the connection of tcp; nil through a jump host
	keys    *credentials      // of the login in progress
	failed  *refusal          // set before ready is closed, never after
	closers []func() error
	conn    *ssh.Client // to the node, once logged in
	session *session    // the helper's, once it runs
	latest  *session    // the latest that was to start a helper
	sent    time.Time   // when the command that starts the helper was sent
	helloAt time.Time
	hello   probe.Hello
	offset  clockOffset
	seen    bool // OpSSH was answered from the login itself
}

// dial starts an attempt; it continues for as long as cfg allows, whether or not a caller waits.
func dial(cfg *NodeConfig) *link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{cfg: cfg, begun: time.Now(), stop: cancel, ready: make(chan struct{}), ended: make(chan struct{}),
		phase: phaseConfig, gate: newGate()}
	l.client = probe.NewClient(l.gate, l.gate)
	l.wg.Go(func() {
		defer close(l.ready)
		if err := l.connect(ctx); err != nil {
			l.fail(err)
		}
	})
	return l
}

// connect logs in and starts the helper.
func (l *link) connect(ctx context.Context) error {
	loginCtx, cancel := context.WithTimeout(ctx, l.cfg.connectTimeout())
	defer cancel()
	found := make(chan helpers, 1)
	l.wg.Go(func() { found <- findHelpers(l.cfg.HelperDirs, l.cfg.Build) })
	client, err := l.enterNode(loginCtx)
	if err != nil {
		return err
	}
	l.wg.Go(func() {
		defer close(l.ended)
		_ = client.Wait()
	})
	if l.cfg.Bare {
		l.set(func() { l.conn = client })
		l.gate.fail(&refusal{word: diag.Unsupported, phase: phaseExec,
			detail: "this login is for scripts alone: no helper was started"})
		return nil
	}
	ours := <-found
	l.refused = ours.refused
	return l.startHelper(ctx, client, ours.mine)
}

// enterNode returns the connection to the node, by SSH or by the profile's command.
func (l *link) enterNode(ctx context.Context) (*ssh.Client, error) {
	if len(l.cfg.Command) > 0 {
		return l.connectByCommand(ctx)
	}
	t, err := here(l.cfg.ConfigFile).resolve(ctx, l.cfg.Host, l.cfg.SSH)
	if err != nil {
		return nil, configRefusal(ctx, err)
	}
	l.set(func() {
		l.target, l.ssh.User, l.ssh.Jump = t, t.user, jumpNames(t.jumps)
		if t.proxy != nil {
			l.ssh.Jump = t.proxy.String()
		}
	})
	return l.loginThrough(ctx, &t)
}

// loginThrough logs in to every jump host and then to t, each through the previous one.
func (l *link) loginThrough(ctx context.Context, t *target) (*ssh.Client, error) {
	through, err := l.loginJumps(ctx, t.jumps)
	if err != nil {
		return nil, err
	}
	return l.login(ctx, t, through, &l.ssh)
}

// loginJumps returns the connection to the last jump host; nil without jump hosts.
func (l *link) loginJumps(ctx context.Context, jumps []target) (*ssh.Client, error) {
	var through *ssh.Client
	for i := range jumps {
		name := jumps[i].String()
		l.set(func() { l.jump = name })
		next, err := l.login(ctx, &jumps[i], through, nil)
		if err != nil {
			return nil, asRefusal(err).atJump(name)
		}
		through = next
	}
	l.set(func() { l.jump = "" })
	return through, nil
}

// login connects to t and authenticates. It records details in note, unless that is nil.
func (l *link) login(ctx context.Context, t *target, through *ssh.Client, note *diag.SSHFacts) (*ssh.Client, error) {
	trust := l.cfg.trustCommand()
	if note == nil { // OpenSSH would show a jump host's key and ask for it
		trust = diag.Command("ssh", "-o", "UserKnownHostsFile="+t.knownHosts[0], "-p", t.port, t.user+"@"+t.host, "true")
	}
	known, err := readKnownKeys(ctx, t, trust)
	var socket string
	if err == nil {
		socket, err = t.agentSocket(l.cfg)
	}
	if err != nil {
		return nil, &refusal{word: diag.SSHSetup, phase: phaseConfig, detail: err.Error()}
	}
	if note != nil {
		l.set(func() { note.NotUsed = slices.Concat(t.notUsed(false), known.hosts.Skipped) })
	}
	keys := loadCredentials(ctx, t, socket, l.cfg.agentWait())
	defer keys.close()
	l.set(func() { l.keys = keys })
	l.own(func() error { keys.close(); return nil }) // an agent that waits for confirmation blocks in signing
	conn, connected, err := l.reach(ctx, t, through, note)
	if err != nil {
		return nil, err
	}
	l.enter(phaseBanner)
	w := newWire(conn, func() { l.enter(phaseHostKey) })
	l.own(conn.Close)
	unhook := context.AfterFunc(ctx, l.kill)
	defer unhook()
	config := &ssh.ClientConfig{
		Config: ssh.Config{KeyExchanges: t.algorithms.kex, Ciphers: t.algorithms.ciphers, MACs: t.algorithms.macs},
		User:   t.user, ClientVersion: clientVersion,
		HostKeyAlgorithms: known.algorithms(t), HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			if note != nil {
				l.set(func() { note.HostKeyType, note.HostKeySHA256 = key.Type(), ssh.FingerprintSHA256(key) })
			}
			if err := known.check(t, remote, key); err != nil {
				return err
			}
			l.enter(phaseAuth)
			return nil
		},
		Auth: keys.methods(),
	}
	c, chans, reqs, err := ssh.NewClientConn(w, t.keyAddress(), config)
	keys.cutShort(err)
	if note != nil {
		l.set(func() { l.noteHandshake(note, w, connected, keys) })
	}
	if err != nil {
		return nil, handshakeRefusal(ctx, l.at(), w, t, keys, err).withOptions(t)
	}
	if !unhook() {
		return nil, stopped(ctx, phaseAuth, silence(phaseAuth, t))
	}
	w.atEnd(func() { refuseChannels(c) })
	return ssh.NewClient(c, chans, reqs), nil
}

// refuseChannels makes the library refuse new channels on a connection that has ended. The library's first failing
// write reports no error (golang.org/x/crypto/ssh, handshakeTransport.writePacket). If that write were the request for
// a channel, made after the reader has closed all channels, the request would never be answered. So another message
// takes that failure.
func refuseChannels(c ssh.Conn) { _, _, _ = c.SendRequest("keepalive@openssh.com", false, nil) }

// noteHandshake records banner and times; the caller holds mu.
func (l *link) noteHandshake(note *diag.SSHFacts, w *wire, connected time.Time, keys *credentials) {
	note.Banner, _ = w.firstText()
	if at := w.lastAnswer(); !at.IsZero() {
		note.BannerMS = diag.Measured(at.Sub(connected))
		if l.phase == phaseAuth {
			note.AuthMS = diag.Measured(time.Since(at))
		}
	}
	note.AuthMethod, note.NotOffered = keys.method(), len(keys.missing)
}

// enter records the beginning of a phase.
func (l *link) enter(phase string) { l.set(func() { l.phase = phase }) }

func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// at returns the current phase, or the last one.
func (l *link) at() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase
}

// own registers what must be closed with the link, in the order in which it was opened.
func (l *link) own(closer func() error) { l.set(func() { l.closers = append(l.closers, closer) }) }

// kill closes the connections, starting with the one to the first host: it is a socket, whose Close never blocks, and
// everything tunnelled through it then fails at once.
func (l *link) kill() {
	l.mu.Lock()
	closers := l.closers
	l.closers = nil
	l.mu.Unlock()
	for _, c := range closers {
		_ = c()
	}
}

// fail records why the node cannot be reached, and closes what was opened.
func (l *link) fail(err error) {
	r := asRefusal(err)
	l.set(func() { l.failed = r })
	l.kill()
	l.gate.fail(r)
}

func asRefusal(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return &refusal{word: diag.Unknown, phase: phaseConfig, detail: foreign(err.Error())}
}

// closeTimeout bounds Close: everything that it waits for ends when its connection does.
const closeTimeout = 900 * time.Millisecond

// close ends the link and waits for its goroutines.
func (l *link) close() error {
	l.stop()
	l.kill()
	l.gate.fail(&refusal{word: diag.Cancelled, phase: phaseSSH, detail: "the vantage was closed"})
	done := make(chan struct{})
	go func() {
		_ = l.client.Close()
		l.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("closing the connection to %s: not ended after %s: %w", l.cfg.Host, closeTimeout,
			os.ErrDeadlineExceeded)
	}
}
