package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// traceRTT is the round-trip time of a traced walk: long beside the work between two messages, and so short that no
// request of a healthy walk is silent long enough to be repeated.
const traceRTT = 200 * time.Millisecond

// slack is how much later than its cause a message may be sent, beside the round trips of a trace.
const slack = traceRTT / 8

// burst is what one side of a connection sent at once.
type burst struct {
	conn   *traced
	at     time.Time // when it entered the link
	sent   bool      // by the operator
	opens  bool      // SYN
	bytes  int
	record byte // its first byte: the type of a TLS record
	name   string
}

// came returns when the other side had it.
func (b *burst) came() time.Time { return b.at.Add(traceRTT / 2) }

// traced is one connection of the operator's.
type traced struct {
	local, remote string // ports
	bursts        []*burst
}

// tracer collects the connections of a walk from the link's packets.
type tracer struct {
	mu    sync.Mutex // guards conns
	conns []*traced
}

// see adds one packet.
func (r *tracer) see(p packet, sent bool) {
	d := p.data
	if len(d) < 40 || d[0]>>4 != 4 || d[9] != 6 { // not TCP over IPv4
		return
	}
	tcp := d[int(d[0]&15)*4 : binary.BigEndian.Uint16(d[2:])]
	from, to := strconv.Itoa(int(binary.BigEndian.Uint16(tcp))), strconv.Itoa(int(binary.BigEndian.Uint16(tcp[2:])))
	if !sent {
		from, to = to, from
	}
	payload, opens := tcp[int(tcp[12]>>4)*4:], tcp[13]&2 != 0
	if len(payload) == 0 && !opens {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.conns, func(c *traced) bool { return c.local == from && c.remote == to })
	if i < 0 {
		i = len(r.conns)
		r.conns = append(r.conns, &traced{local: from, remote: to})
	}
	c := r.conns[i]
	if n := len(c.bursts); n > 0 {
		last := c.bursts[n-1]
		if last.sent == sent && !last.opens && p.at.Sub(last.at) < slack {
			last.bytes += len(payload)
			return
		}
	}
	b := &burst{conn: c, at: p.at, sent: sent, opens: opens, bytes: len(payload)}
	if len(payload) > 0 {
		b.record = payload[0]
	}
	c.bursts = append(c.bursts, b)
}

// The types of TLS records that begin what a client sends, and the most bytes of its last handshake message alone.
const (
	recordHello, recordChange = 22, 20
	finishedBytes             = 100
)

// sshTrips is what each burst of a login is, by the library that the tool uses. OpenSSH's server makes two of them two
// round trips each, see preflight/vantage/link.go.
var sshTrips = [...]string{"TCP", "SSH version", "SSH key exchange", "SSH service", "SSH authentication: none",
	"SSH authentication: key query", "SSH authentication: signature", "SSH channel", "SSH exec, with the first requests"}

// named is the trace of one walk, with a name for each burst of the operator.
func (w *world) named(r *tracer, rep *diag.Report) []*burst {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*burst
	for _, c := range r.conns {
		n, upgraded := 0, 0
		for _, b := range c.bursts {
			if b.at.Before(rep.Run.StartedAt.Time) {
				continue
			}
			all = append(all, b)
			if !b.sent {
				continue
			}
			switch f := factAt(rep, c, b.at); {
			case w.Ports[c.remote] == "SSH" && c.bursts[0].at.Before(rep.Run.StartedAt.Time), n >= len(sshTrips):
				b.name = "requests to the helper"
			case w.Ports[c.remote] == "SSH":
				b.name = sshTrips[n]
			case b.opens:
				b.name = "TCP to " + w.Ports[c.remote]
			case b.record == recordHello:
				b.name = "TLS with " + w.Ports[c.remote]
			case b.record == recordChange && b.bytes <= finishedBytes:
				b.name = "" // the end of the handshake alone
			case f == nil && upgraded > 0:
				b.name = "close"
			case f == nil:
				b.name = "evidence"
			case f.Request.Op == diag.OpSession:
				b.name = f.ID + ": " + [...]string{"upgrade", "a line for the shell", "exit"}[min(upgraded, 2)]
				upgraded++
			default:
				b.name = f.ID
			}
			n++
		}
	}
	slices.SortStableFunc(all, func(a, b *burst) int { return a.at.Compare(b.at) })
	return all
}

