// Package ws is the client side of a WebSocket (RFC 6455) over a connection that the caller opened: what an agent's
// terminals and a probe need of it, without extensions.
//
// A library would bring compression and its own HTTP client, 0.16 MB in a program that has 8.5. The tests and the
// platform use a library as the peer.
package ws

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Status codes of a close.
const (
	Normal        = 1000
	GoingAway     = 1001
	ProtocolError = 1002
	NoStatus      = 1005 // never sent: the peer gave none
	Abnormal      = 1006 // never sent: the connection broke
	TooBig        = 1009
	InternalError = 1011
)

// patience is how long a peer may accept no data.
const patience = 10 * time.Second

// CloseError is the end of a connection with a code: the peer's, or this side's for a protocol error.
type CloseError struct {
	Code   int
	Reason string
	own    bool
}

// Local reports whether this side ended the connection because the peer violated the protocol.
func (e *CloseError) Local() bool { return e.own }

func (e *CloseError) Error() string {
	if e.own {
		return "websocket: " + e.Reason
	}
	return fmt.Sprintf("the peer closed the websocket with %d %q", e.Code, e.Reason)
}

func violation(what string) error { return &CloseError{Code: ProtocolError, Reason: what, own: true} }

// Conn is an open WebSocket. One goroutine may read while others write, ping and close.
type Conn struct {
	stream io.ReadWriteCloser
	limit  int // bytes of a message

	reading sync.Mutex // guards in and ended
	in      *bufio.Reader
	ended   error

	writing sync.Mutex // guards the fields below
	out     []byte     // buffer of the previous frame
	closing bool       // a close frame was sent; nothing may follow it

	pong chan struct{}
	gone chan struct{} // closed when the reader has reached the end
}

// Read returns the next message. It answers pings and the peer's close; any error ends the connection, and is a
// *CloseError if there was a close code.
func (c *Conn) Read() (Kind, []byte, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.ended == nil {
		kind, message, err := c.message()
		if err == nil {
			return kind, message, nil
		}
		var e *CloseError
		if errors.As(err, &e) {
			_ = c.sayClose(e.Code, e.Reason) // it ends either way
		}
		c.ended = err
		close(c.gone)
		c.stream.Close()
	}
	return 0, nil, c.ended
}

// message joins the frames of a message, and handles the control frames between them.
func (c *Conn) message() (kind Kind, message []byte, err error) {
	for {
		f, err := readFrame(c.in, c.limit-len(message))
		if err != nil {
			return 0, nil, err
		}
		switch {
		case f.op == opPing:
			_ = c.send(opPong, f.payload) // a failed write is noticed by the next writer
		case f.op == opPong:
			select {
			case c.pong <- struct{}{}:
			default: // no ping is outstanding
			}
		case f.op == opClose:
			return 0, nil, parseClose(f.payload)
		case (f.op == opMore) != (kind != 0):
			return 0, nil, violation("a message begins within another, or ends without one")
		default:
			kind = cmp.Or(kind, Kind(f.op))
			if message = append(message, f.payload...); f.final {
				return kind, message, nil
			}
		}
	}
}

func parseClose(payload []byte) error {
	switch len(payload) {
	case 0:
		return &CloseError{Code: NoStatus}
	case 1:
		return violation("half a status code")
	}
	e := &CloseError{Code: int(binary.BigEndian.Uint16(payload)), Reason: string(payload[2:])}
	if !sendable(e.Code) {
		return violation(fmt.Sprintf("%d is no status code", e.Code))
	}
	return e
}

// sendable reports whether a close frame may have the code.
func sendable(code int) bool {
	return (Normal <= code && code <= 1014 && code != 1004 && code != NoStatus && code != Abnormal) ||
		(3000 <= code && code <= 4999)
}

// Write sends one message.
func (c *Conn) Write(kind Kind, message []byte) error { return c.send(byte(kind), message) }

// send writes one frame, with a timeout.
func (c *Conn) send(op byte, payload []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	c.closing = op == opClose
	c.out = appendFrame(c.out[:0], op, payload)
	defer time.AfterFunc(patience, func() { c.stream.Close() }).Stop()
	_, err := c.stream.Write(c.out)
	return err
}

// Ping sends a ping and waits for its pong, which a concurrent reader receives. No pong within the time is an error.
func (c *Conn) Ping(within time.Duration) error {
	select {
	case <-c.pong: // discard a late pong of the previous ping
	default:
	}
	if err := c.send(opPing, nil); err != nil {
		return err
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-c.pong:
		return nil
	case <-c.gone:
		return net.ErrClosed
	case <-timer.C:
		return os.ErrDeadlineExceeded
	}
}

// Close sends a close frame, waits at most within for the peer's, and closes the connection. Messages that arrive
// meanwhile go to the current reader, or are dropped.
func (c *Conn) Close(code int, reason string, within time.Duration) {
	defer time.AfterFunc(within, c.CloseNow).Stop()
	for err := c.sayClose(code, reason); err == nil; {
		_, _, err = c.Read()
	}
	c.CloseNow()
}

// CloseNow closes the connection without a close frame.
func (c *Conn) CloseNow() { c.stream.Close() }

func (c *Conn) sayClose(code int, reason string) error {
	if !sendable(code) {
		return c.send(opClose, nil)
	}
	payload := append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
	return c.send(opClose, payload[:min(len(payload), maxControl)])
}
