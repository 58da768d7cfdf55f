package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// recordType is a kind of DNS record.
type recordType uint16

// The records that hold addresses.
const (
	typeA    recordType = 1
	typeAAAA recordType = 28
)

func (t recordType) String() string {
	if t == typeA {
		return "A"
	}
	return "AAAA"
}

// bytes is how long such a record's address is.
func (t recordType) bytes() int {
	if t == typeA {
		return 4
	}
	return 16
}

// nameQuestion is one question for a server.
type nameQuestion struct {
	name string // with the dot at its end
	kind recordType
}

// The limits of names (RFC 1035), and the only class there is.
const (
	maxLabel      = 63
	maxName       = 255
	classInternet = 1
)

// The response codes that are told apart.
const (
	rcodeSuccess  = 0
	rcodeNXDomain = 3
	rcodeRefused  = 5
)

// maxDatagram is what is read of one answer over UDP: more than any server sends to a question that offers no more
// than the usual 512 bytes.
const maxDatagram = 4096

// reply is what an answer says about one question.
type reply struct {
	rcode     int
	truncated bool
	addrs     []netip.Addr
}

// errNoName says that a name cannot be asked for: the DNS could not hold it.
var errNoName = errors.New("no name that the DNS can hold")

// exchangeDNS asks server one question and reads its answer; answers to other questions are not ours.
func exchangeDNS(ctx context.Context, network, server string, q nameQuestion) (reply, error) {
	id := uint16(rand.Uint32()) // from a generator that cannot be guessed
	framed, err := packQuestion(id, q)
	if err != nil {
		return reply{}, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, server)
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	read, out := readDatagram, framed[2:]
	if network == "tcp" {
		read, out = readFramed, framed
	}
	if _, err := conn.Write(out); err != nil {
		return reply{}, err
	}
	for {
		msg, err := read(conn)
		if err != nil {
			return reply{}, err
		}
		r, ours, err := parseReply(msg, id, q)
		if err != nil || ours {
			return r, err
		}
	}
}

// packQuestion gives the message behind its length, two bytes that TCP wants and UDP does not.
func packQuestion(id uint16, q nameQuestion) ([]byte, error) {
	b := binary.BigEndian.AppendUint16(make([]byte, 2, 2+512), id)
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion is wanted; one question, and nothing else
	begin := len(b)
	for _, label := range strings.Split(strings.TrimSuffix(q.name, "."), ".") {
		if label == "" || len(label) > maxLabel {
			return nil, fmt.Errorf("%s: %w", q.name, errNoName)
		}
		b = append(append(b, byte(len(label))), label...)
	}
	if b = append(b, 0); len(b)-begin > maxName {
		return nil, fmt.Errorf("%s: %w", q.name, errNoName)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(q.kind))
	b = binary.BigEndian.AppendUint16(b, classInternet)
	binary.BigEndian.PutUint16(b, uint16(len(b)-2))
	return b, nil
}

func readDatagram(c net.Conn) ([]byte, error) {
	buf := make([]byte, maxDatagram)
	n, err := c.Read(buf)
	return buf[:n], err
}

// readFramed reads a message behind its length.
func readFramed(c net.Conn) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	msg := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(c, msg)
	return msg, err
}

// errCut says that a message ends before it should, or that its parts are not as long as they say.
var errCut = errors.New("the answer is cut off")

// parseReply reads a message; ours is false for an answer to another question, and for what is no answer. Of a
// truncated one only that is told: what is left may end anywhere.
func parseReply(msg []byte, id uint16, asked nameQuestion) (r reply, ours bool, err error) {
	m := message{rest: msg}
	answers, flags := m.number(), m.number()
	questions, records := m.number(), m.number()
	m.take(4) // the numbers of records of other sections
	switch {
	case m.cut:
		return r, false, errCut
	case answers != id, flags&0x8000 == 0:
		return r, false, nil
	}
	r.rcode, r.truncated = int(flags&0xf), flags&0x200 != 0
	if r.truncated {
		return r, true, nil
	}
	for ; questions > 0 && !m.cut; questions-- {
		m.skipName()
		m.take(4) // type and class
	}
	for ; records > 0 && !m.cut; records-- {
		m.skipName()
		kind := recordType(m.number())
		m.take(6) // class and time to live
		data := m.take(int(m.number()))
		if kind != asked.kind { // an alias, for one, has no address
			continue
		}
		addr, _ := netip.AddrFromSlice(data)
		m.cut = m.cut || len(data) != kind.bytes()
		r.addrs = append(r.addrs, addr)
	}
	if m.cut {
		return reply{rcode: r.rcode}, true, errCut
	}
	return r, true, nil
}

// message is what is left to read of one. Behind its end there are only zeros.
type message struct {
	rest []byte
	cut  bool // something was asked for that is behind the end
}

func (m *message) take(n int) []byte {
	if n > len(m.rest) {
		m.rest, m.cut = nil, true
		return nil
	}
	taken := m.rest[:n]
	m.rest = m.rest[n:]
	return taken
}

func (m *message) number() uint16 {
	if b := m.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// skipName passes a name: labels up to an empty one, or to a pointer at the rest of it.
func (m *message) skipName() {
	for !m.cut {
		switch n := m.take(1); {
		case n == nil, n[0] == 0:
			return
		case n[0] >= 0xc0:
			m.take(1)
			return
		case n[0] > maxLabel:
			m.cut = true
		default:
			m.take(int(n[0]))
		}
	}
}

// rcodeNames are the response codes as every tool writes them (RFC 1035, 2136, 8490).
var rcodeNames = [...]string{
	"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
	"NOTZONE", "DSOTYPENI",
}

func rcodeName(c int) string {
	if c < len(rcodeNames) {
		return rcodeNames[c]
	}
	return "RCODE" + strconv.Itoa(c)
}
