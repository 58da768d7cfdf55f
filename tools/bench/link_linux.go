package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	tunMTU      = 1500
	linkQueue   = 8192
	goneTimeout = 2 * time.Second
)

// ends are the two network namespaces that a slow link connects: near is our own, and both sides of a benchmark run in
// it.
type ends struct {
	near, far       string
	nearTun, farTun string
	plan            [][]string // commands that configure the link once its devices exist
	unplan          [][]string // commands that remove it; each may fail, since its object may not exist
}

const (
	labSpace   = "gpuaas-lab" // namespace of the lab's bridge
	labBridge  = "lab0"
	operator   = "10.231.77.2" // the operator's address, at the slow end of the link
	bridgeOwn  = "10.231.77.3" // the bridge's address while the link exists: it needs one to send ARP requests
	labNetwork = "10.231.77.0/24"
)

// in returns a command of ip in a namespace, and set one of sysctl.
func in(space string, args ...string) []string { return append([]string{"ip", "-n", space}, args...) }

func set(space, key, value string) []string {
	return []string{"ip", "netns", "exec", space, "sysctl", "-q", "-w", key + "=" + value}
}

// labEnds connects to the lab. Its machines need no change: the bridge answers for the operator's address (proxy ARP)
// and routes it to the far device.
func labEnds() ends {
	e := ends{near: "gpuaas-bench", far: labSpace, nearTun: "bench-near", farTun: "bench-far"}
	e.plan = [][]string{
		in(e.near, "link", "set", "lo", "up"),
		in(e.near, "address", "add", operator+"/24", "dev", e.nearTun),
		in(e.near, "link", "set", e.nearTun, "mtu", fmt.Sprint(tunMTU), "up"),
		in(e.far, "link", "set", e.farTun, "mtu", fmt.Sprint(tunMTU), "up"),
		in(e.far, "address", "add", bridgeOwn+"/32", "dev", labBridge),
		in(e.far, "route", "add", labNetwork, "dev", labBridge, "src", bridgeOwn),
		in(e.far, "route", "add", operator+"/32", "dev", e.farTun),
		set(e.far, "net.ipv4.ip_forward", "1"),
		set(e.far, "net.ipv4.conf."+labBridge+".proxy_arp", "1"),
	}
	e.unplan = [][]string{
		{"ip", "netns", "delete", e.near},
		in(e.far, "link", "delete", e.farTun),
		in(e.far, "route", "delete", labNetwork, "dev", labBridge),
		in(e.far, "address", "delete", bridgeOwn+"/32", "dev", labBridge),
		set(e.far, "net.ipv4.conf."+labBridge+".proxy_arp", "0"),
		set(e.far, "net.ipv4.ip_forward", "0"),
	}
	return e
}

// worldEnds connects to a namespace of its own whose servers listen on its loopback addresses: at the near end, which
// has no loopback, those are routed over the link.
func worldEnds() ends {
	const near, far = "10.231.78.2", "10.231.78.1"
	e := ends{near: "gpuaas-wire-near", far: "gpuaas-wire-far", nearTun: "wire-near", farTun: "wire-far"}
	e.plan = [][]string{
		in(e.far, "link", "set", "lo", "up"),
		in(e.far, "address", "add", far+"/24", "dev", e.farTun),
		in(e.far, "link", "set", e.farTun, "mtu", fmt.Sprint(tunMTU), "up"),
		set(e.far, "net.ipv4.conf."+e.farTun+".route_localnet", "1"),
		in(e.near, "address", "add", near+"/24", "dev", e.nearTun),
		in(e.near, "link", "set", e.nearTun, "mtu", fmt.Sprint(tunMTU), "up"),
		set(e.near, "net.ipv4.conf."+e.nearTun+".route_localnet", "1"),
		in(e.near, "route", "add", "127.0.0.0/8", "dev", e.nearTun, "src", near),
	}
	e.unplan = [][]string{{"ip", "netns", "delete", e.near}, {"ip", "netns", "delete", e.far}}
	return e
}

// slowLink connects two network namespaces by two TUN devices and relays their packets with a delay. Both ends use
// real TCP, as with `tc netem`, which not every kernel has.
type slowLink struct {
	ends

	near, far *os.File
	delay     atomic.Int64                              // one way, nanoseconds
	tap       atomic.Pointer[func(p packet, sent bool)] // sees every packet as it is read; nil: none
	wg        sync.WaitGroup
}

// newSlowLink removes the remains of an earlier run, and connects the two namespaces.
func newSlowLink(ctx context.Context, e ends) (*slowLink, error) {
	l := &slowLink{ends: e}
	l.remove(ctx)
	spaces := []string{e.near}
	if e.far != labSpace {
		spaces = append(spaces, e.far)
	}
	for _, space := range spaces {
		if err := command(ctx, "ip", "netns", "add", space); err != nil {
			return nil, err
		}
	}
	var err1, err2 error
	l.near, err1 = openTun(e.near, e.nearTun)
	l.far, err2 = openTun(e.far, e.farTun)
	if err := errors.Join(err1, err2); err != nil {
		l.close()
		return nil, err
	}
	for _, argv := range e.plan {
		if err := command(ctx, argv...); err != nil {
			l.close()
			return nil, err
		}
	}
	l.wg.Go(func() { l.carry(l.near, l.far, true) })
	l.wg.Go(func() { l.carry(l.far, l.near, false) })
	return l, nil
}

// close stops the relay and removes the link, also after an interrupt.
func (l *slowLink) close() {
	for _, f := range []*os.File{l.near, l.far} {
		if f != nil {
			_ = f.Close()
		}
	}
	l.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l.remove(ctx)
}

func (l *slowLink) remove(ctx context.Context) {
	for _, argv := range l.unplan {
		_ = command(ctx, argv...)
	}
}

// setRTT applies to packets that arrive from now on.
func (l *slowLink) setRTT(rtt time.Duration) { l.delay.Store(int64(rtt / 2)) }

// packet is a packet with the times at which it was read and is due.
type packet struct {
	at   time.Time
	due  time.Time
	data []byte
}

// carry relays packets in one direction. All have the same delay, so they stay in order.
func (l *slowLink) carry(from, to *os.File, sent bool) {
	queue := make(chan packet, linkQueue)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range queue {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data) // a full device drops packets, like any link
		}
	})
	defer writer.Wait()
	defer close(queue)
	for {
		data := make([]byte, tunMTU+64)
		n, err := from.Read(data)
		if err != nil {
			return
		}
		now := time.Now()
		p := packet{now, now.Add(time.Duration(l.delay.Load())), data[:n]}
		if tap := l.tap.Load(); tap != nil {
			(*tap)(p, sent)
		}
		queue <- p
	}
}

// openTun creates a TUN device in a namespace. It disappears when the file is closed.
func openTun(space, name string) (*os.File, error) {
	var file *os.File
	err := inside(space, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open /dev/net/tun: %w", err)
		}
		var req struct {
			name  [unix.IFNAMSIZ]byte
			flags uint16
			_     [22]byte
		}
		copy(req.name[:], name)
		req.flags = unix.IFF_TUN | unix.IFF_NO_PI
		if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), unix.TUNSETIFF, uintptr(unsafe.Pointer(&req))); e != 0 {
			_ = unix.Close(fd)
			return fmt.Errorf("make the device %s: %w", name, e)
		}
		file = os.NewFile(uintptr(fd), name)
		return nil
	})
	return file, err
}
