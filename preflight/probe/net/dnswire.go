package net

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
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// maxDatagram bounds one answer over UDP: more than any server sends to a query that allows only the standard 512
// bytes.
const maxDatagram = 4096

// reply is the content of an answer to one query.
type reply struct {
	rcode     dnsmessage.RCode
	truncated bool
	addrs     []netip.Addr
}

// errNoName reports a name that cannot be encoded in the DNS, and so cannot be queried.
var errNoName = errors.New("no name that the DNS can hold")

// nameQuestion returns the query for addresses of one family; name must end in a dot.
func nameQuestion(name string, kind dnsmessage.Type) (dnsmessage.Question, error) {
	qname, err := dnsmessage.NewName(name)
	if err != nil {
		err = fmt.Errorf("%s: %w: %w", name, errNoName, err)
	}
	return dnsmessage.Question{Name: qname, Type: kind, Class: dnsmessage.ClassINET}, err
}

const (
	// edns marks a query that allows answers of largeAnswer bytes over UDP, as those of Go's resolver, and so the
	// agent's, do.
	edns        = "+edns"
	largeAnswer = 1232
	// largeWait is how long a server may take for it: it has the answer already, or drops the query.
	largeWait = 500 * time.Millisecond
)

// exchangeLarge repeats over UDP a query whose answer was truncated, and returns that answer if there is no better one.
func exchangeLarge(ctx context.Context, server string, q dnsmessage.Question, truncated reply) reply {
	ctx, cancel := context.WithTimeout(ctx, measure.Briefly(ctx, largeWait))
	defer cancel()
	if r, err := exchangeDNS(ctx, "udp"+edns, server, q); err == nil && !r.truncated && r.rcode == truncated.rcode {
		return r
	}
	return truncated
}

// exchangeDNS sends one query to server and reads its answer; it ignores answers to other queries. The network is udp,
// tcp, or udp with the suffix edns for a query that allows large answers.
func exchangeDNS(ctx context.Context, network, server string, q dnsmessage.Question) (reply, error) {
	id := uint16(rand.Uint32()) // from a generator that cannot be predicted
	network, large := strings.CutSuffix(network, edns)
	framed, err := packQuestion(id, q, large)
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

// packQuestion encodes the message after its length, two bytes that TCP needs and UDP does not.
func packQuestion(id uint16, q dnsmessage.Question, large bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(make([]byte, 2, 2+512), dnsmessage.Header{ID: id, RecursionDesired: true})
	if err := errors.Join(b.StartQuestions(), b.Question(q)); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", q.Name, errNoName, err)
	}
	if large {
		var h dnsmessage.ResourceHeader
		err := errors.Join(h.SetEDNS0(largeAnswer, dnsmessage.RCodeSuccess, false), b.StartAdditionals(),
			b.OPTResource(h, dnsmessage.OPTResource{}))
		if err != nil {
			return nil, fmt.Errorf("writing a question: %w", err)
		}
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

// readFramed reads a message with a length prefix.
func readFramed(c net.Conn) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	msg := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(c, msg)
	return msg, err
}

// errDamaged reports a message that is too short, or whose parts do not have their stated lengths.
var errDamaged = errors.New("the answer is damaged")

// parseReply parses a message. ours is false for an answer to another query, and for a query. Of a truncated message
// only the header is parsed: the rest may end anywhere.
func parseReply(msg []byte, id uint16, asked dnsmessage.Question) (r reply, ours bool, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	switch {
	case err != nil:
		return r, false, fmt.Errorf("%w: %w", errDamaged, err)
	case h.ID != id, !h.Response:
		return r, false, nil
	}
	r.rcode, r.truncated = h.RCode, h.Truncated
	if h.Truncated {
		return r, true, nil
	}
	if err = p.SkipAllQuestions(); err == nil {
		r.addrs, err = addresses(&p, asked.Type)
	}
	if err != nil {
		return reply{rcode: h.RCode}, true, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return r, true, nil
}

// addresses parses the answer's records of one type; records of other types, such as aliases, have no address.
func addresses(p *dnsmessage.Parser, kind dnsmessage.Type) (found []netip.Addr, err error) {
	for {
		h, err := p.AnswerHeader()
		switch {
		case errors.Is(err, dnsmessage.ErrSectionDone):
			return found, nil
		case err == nil && h.Type != kind:
			err = p.SkipAnswer()
		case err == nil && kind == dnsmessage.TypeA && h.Length == net.IPv4len:
			var a dnsmessage.AResource
			a, err = p.AResource()
			found = append(found, netip.AddrFrom4(a.A))
		case err == nil && kind == dnsmessage.TypeAAAA && h.Length == net.IPv6len:
			var a dnsmessage.AAAAResource
			a, err = p.AAAAResource()
			found = append(found, netip.AddrFrom16(a.AAAA))
		case err == nil:
			err = fmt.Errorf("an address of %d bytes", h.Length)
		}
		if err != nil {
			return nil, err
		}
	}
}

// rcodeNames are the standard names of response codes (RFC 1035, 2136, 8490).
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

// kindName is the kind of records as name servers call it: A, AAAA.
func kindName(kind dnsmessage.Type) string { return strings.TrimPrefix(kind.String(), "Type") }

// rcodeWord returns the failure of an answer without addresses. A code that is neither positive nor negative means that
// the server failed.
func rcodeWord(c dnsmessage.RCode) diag.Failure {
	switch c {
	case dnsmessage.RCodeSuccess:
		return diag.DNSNoAnswer
	case dnsmessage.RCodeNameError:
		return diag.DNSNXDomain
	case dnsmessage.RCodeRefused:
		return diag.DNSRefused
	}
	return diag.DNSServFail
}
