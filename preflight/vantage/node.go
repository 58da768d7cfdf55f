package vantage

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	// defaultConnect bounds TCP, banner, host key and login together: enough for eleven round trips at 500 ms and slow
	// DNS.
	defaultConnect = 10 * time.Second
	// answerGrace is how much longer than a request's own time we wait for the node's answer.
	answerGrace = 2 * time.Second
)

// NodeConfig identifies a node, its login, and the paths on it. Only Host is required.
type NodeConfig struct {
	ID   string      // node id, for the commands in error texts; default Host
	Host string      // name or address, or an alias of ssh_config
	SSH  profile.SSH // values set here override ssh_config
	// Command is a program with arguments that reaches the node in place of SSH; nil: SSH. See profile.Node
	Command []string
	Agent   profile.Agent // unit, environment file and program on the node

	Version        string        // our version: a helper of another one is replaced; "": any version is used
	HelperDirs     []string      // folders with a helper to push, see HelperDirs; none: nothing is pushed
	Build          owned.Build   // the digests that it may have; nil: any
	Start          time.Time     // of the walk: base of the facts' offsets; zero: the first Probe
	ConnectTimeout time.Duration // default 10 s, from look-up to login
	HelloTimeout   time.Duration // default 5 s, from a helper's start to its hello
	AgentTimeout   time.Duration // default 2 s, for the SSH agent's list of keys
	ConfigFile     string        // replaces the operator's ssh_config files; "none": none
	AgentSocket    string        // replaces SSH_AUTH_SOCK; "none": none
	// for Run only: no helper is started or pushed, so connecting changes nothing on the node
	Bare      bool
	TrustArgs []string // further arguments of `gpuaasctl ssh trust NODE`, for the commands in error texts
}

func (c *NodeConfig) connectTimeout() time.Duration { return cmp.Or(c.ConnectTimeout, defaultConnect) }
func (c *NodeConfig) helloWait() time.Duration      { return cmp.Or(c.HelloTimeout, helloTimeout) }
func (c *NodeConfig) agentWait() time.Duration      { return cmp.Or(c.AgentTimeout, agentTimeout) }
func (c *NodeConfig) execWait() time.Duration       { return max(execTimeout, 2*c.helloWait()) }
func (c *NodeConfig) binary() string                { return cmp.Or(c.Agent.Binary, profile.DefaultAgentBinary) }

func (c *NodeConfig) agentSocket() string {
	if c.AgentSocket == "none" {
		return ""
	}
	return cmp.Or(c.AgentSocket, os.Getenv("SSH_AUTH_SOCK"))
}

// trustCommand returns the command with which an operator accepts this node's first host key.
func (c *NodeConfig) trustCommand() string {
	return diag.Command(append([]string{"gpuaasctl", "ssh", "trust", cmp.Or(c.ID, c.Host)}, c.TrustArgs...)...)
}

// Node is a node as a vantage: one SSH connection, opened by the first Probe and shared by all. A failed login or a
// broken connection is final; to retry, make another Node.
type Node struct {
	cfg NodeConfig

	mu     sync.Mutex // guards the fields below
	link   *link
	closed bool
}

// NewNode returns the vantage; it connects later.
func NewNode(cfg NodeConfig) *Node { return &Node{cfg: cfg} }

// Name is "node".
func (n *Node) Name() string { return nodeName }

// connect begins the login unless it has begun, and does not wait.
func (n *Node) connect() *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link == nil && !n.closed {
		n.link = dial(&n.cfg)
		if n.cfg.Start.IsZero() {
			n.cfg.Start = n.link.begun
		}
	}
	return n.link
}

// Probe answers every request, in order, and never blocks past ctx. The login answers OpSSH, the helper on the node
// everything else; without a login, each answer is the login's failure, in phase "ssh". Requests made during the login
// wait for it.
func (n *Node) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	l := n.connect()
	return measure.All(reqs, func(req diag.Request) diag.Fact {
		switch {
		case l == nil:
			r := &refusal{word: diag.Cancelled, phase: phaseSSH, detail: "the vantage is closed"}
			return n.refused(req, r, phaseSSH, time.Now())
		case req.Op == diag.OpSSH:
			return n.login(ctx, l, req)
		}
		return n.ask(ctx, l, req)
	})
}

// login answers OpSSH. The first fact describes the login; later ones also check that the server still answers.
func (n *Node) login(ctx context.Context, l *link, req diag.Request) diag.Fact {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, measure.TimeOf(req, l.cfg.connectTimeout()+l.cfg.execWait()))
	defer cancel()
	var r *refusal
	select {
	case <-l.ready:
		r = l.alive(ctx)
	case <-ctx.Done():
		if r = l.refusal(); r == nil {
			r = l.pending(ctx)
		}
	}
	f := n.fact(req, began)
	f.Vantage = nodeName
	l.mu.Lock()
	f.SSH, f.DNS, f.TCP = new(l.ssh), l.dns, l.tcp
	if l.tcp != nil && l.counted != nil {
		f.TCP = new(*l.tcp)
		f.TCP.Resent = l.counted.Resent()
	}
	if t := l.target.String(); l.target.host != "" && t != req.Target {
		f.Target = t
	}
	l.mu.Unlock()
	if r != nil {
		f.Failure, f.Phase, f.Errno, f.Detail = r.word, r.phase, r.errno, r.detail
	}
	return f
}

