package vantage

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	netprobe "github.com/gpuaas/gpuaasctl/preflight/probe/net"
)

// bannerKept bounds, in bytes, the text that is kept of a peer before or instead of its version line.
const bannerKept = 512

// wire is the connection under SSH. It keeps the peer's first text. On Linux it requests immediate acknowledgements: a
// server that uses Nagle's algorithm waits for them, and a delayed one costs 40 ms in every cold exec.
type wire struct {
	net.Conn
	tcp *net.TCPConn // nil through a jump host

	buf        []byte // for Read: the SSH library reads the version line byte by byte
	start, end int
	broken     error // error of the first Write

	mu       sync.Mutex // guards the fields below
	first    []byte     // the peer's first bytes, at most bannerKept
	at       time.Time  // when its version line was complete
	answered func()     // called once, then
	ended    bool       // nothing more can be read
	last     func()     // see atEnd
}

func newWire(c net.Conn, answered func()) *wire {
	w := &wire{Conn: c, buf: make([]byte, 4096), answered: answered}
	if socket, ok := c.(*netprobe.Counted); ok {
		w.tcp = socket.TCPConn
	}
	quickAck(w.tcp)
	return w
}

// Read reads through a small buffer.
func (w *wire) Read(p []byte) (int, error) {
	if w.start == w.end {
		if len(p) >= len(w.buf) {
			return w.receive(p)
		}
		n, err := w.receive(w.buf)
		if n == 0 {
			if errors.Is(err, io.EOF) && w.broken != nil {
				err = w.broken
			}
			return 0, err
		}
		w.start, w.end = 0, n
		w.listen(w.buf[:n])
	}
	n := copy(p, w.buf[w.start:w.end])
	w.start += n
	return n, nil
}

// receive reads from the connection. If the connection has ended, it is closed and the function given to atEnd is
// called before the reader gets the error.
func (w *wire) receive(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	quickAck(w.tcp)
	if err == nil {
		return n, nil
	}
	_ = w.Conn.Close()
	w.mu.Lock()
	w.ended = true
	last := w.last
	w.mu.Unlock()
	if last != nil {
		last()
	}
	return n, err
}

// atEnd sets a function to be called when the connection has ended in both directions, before the reader gets the
// error.
func (w *wire) atEnd(last func()) {
	w.mu.Lock()
	w.last = last
	ended := w.ended
	w.mu.Unlock()
	if ended {
		last()
	}
}

// Write sends p. Sending makes the kernel delay acknowledgements again, so it requests immediate ones once more.
//
// The SSH library writes first, and a server that refuses us may have sent its reason and closed before that. So a
// write before the peer's version line never fails: reading continues to that reason, and ends with the write's error.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	quickAck(w.tcp)
	if err != nil && w.lastAnswer().IsZero() {
		w.broken = err
		return len(p), nil
	}
	return n, err
}

func (w *wire) listen(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.at.IsZero() || len(w.first) >= bannerKept {
		return
	}
	w.first = append(w.first, p[:min(len(p), bannerKept-len(w.first))]...)
	if _, ok := versionLine(w.first); ok {
		w.at = time.Now()
		if w.answered != nil {
			w.answered()
		}
	}
}

// firstText returns the peer's version line, or else its other text.
func (w *wire) firstText() (banner string, words []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if line, ok := versionLine(w.first); ok {
		return line, nil
	}
	return "", bytes.Clone(w.first)
}

// lastAnswer returns when the version line was complete, else the zero time.
func (w *wire) lastAnswer() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func versionLine(b []byte) (string, bool) {
	for {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		if !ended {
			return "", false
		}
		if bytes.HasPrefix(line, []byte("SSH-")) {
			return string(bytes.TrimRight(line, "\r")), true
		}
		b = rest
	}
}
