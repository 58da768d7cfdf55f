package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// foreignLines is how many lines of other origin (a login's greeting) are skipped.
const foreignLines = 64

// Client is the operator's end of the protocol that Serve speaks. It is safe for concurrent use.
type Client struct {
	start time.Time
	r     io.Reader
	w     io.Writer

	greeted chan struct{} // closed when hello or err is set
	ended   chan struct{} // closed when the transport has ended; then err is set
	send    chan []byte   // lines for the single writer: a write may block as long as the transport does
	wg      sync.WaitGroup

	budget budget // used by the reading goroutine only

	mu      sync.Mutex // guards the fields below
	hello   *Hello
	err     error
	last    uint64
	pending map[string]chan diag.Fact // by request id on the wire
}

// NewClient returns a client over r and w, which Close closes if they are io.Closers. It does not wait; Hello does.
func NewClient(r io.Reader, w io.Writer) *Client {
	c := &Client{start: time.Now(), r: r, w: w,
		budget: budget{left: bounded.LinkBudget}, greeted: make(chan struct{}), ended: make(chan struct{}),
		send: make(chan []byte, 64), pending: map[string]chan diag.Fact{}}
	c.wg.Go(c.readAll)
	c.wg.Go(c.writeAll)
	return c
}

// Hello waits for the peer's first line.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	select {
	case <-c.greeted:
	case <-ctx.Done():
		return Hello{}, fmt.Errorf("waiting for the probe's greeting: %w", ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello == nil {
		return Hello{}, fmt.Errorf("waiting for the probe's greeting: %w", c.err)
	}
	return *c.hello, nil
}

// Close ends the transport and waits for the client's goroutines. The caller must end a reader or writer that is not an
// io.Closer.
func (c *Client) Close() error {
	var errs []error
	for _, end := range []any{c.w, c.r} {
		if closer, ok := end.(io.Closer); ok {
			errs = append(errs, closer.Close())
		}
	}
	c.end(errors.New("the probe was closed"))
	c.wg.Wait()
	return errors.Join(errs...)
}

// Probe answers every request, in order, and never blocks past ctx. A missing answer is also a fact: ssh_transport if
// the connection ended, timeout or cancelled if ctx did.
func (c *Client) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	return measure.All(reqs, func(req diag.Request) diag.Fact {
		f, _ := c.Ask(ctx, req)
		return f
	})
}

// Ask answers one request as Probe does, and reports whether the fact is the far side's.
func (c *Client) Ask(ctx context.Context, req diag.Request) (f diag.Fact, answered bool) {
	began := time.Now()
	fail := func(word diag.Failure, phase, detail string) (diag.Fact, bool) {
		return diag.Fact{ID: req.ID, Vantage: VantageNode, Request: req, At: diag.At(began), Failure: word, Phase: phase,
			Detail: detail, OffsetMS: began.Sub(c.start).Milliseconds(), DurationMS: diag.Measured(time.Since(began))}, false
	}
	if !req.Token.IsZero() || !req.Cookie.IsZero() {
		return fail(diag.Unsupported, "", "secrets are never sent to a node")
	}
	answer := make(chan diag.Fact, 1)
	wire := req
	wire.ID = c.expect(answer)
	defer c.forget(wire.ID)
	line, err := json.Marshal(wire)
	if err != nil {
		return fail(diag.Unsupported, "", "the request cannot be written: "+err.Error())
	}
	if len(line) >= MaxLine {
		return fail(diag.Unsupported, "", "the request is too long")
	}
	select {
	case c.send <- append(line, '\n'):
	case <-c.ended:
	case <-ctx.Done():
	}
	select {
	case f := <-answer:
		return c.own(f, req, began), true
	case <-c.ended:
		select {
		case f := <-answer: // both were ready
			return c.own(f, req, began), true
		default:
		}
		return fail(diag.SSHTransport, "ssh", c.reason().Error())
	case <-ctx.Done():
		c.giveUp(wire.ID)
		word, _ := measure.Ended(ctx)
		return fail(word, "", "no answer from the node while waiting")
	}
}

// own returns an answer with the caller's id and clock.
func (c *Client) own(f diag.Fact, req diag.Request, began time.Time) diag.Fact {
	f.ID, f.Request, f.OffsetMS = req.ID, req, began.Sub(c.start).Milliseconds()
	return f
}

// expect registers an awaited answer under a new id: ids of callers need not be unique.
func (c *Client) expect(answer chan diag.Fact) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id := strconv.FormatUint(c.last, 10)
	c.pending[id] = answer
	return id
}

func (c *Client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// giveUp cancels the request at the peer, unless that would block.
func (c *Client) giveUp(id string) {
	line, err := json.Marshal(map[string]string{"cancel": id})
	if err != nil {
		return
	}
	select {
	case c.send <- append(line, '\n'):
	default:
	}
}

func (c *Client) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end marks the transport as ended; the first reason is kept.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.ended)
	if c.hello == nil {
		close(c.greeted)
	}
}

func (c *Client) writeAll() {
	for {
		select {
		case line := <-c.send:
			if _, err := c.w.Write(line); err != nil {
				c.end(fmt.Errorf("sending to the node's probe: %w", err))
				return
			}
		case <-c.ended:
			return
		}
	}
}

func (c *Client) readAll() {
	r := bufio.NewReader(c.r)
	foreign := 0
	for {
		line, err := readLine(r)
		if err == nil {
			if c.handleLine(line) {
				continue
			}
			if foreign++; foreign <= foreignLines {
				continue
			}
			err = fmt.Errorf("the far side does not speak the probe's protocol: %q", scrub.Text(string(measure.Clip(line, 120))))
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the node's probe ended")
			if !c.hasGreeted() {
				err = errors.New("the node's probe ended before its greeting")
			}
		}
		c.end(err)
		return
	}
}

func (c *Client) hasGreeted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello != nil
}

// handleLine handles one line; it returns false if the line is not one of the protocol.
func (c *Client) handleLine(line []byte) bool {
	if len(line) == 0 || line[0] != '{' || !bytes.HasSuffix(line, []byte("}")) {
		return false
	}
	var o outLine
	holds, over := bounded.Measure(line, bounded.Line())
	if json.Unmarshal(line, &o) != nil { // its few fields are cheap to decode, whatever else the line has
		return false
	}
	if o.Hello != nil {
		c.greet(o.Hello)
		return true
	}
	if !c.hasGreeted() {
		return false
	}
	if !c.budget.spend(len(line)+bounded.ElementCost*holds.Elements, time.Now()) {
		c.end(errOverBudget)
		return true
	}
	f, ok := factOf(line, &o, over)
	if !ok {
		return false
	}
	c.deliver(f)
	return true
}

func (c *Client) greet(h *Hello) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hello == nil && c.err == nil {
		c.hello = h
		close(c.greeted)
	}
}

// deliver passes f to the caller that waits for it; a late answer is dropped.
func (c *Client) deliver(f diag.Fact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.pending[f.ID]; ok {
		answer <- f
		delete(c.pending, f.ID)
	}
}
