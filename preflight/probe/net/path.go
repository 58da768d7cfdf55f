package net

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// eachAddress is how long one address of a name may take to accept a connection: a resent SYN is among it.
const eachAddress = 2200 * time.Millisecond

// sysNet has a folder for each network interface.
const sysNet = "/sys/class/net"

// path goes through the phases dns, tcp and tls, and reads the interface that leads to the target before and after. It
// dials each address of the name once, at the same time: a client takes one that works, and says nothing of the others.
// Nothing is sent but to the target's own port. A handshake has packets of full size in both directions, so a path that
// drops those stops it, unless MSS keeps segments small.
func (p *Prober) path(ctx context.Context, req diag.Request, f *diag.Fact) {
	c := p.newExchange(req, f)
	if c == nil {
		return
	}
	defer c.close()
	ctx = withSegments(ctx, req.MSS)
	if !c.lookup(ctx) {
		return
	}
	f.Path = &diag.PathFacts{Interface: interfaceTo(c.addrs[0], c.to.port)}
	before := countersOf(sysNet, f.Path.Interface)
	var others sync.WaitGroup
	if len(c.addrs) > 1 {
		f.Path.More = max(0, len(c.addrs)-diag.MaxAttempts)
		f.Path.Addresses = make([]diag.TCPAttempt, min(len(c.addrs), diag.MaxAttempts))
		for i := range f.Path.Addresses {
			others.Go(func() { f.Path.Addresses[i] = c.dialOne(ctx, c.addrs[i]) })
		}
	}
	if c.connect(ctx) {
		raw := c.raw
		c.secure(ctx)
		if k, ok := raw.(*Counted); ok {
			f.Path.PathMTU, f.Path.MSS = k.sizes()
		}
	}
	others.Wait()
	describeLink(sysNet, f.Path)
	if f.Path.Since = countersOf(sysNet, f.Path.Interface); before != nil && f.Path.Since != nil {
		f.Path.While = &diag.LinkCounters{
			Packets: f.Path.Since.Packets - before.Packets, Errors: f.Path.Since.Errors - before.Errors,
			Dropped:        f.Path.Since.Dropped - before.Dropped,
			CarrierChanges: f.Path.Since.CarrierChanges - before.CarrierChanges,
		}
	}
}

// dialOne connects to one address, and closes.
func (c *exchange) dialOne(ctx context.Context, addr netip.Addr) diag.TCPAttempt {
	ctx, cancel := context.WithTimeout(ctx, eachAddress)
	defer cancel()
	a, began := diag.TCPAttempt{Remote: net.JoinHostPort(addr.String(), c.to.port)}, time.Now()
	conn, err := c.p.dial(ctx, "tcp", a.Remote)
	a.DurationMS = since(began)
	switch {
	case err == nil:
		a.Connected = true
		conn.Close()
	case errors.Is(ctx.Err(), context.Canceled):
		a.Failure = diag.Cancelled
	case timedOut(ctx, err):
		a.Failure = diag.TCPTimeout
	default:
		a.Failure = connectWord(err)
	}
	return a
}

// segmentsKey is the key of a context's limit of segments.
type segmentsKey struct{}

// withSegments returns a context whose connections have segments of at most mss bytes; 0: any.
func withSegments(ctx context.Context, mss int) context.Context {
	if mss <= 0 {
		return ctx
	}
	return context.WithValue(ctx, segmentsKey{}, mss)
}

func segmentsOf(ctx context.Context) int {
	mss, _ := ctx.Value(segmentsKey{}).(int)
	return mss
}

// interfaceTo names the interface by which packets to an address leave; "" if it is not known. Nothing is sent: a
// datagram socket that is connected has its local address.
func interfaceTo(addr netip.Addr, port string) string {
	conn, err := net.Dial("udp", net.JoinHostPort(addr.String(), port))
	if err != nil {
		return ""
	}
	defer conn.Close()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return ""
	}
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for i := range all {
		addrs, err := all[i].Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.Equal(local.IP) {
				return all[i].Name
			}
		}
	}
	return ""
}

// describeLink adds the settings of the interface, as far as it has them.
func describeLink(sys string, p *diag.PathFacts) {
	if p.Interface == "" {
		return
	}
	if mtu, ok := linkNumber(sys, p.Interface, "mtu"); ok {
		p.MTU = int(mtu)
	}
	if speed, ok := linkNumber(sys, p.Interface, "speed"); ok && speed > 0 { // -1: none, or not known
		p.SpeedMbps = new(int(speed))
	}
	if p.SpeedMbps != nil {
		p.Duplex = linkText(sys, p.Interface, "duplex")
	}
}

// countersOf reads the counters of an interface; nil if it has none here.
func countersOf(sys, name string) *diag.LinkCounters {
	if name == "" {
		return nil
	}
	var c diag.LinkCounters
	found := false
	for _, row := range []struct {
		file string
		to   *int64
	}{
		{"statistics/rx_packets", &c.Packets}, {"statistics/tx_packets", &c.Packets},
		{"statistics/rx_errors", &c.Errors}, {"statistics/tx_errors", &c.Errors},
		{"statistics/rx_missed_errors", &c.Dropped}, {"statistics/tx_dropped", &c.Dropped},
		{"carrier_changes", &c.CarrierChanges},
	} {
		if n, ok := linkNumber(sys, name, row.file); ok {
			*row.to += n
			found = true
		}
	}
	if !found {
		return nil
	}
	return &c
}

func linkNumber(sys, name, file string) (int64, bool) {
	n, err := strconv.ParseInt(linkText(sys, name, file), 10, 64)
	return n, err == nil
}

// linkText reads a file of an interface; "" if the kernel has no such value for it.
func linkText(sys, name, file string) string {
	if strings.ContainsRune(name, os.PathSeparator) {
		return ""
	}
	text, err := host.Read(filepath.Join(sys, name, file), host.Small)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}
