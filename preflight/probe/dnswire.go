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

	"golang.org/x/net/dns/dnsmessage"
)

// maxDatagram is what is read of one answer over UDP: more than any server sends to a question that offers no more
// than the usual 512 bytes.
const maxDatagram = 4096

// reply is what an answer says about one question.
type reply struct {
	rcode     dnsmessage.RCode
	truncated bool
	addrs     []netip.Addr
}

// errNoName says that a name cannot be asked for: the DNS could not hold it.
var errNoName = errors.New("no name that the DNS can hold")

// exchangeDNS asks server one question and reads its answer; answers to other questions are not ours.
func exchangeDNS(ctx context.Context, network, server string, q dnsmessage.Question) (reply, error) {
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
func packQuestion(id uint16, q dnsmessage.Question) ([]byte, error) {
	b := dnsmessage.NewBuilder(make([]byte, 2, 2+512), dnsmessage.Header{ID: id, RecursionDesired: true})
	if err := errors.Join(b.StartQuestions(), b.Question(q)); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", q.Name, errNoName, err)
	}
	framed, err := b.Finish()
	if err != nil {
		return nil, fmt.Errorf("writing a question: %w", err)
	}
	binary.BigEndian.PutUint16(framed, uint16(len(framed)-2))
	return framed, nil
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

// parseReply reads a message; ours is false for an answer to another question, and for what is no answer. Of a
// truncated one only that is told: what is left may end anywhere.
func parseReply(msg []byte, id uint16, asked dnsmessage.Question) (r reply, ours bool, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil {
		return r, false, fmt.Errorf("reading an answer: %w", err)
	}
	if h.ID != id || !h.Response {
		return r, false, nil
	}
	r.rcode, r.truncated = h.RCode, h.Truncated
	if h.Truncated {
		return r, true, nil
	}
	if err := p.SkipAllQuestions(); err != nil {
		return r, true, fmt.Errorf("reading an answer: %w", err)
	}
	for {
		addr, err := nextAddr(&p, asked.Type)
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return r, true, nil
		}
		if err != nil {
			return r, true, fmt.Errorf("reading an answer: %w", err)
		}
		if addr.IsValid() {
			r.addrs = append(r.addrs, addr)
		}
	}
}

// nextAddr reads the next record of the answer; records of other types, aliases for one, have no address.
func nextAddr(p *dnsmessage.Parser, kind dnsmessage.Type) (netip.Addr, error) {
	h, err := p.AnswerHeader()
	if err != nil {
		return netip.Addr{}, err
	}
	switch {
	case h.Type != kind:
	case kind == dnsmessage.TypeA:
		a, err := p.AResource()
		return netip.AddrFrom4(a.A), err
	case kind == dnsmessage.TypeAAAA:
		a, err := p.AAAAResource()
		return netip.AddrFrom16(a.AAAA), err
	}
	return netip.Addr{}, p.SkipAnswer()
}

// rcodeNames are the response codes as every tool writes them (RFC 1035, 2136, 8490).
var rcodeNames = [...]string{
	"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
	"NOTZONE", "DSOTYPENI",
}

func rcodeName(c dnsmessage.RCode) string {
	if int(c) < len(rcodeNames) {
		return rcodeNames[c]
	}
	return "RCODE" + strconv.Itoa(int(c))
}
