package vantage

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// gate connects the probe's client to a helper that does not run yet. It holds requests until the helper runs, so that
// early ones can travel with the command that starts it.
type gate struct {
	opened chan struct{} // closed when r, w or err are set

	mu   sync.Mutex // guards the fields below
	held []byte     // complete lines written before the gate was opened
	r    io.Reader
	w    io.Writer
	err  error
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

// Write holds p, or passes it on.
func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	w, err := g.w, g.err
	if w == nil && err == nil {
		g.held = append(g.held, p...)
	}
	g.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case w != nil:
		return w.Write(p)
	}
	return len(p), nil
}

// Read waits until the gate is opened.
func (g *gate) Read(p []byte) (int, error) {
	<-g.opened
	g.mu.Lock()
	r, err := g.r, g.err
	g.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return r.Read(p)
}

// first copies the held complete lines, as many as fit in limit bytes.
func (g *gate) first(limit int) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) <= limit {
		return bytes.Clone(g.held)
	}
	return bytes.Clone(g.held[:bytes.LastIndexByte(g.held[:limit], '\n')+1])
}

// open connects the gate to a helper that has already received the first sent bytes, and passes on the rest.
func (g *gate) open(r io.Reader, w io.Writer, sent int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err
	}
	if g.w != nil {
		return errors.New("the gate is open")
	}
	rest := g.held[sent:]
	g.held, g.r, g.w = nil, r, w
	close(g.opened)
	if len(rest) > 0 {
		if _, err := w.Write(rest); err != nil {
			return err
		}
	}
	return nil
}

// isOpen reports whether the gate was opened, or failed. The link records the details of its login before either.
func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

// fail ends the gate, opened or not.
func (g *gate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = err
	if g.w == nil {
		close(g.opened)
	}
	if c, ok := g.r.(io.Closer); ok {
		_ = c.Close()
	}
}

// Close implements io.Closer.
func (g *gate) Close() error {
	g.fail(errors.New("the vantage was closed"))
	return nil
}
