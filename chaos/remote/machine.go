package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// Config describes the machine, the login, and the program to push.
type Config struct {
	Node     vantage.NodeConfig // how to connect; no helper of a walk is started, whatever it says
	Programs []string           // folders to search for gpuaas-fault, see vantage.HelperDirs
	Build    owned.Build        // the digests that it may have; nil: any

	dir, state string // for tests, instead of step.RunDir and step.StateDir
}

// most bounds concurrent calls: by default, an SSH server allows ten sessions per connection.
const most = 8

// Machine is a machine over SSH. Calls may be concurrent. After a connection has ended, the next call opens a new
// one. A working connection is kept, since the server might refuse a new one.
type Machine struct {
	cfg      Config
	programs func() ([]vantage.Program, error)
	slots    chan struct{}
	pushing  chan struct{} // holds one token for the call that pushes

	mu     sync.Mutex // guards what follows
	conns  []*conn    // all open connections; the last one may be the current one
	ours   bool       // our program was used there
	closed bool
	wg     sync.WaitGroup
}

var _ drill.Machine = (*Machine)(nil)

// conn is one connection with the number of calls in progress.
type conn struct {
	node  *vantage.Node
	calls int
	used  bool // it has carried an answer
	old   bool // given up: closed after its last call
}

// New returns a Machine without connecting.
func New(cfg Config) *Machine {
	cfg.Node.Bare = true
	cfg.dir, cfg.state = cmp.Or(cfg.dir, step.RunDir), cmp.Or(cfg.state, step.StateDir)
	return &Machine{
		cfg: cfg,
		programs: sync.OnceValues(func() ([]vantage.Program, error) {
			return vantage.Programs(cfg.Programs, step.Program, cfg.Build)
		}),
		slots:   make(chan struct{}, most),
		pushing: make(chan struct{}, 1),
	}
}

// ID returns the machine's id in the profile.
func (m *Machine) ID() string { return cmp.Or(m.cfg.Node.ID, m.cfg.Node.Host) }

// Reconnect gives up the connection: the next call opens a new one. Calls in progress continue over the old one.
func (m *Machine) Reconnect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		m.retire(c)
	}
}

// retire gives up one connection; the caller holds mu.
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

// connection returns the current connection, or a new one.
func (m *Machine) connection() (c *conn, used bool, err error) {
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

// give records the end of a call, and whether it got a reply.
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

// exec runs a script. If the connection had ended unnoticed, so that the script was not sent, exec uses a new
// connection.
func (m *Machine) exec(ctx context.Context, s vantage.Script) (vantage.Answer, error) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return vantage.Answer{}, ctx.Err()
	}
	for again := false; ; again = true {
		c, used, err := m.connection()
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

// asRoot reports the output of a script that was not run by root.
func (m *Machine) asRoot(a vantage.Answer) error {
	if _, not := a.Note("notroot"); !not {
		return nil
	}
	return fmt.Errorf(
		"the login on %s is not root, and the profile says that it uses no sudo (ssh.sudo): a drill needs root", m.ID())
}
