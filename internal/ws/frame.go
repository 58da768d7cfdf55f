package ws

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
)

// Kind is the type of a message: text or binary.
type Kind byte

// The kinds of messages, which are opcodes of frames.
const (
	Text   Kind = 1
	Binary Kind = 2
)

// The other opcodes: continuation, and the control frames.
const (
	opMore  = 0
	opClose = 8
	opPing  = 9
	opPong  = 10
)

const (
	final      = 0x80 // in the first byte: the message's last frame
	masked     = 0x80 // in the second
	maxControl = 125  // bytes of a control frame's payload
)

// frame is one frame from a server.
type frame struct {
	op      byte
	final   bool
	payload []byte
}

// readFrame reads a frame of at most limit bytes; its error names the violated rule.
func readFrame(r io.Reader, limit int) (frame, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return frame{}, err
	}
	f := frame{op: head[0] & 0x0f, final: head[0]&final != 0}
	size := uint64(head[1] &^ masked)
	switch {
	case head[0]&0x70 != 0:
		return f, violation("a bit of an extension is set")
	case head[1]&masked != 0:
		return f, violation("a server masks nothing")
	case f.op > opPong, f.op > byte(Binary) && f.op < opClose:
		return f, violation(fmt.Sprintf("opcode %d is none", f.op))
	case f.op >= opClose && (!f.final || size > maxControl):
		return f, violation("a control frame is one short frame")
	case size > maxControl: // the size follows, in 2 bytes or in 8
		more := head[:2+6*(size-126)]
		if _, err := io.ReadFull(r, more); err != nil {
			return f, whole(err)
		}
		size = 0
		for _, b := range more {
			size = size<<8 | uint64(b)
		}
	}
	if f.op < opClose && size > uint64(limit) {
		return f, &CloseError{Code: TooBig, Reason: "a message is too long", own: true}
	}
	f.payload = make([]byte, size)
	_, err := io.ReadFull(r, f.payload)
	return f, whole(err)
}

// whole turns an EOF within a frame into io.ErrUnexpectedEOF.
func whole(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame appends a frame as a client sends it: masked.
func appendFrame(b []byte, op byte, payload []byte) []byte {
	b = append(b, final|op)
	switch n := len(payload); {
	case n <= maxControl:
		b = append(b, masked|byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, masked|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, masked|127), uint64(n))
	}
	var key [4]byte
	rand.Read(key[:]) // never fails
	b = append(b, key[:]...)
	for i, c := range payload {
		b = append(b, c^key[i%4])
	}
	return b
}
