//go:build linux

package inprocess

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// relay is a middlebox on one leg of a terminal: it relays TCP both ways, and cuts a connection as the test
// requests. It does not see the content. The zero value only relays.
type relay struct {
	idle  time.Duration // closes both sides of a session after this time without data from the server
	age   time.Duration // cuts a session this long after its node's stream started
	bytes int           // cuts a session once the server has sent this many bytes since arm was called, at least a frame
	how   cutting
	delay time.Duration // of every byte, each way

	armed atomic.Bool
	url   string
	mu    sync.Mutex
	open  map[*carried]bool // guarded by mu
}

// cutting is how a connection is cut.
type cutting int

const (
	fin  cutting = iota // both sides see its end
	rst                 // both sides see a reset
	hole                // both sides stay connected, but no data passes
	deaf                // only the server's data is lost
)

// listen starts the relay in front of the server of url, and returns its own URL; a nil relay does nothing.
func (r *relay) listen(t testing.TB, url string) string {
	if r == nil {
		return url
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url, r.open = "https://"+l.Addr().String(), map[*carried]bool{}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { r.carry(t, client.(*net.TCPConn), strings.TrimPrefix(url, "https://")) })
		}
	})
	return r.url
}

// to is the relay's URL, or url itself without a relay.
func (r *relay) to(url string) string {
	if r == nil {
		return url
	}
	return r.url
}

func (r *relay) arm() { r.armed.Store(true) }

// carried is one connection through a relay.
type carried struct {
	client, server *net.TCPConn
	how            cutting
	cut, sent      atomic.Bool // sent: the server sent something since the last tick of idle
	streams        atomic.Bool // the node's stream came
	fromServer     atomic.Int64
	once           sync.Once
}

// end cuts the connection.
func (c *carried) end() {
	c.once.Do(func() {
		c.cut.Store(true)
		for _, side := range []*net.TCPConn{c.client, c.server} {
			if c.how == rst {
				_ = side.SetLinger(0)
			}
			if c.how == fin || c.how == rst {
				_ = side.Close()
			}
		}
	})
}

// streaming starts age and idle for the sessions that are open now, since opening takes a while on a busy machine.
// Agent and operator are in this process; connections of helpers are not, and do not count as sessions.
func (r *relay) streaming(ctx context.Context) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		if !ownSocket(c.client.RemoteAddr().(*net.TCPAddr).Port) {
			continue
		}
		c.streams.Store(true)
		if r.age > 0 {
			time.AfterFunc(r.age, c.end)
		}
		if r.idle > 0 {
			go c.endIdle(ctx, r.idle)
		}
	}
}

// endIdle ends the connection once the server has sent nothing for a while.
func (c *carried) endIdle(ctx context.Context, after time.Duration) {
	for c.sent.Store(true); c.sent.Swap(false); {
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return
		}
	}
	c.end()
}

// ownSocket reports whether this process has the TCP socket of a local port.
func ownSocket(port int) bool {
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		return false
	}
	own := fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[1] != own || f[9] == "0" {
			continue
		}
		fds, _ := filepath.Glob("/proc/self/fd/*")
		return slices.ContainsFunc(fds, func(fd string) bool {
			target, err := os.Readlink(fd)
			return err == nil && target == "socket:["+f[9]+"]"
		})
	}
	return false
}

// carry relays one connection until both sides are closed, or the test is over.
func (r *relay) carry(t testing.TB, client *net.TCPConn, target string) {
	conn, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &carried{client: client, server: conn.(*net.TCPConn), how: r.how}
	r.mu.Lock()
	r.open[c] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, c)
	}()
	copyOn := func(from, to *net.TCPConn, down bool) {
		buf := make([]byte, 16<<10)
		framed := false // a frame was relayed; before the stream there are TLS tickets and the response to the upgrade
		for {
			n, err := from.Read(buf)
			if err != nil {
				break
			}
			time.Sleep(r.delay)
			if down {
				c.sent.Store(true)
				if r.armed.Load() && r.bytes > 0 && c.fromServer.Add(int64(n)) > int64(r.bytes) && framed {
					c.end()
				}
				framed = framed || c.streams.Load()
			}
			if c.cut.Load() && (down || r.how == hole) {
				continue
			}
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if !c.cut.Load() { // one side left
			_ = to.CloseWrite()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { copyOn(client, c.server, false) })
	wg.Go(func() { copyOn(c.server, client, true) })
	gone := make(chan struct{})
	go func() { wg.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-t.Context().Done():
	}
	_, _ = client.Close(), c.server.Close()
	<-gone
}