// factAt returns the fact whose request was sent over an operator's connection at a time, a round trip or more before
// its end; nil if there is none.
func factAt(rep *diag.Report, c *traced, at time.Time) (of *diag.Fact) {
	for i := range rep.Facts {
		f := &rep.Facts[i]
		end := f.At.Add(time.Duration(f.DurationMS) * time.Millisecond)
		if f.Vantage != hop.Operator || f.TCP == nil || !strings.HasSuffix(f.TCP.Local, ":"+c.local) ||
			f.At.After(at.Add(slack/4)) || end.Before(at.Add(traceRTT/2)) {
			continue
		}
		if of == nil || f.At.After(of.At.Time) {
			of = f
		}
	}
	return of
}

// path returns the messages of the operator on which the last answer depends, first to last: each was sent when the
// answer to the one before had come, so each is a round trip.
func path(all []*burst) (trips []*burst) {
	var last *burst // the answer that is to be explained
	for _, b := range all {
		if !b.sent && b.bytes > closeBytes {
			last = b
		}
	}
	for last != nil {
		var asked *burst
		for _, b := range all {
			if b.sent && b.conn == last.conn && b.name != "" && !b.came().After(last.at.Add(slack)) {
				asked = b
			}
		}
		if asked == nil {
			break
		}
		trips = append(trips, asked)
		last = nil
		for _, b := range all { // the latest answer before it; of those that came together, its own connection's
			if b.sent || b.came().After(asked.at.Add(slack)) {
				continue
			}
			if last == nil || last.conn != asked.conn || b.conn == asked.conn || b.at.Sub(last.at) > slack {
				last = b
			}
		}
	}
	slices.Reverse(trips)
	return trips
}

// closeBytes is the size of what ends a connection: a TLS alert.
const closeBytes = 32

// trace runs walks over the link, and returns what the last one sent and was answered.
func (w *world) trace(ctx context.Context, argv []string) ([]*burst, error) {
	w.link.setRTT(traceRTT)
	r := &tracer{}
	see := r.see
	w.link.tap.Store(&see)
	got, err := w.link.run(ctx, argv...)
	w.link.tap.Store(nil)
	if err == nil {
		err = checkExit(got)
	}
	if err != nil {
		return nil, err
	}
	rep := &diag.Report{}
	data, err := os.ReadFile(w.report)
	if err == nil {
		err = json.Unmarshal(data, rep)
	}
	return w.named(r, rep), err
}

// traces adds the trace of a cold walk and of a warm one.
func (w *world) traces(ctx context.Context, t *table) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	warm := []string{self, "-child", "warm", "-profile", w.Profile, "-walks", "3", "-report", w.report}
	for _, walk := range []struct {
		name string
		argv []string
	}{
		{"cold walk", w.walkArgv()}, {"warm walk", warm},
		{"warm walk without a terminal session", append(warm, "-session=false")},
	} {
		all, err := w.trace(ctx, walk.argv)
		if err != nil {
			return err
		}
		for _, to := range [...]string{"platform", "node"} {
			some := slices.DeleteFunc(slices.Clone(all), func(b *burst) bool {
				return (w.Ports[b.conn.remote] == "SSH") != (to == "node")
			})
			t.addPath(tripPath{walk.name, to, together(some, path(some))})
		}
	}
	return nil
}

// together returns the names of what was sent at the moment of each trip.
func together(all, trips []*burst) (names [][]string) {
	for _, at := range trips {
		var same []string
		for _, b := range all {
			if b.sent && b.name != "" && b.at.Sub(at.at).Abs() <= slack && !slices.Contains(same, b.name) {
				same = append(same, b.name)
			}
		}
		slices.Sort(same)
		names = append(names, same)
	}
	return names
}
