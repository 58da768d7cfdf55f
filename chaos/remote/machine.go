package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// Config is which machine, how to log in, and what to put there.
type Config struct {
	Node     vantage.NodeConfig // how to get there; no helper of a walk is started, whatever it holds
	Programs []string           // folders in which gpuaas-fault is looked for, see vantage.HelperDirs

	dir, state string // of tests, in place of step.RunDir and step.StateDir
}

// most is how many calls are made at once; a server allows ten sessions over one connection by default
// otherwise.
const most = 8

// Machine is a machine over SSH. Its calls may be made at once. A connection that ended is made again by the next call;
// one that is there is kept, also when the server would take no new one.
type Machine struct {
	cfg      Config
	programs func() []vantage.Program
	slots    chan struct{}
	pushing  chan struct{} // holds one token for the call that pushes

	mu     sync.Mutex // guards what follows
	conns  []*conn    // every one that is not closed; the last may be the present one
	ours   bool       // our program was used there
	closed bool
	wg     sync.WaitGroup
}

var _ drill.Machine = (*Machine)(nil)

// conn is one connection with the calls that are under way over it.
type conn struct {
	node  *vantage.Node
	calls int
	used  bool // it has carried an answer
	old   bool // given up: closed with its last call
}

// New makes it; nothing is connected yet.
func New(cfg Config) *Machine {
	cfg.Node.Bare = true
	cfg.dir, cfg.state = cmp.Or(cfg.dir, step.RunDir), cmp.Or(cfg.state, step.StateDir)
	return &Machine{
		cfg:      cfg,
		programs: sync.OnceValue(func() []vantage.Program { return vantage.Programs(cfg.Programs, step.Program) }),
		slots:    make(chan struct{}, most),
		pushing:  make(chan struct{}, 1),
	}
}

// ID is the machine's, as the profile has it.
func (m *Machine) ID() string { return cmp.Or(m.cfg.Node.ID, m.cfg.Node.Host) }

// Reconnect gives up the connection: the next call makes a new one. Calls that are under way go on over the old one.
func (m *Machine) Reconnect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		m.retire(c)
	}
}

// retire gives one connection up; the caller holds mu.
func (m *Machine) retire(c *conn) {
	c.old = true
	if c.calls > 0 {
		return
	}
	for i, o := range m.conns {
		if o == c {
			m.conns = append(m.conns[:i:i], m.conns[i+1:]...)
			m.wg.Go(func() { _ = c.node.Close() })
			return
		}
	}
}

// Close ends every connection and the calls over it. It returns within a second or so.
func (m *Machine) Close() error {
	m.mu.Lock()
	m.closed = true
	all := m.conns
	m.conns = nil
	m.mu.Unlock()
	errs := make([]error, len(all))
	for i, c := range all {
		m.wg.Go(func() { errs[i] = c.node.Close() })
	}
	m.wg.Wait()
	return errors.Join(errs...)
}

// take gives the present connection, or a new one.
func (m *Machine) take() (c *conn, used bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, false, errClosed
	}
	if n := len(m.conns); n > 0 {
		c := m.conns[n-1]
		if !c.old && c.node.Lost() {
			m.retire(c)
		}
		if !c.old {
			c.calls++
			return c, c.used, nil
		}
	}
	c = &conn{node: vantage.NewNode(m.cfg.Node), calls: 1}
	m.conns = append(m.conns, c)
	return c, false, nil
}

// give records that a call is over, and whether it had an answer.
func (m *Machine) give(c *conn, answered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.calls--
	c.used = c.used || answered
	if c.old && !m.closed {
		m.retire(c)
	}
}

var errClosed = errors.New("the connection was closed")

// exec runs a script. One that could not be sent over a connection that had ended unnoticed is sent over a new one.
func (m *Machine) exec(ctx context.Context, s vantage.Script) (vantage.Answer, error) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return vantage.Answer{}, ctx.Err()
	}
	for again := false; ; again = true {
		c, used, err := m.take()
		if err != nil {
			return vantage.Answer{}, err
		}
		a, err := c.node.Exec(ctx, s)
		lost := c.node.Lost()
		m.give(c, err == nil)
		if err == nil {
			return a, m.asRoot(a)
		}
		if again || !used || !lost || !errors.Is(err, vantage.ErrUnsent) || ctx.Err() != nil {
			return vantage.Answer{}, err
		}
	}
}

// asRoot is what a script prints that was not run by root.
func (m *Machine) asRoot(a vantage.Answer) error {
	if _, not := a.Note("notroot"); !not {
		return nil
	}
	return fmt.Errorf(
		"the login on %s is not root, and the profile says that it uses no sudo (ssh.sudo): a drill needs root", m.ID())
}