// ask lets the node's helper answer req.
func (n *Node) ask(ctx context.Context, l *link, req diag.Request) diag.Fact {
	began := time.Now()
	limit := measure.TimeOf(req, measure.DefaultTimeout) + answerGrace
	if !l.isReady() {
		limit += l.cfg.connectTimeout() + l.cfg.execWait()
	}
	asked, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f, answered := l.client.Ask(asked, req)
	received := time.Now()
	if r := l.refusal(); r != nil {
		return n.refused(req, r, phaseSSH, began)
	}
	// the login is still in progress; ready would be too late, since the answer arrives before it
	if !l.gate.isOpen() {
		if asked.Err() == nil {
			return f // refused here, before anything was sent
		}
		return n.refused(req, l.pending(asked), phaseSSH, began)
	}
	if !answered && asked.Err() != nil {
		// timeout: the connection is broken, unless ctx ended; cancelled: nothing is known of the target
		f.Phase = phaseSSH
		f.Detail = fmt.Sprintf("the helper on the node gave no answer within %s; the connection was open",
			received.Sub(began).Round(time.Millisecond))
		if ctx.Err() == nil && l.stillAlive(ctx) {
			f.Failure, f.Detail = diag.Cancelled, f.Detail+", and the server answers on it"
		}
	}
	sent := l.sentAfter(began)
	measured := sent
	if answered { // the helper may have started long after the request was sent
		if at := received.Add(-time.Duration(f.DurationMS) * time.Millisecond); at.After(sent) {
			measured = at
		}
	}
	f.OffsetMS = max(0, measured.Sub(n.start()).Milliseconds())
	if f.Clock != nil && !f.Clock.Now.IsZero() {
		s := sample(f.Clock.Now.Time, sent, received)
		offset, uncertain := s.millis()
		f.Clock.OffsetMS, f.Clock.ErrorMS = &offset, &uncertain
		l.set(func() { l.offset.add(f.Clock.Now.Time, sent, received) })
	}
	return f
}

// refused returns the fact for a request that could not be sent or answered.
func (n *Node) refused(req diag.Request, r *refusal, phase string, began time.Time) diag.Fact {
	f := n.fact(req, began)
	f.Failure, f.Phase, f.Errno, f.Detail, f.Shortage = r.word, phase, r.errno, r.detail, r.shortage
	if r.phase != phase {
		f.Detail = "no login on the node, at " + r.phase + ": " + r.detail
	}
	return f
}

func (n *Node) fact(req diag.Request, began time.Time) diag.Fact {
	return diag.Fact{
		ID: req.ID, Vantage: nodeName, Request: req, At: diag.At(began),
		OffsetMS: max(0, began.Sub(n.start()).Milliseconds()), DurationMS: diag.Measured(time.Since(began)),
	}
}

// Since sets the base of the facts' offsets, for the next walk over the same connection.
func (n *Node) Since(t time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cfg.Start = t
}

func (n *Node) start() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cfg.Start.IsZero() {
		return time.Now()
	}
	return n.cfg.Start
}

// Info describes the vantage for a report, as far as it is known by now.
func (n *Node) Info() diag.VantageInfo {
	n.mu.Lock()
	l := n.link
	n.mu.Unlock()
	info := diag.VantageInfo{ID: nodeName, How: "ssh", Host: n.cfg.Host}
	if l == nil {
		info.Missing = "not connected"
		return info
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.target.host != "" {
		info.How, info.Host = "ssh "+l.target.String(), l.target.host
		if l.ssh.Jump != "" {
			info.How += " through " + l.ssh.Jump
		}
	}
	if len(n.cfg.Command) > 0 {
		info.How = "command " + l.ssh.Command
	}
	switch {
	case l.failed != nil:
		info.Missing = l.failed.Error()
	case l.helloAt.IsZero():
		info.Missing = "not connected yet, at " + l.phase
	}
	if l.offset.known {
		ms, _ := l.offset.millis()
		info.ClockOffsetMS = &ms
	}
	return info
}

// Close ends the connection. It returns within a second, even if the node is frozen.
func (n *Node) Close() error {
	n.mu.Lock()
	l, was := n.link, n.closed
	n.closed = true
	n.mu.Unlock()
	if l == nil || was {
		return nil
	}
	return l.close()
}
