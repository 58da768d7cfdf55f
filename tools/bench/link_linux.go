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
	labSpace    = "gpuaas-lab"   // namespace of the lab's bridge
	benchSpace  = "gpuaas-bench" // our own namespace: both sides of the benchmark run in it
	labBridge   = "lab0"
	benchTun    = "bench-near"
	labTun      = "bench-far"
	operator    = "10.231.77.2" // the operator's address, at the slow end of the link
	bridgeOwn   = "10.231.77.3" // the bridge's address while the link exists: it needs one to send ARP requests
	labNetwork  = "10.231.77.0/24"
	tunMTU      = 1500
	linkQueue   = 8192
	goneTimeout = 2 * time.Second
)

// slowLink connects two network namespaces by two TUN devices and relays their packets with a delay. Both ends use
// real TCP, as with `tc netem`, which not every kernel has. The lab's machines need no change: the bridge answers
// for the operator's address (proxy ARP) and routes it to the far device.
type slowLink struct {
	near, far *os.File
	delay     atomic.Int64 // one way, nanoseconds
	wg        sync.WaitGroup
}

// linkPlan returns the commands that configure the slow link once its devices exist.
func linkPlan() [][]string {
	near := func(args ...string) []string { return append([]string{"ip", "-n", benchSpace}, args...) }
	far := func(args ...string) []string { return append([]string{"ip", "-n", labSpace}, args...) }
	set := func(key, value string) []string {
		return []string{"ip", "netns", "exec", labSpace, "sysctl", "-q", "-w", key + "=" + value}
	}
	return [][]string{
		near("link", "set", "lo", "up"),
		near("address", "add", operator+"/24", "dev", benchTun),
		near("link", "set", benchTun, "mtu", fmt.Sprint(tunMTU), "up"),
		far("link", "set", labTun, "mtu", fmt.Sprint(tunMTU), "up"),
		far("address", "add", bridgeOwn+"/32", "dev", labBridge),
		far("route", "add", labNetwork, "dev", labBridge, "src", bridgeOwn),
		far("route", "add", operator+"/32", "dev", labTun),
		set("net.ipv4.ip_forward", "1"),
		set("net.ipv4.conf."+labBridge+".proxy_arp", "1"),
	}
}

// unlinkPlan returns the commands that remove the slow link. Each may fail, since its object may not exist.
func unlinkPlan() [][]string {
	return [][]string{
		{"ip", "netns", "delete", benchSpace},
		{"ip", "-n", labSpace, "link", "delete", labTun},
		{"ip", "-n", labSpace, "route", "delete", labNetwork, "dev", labBridge},
		{"ip", "-n", labSpace, "address", "delete", bridgeOwn + "/32", "dev", labBridge},
		{"ip", "netns", "exec", labSpace, "sysctl", "-q", "-w", "net.ipv4.conf." + labBridge + ".proxy_arp=0"},
		{"ip", "netns", "exec", labSpace, "sysctl", "-q", "-w", "net.ipv4.ip_forward=0"},
	}
}

// newSlowLink removes the remains of an earlier run, and connects the two namespaces.
func newSlowLink(ctx context.Context) (*slowLink, error) {
	removeLink(ctx)
	if err := command(ctx, "ip", "netns", "add", benchSpace); err != nil {
		return nil, err
	}
	l := &slowLink{}
	var err1, err2 error
	l.near, err1 = openTun(benchSpace, benchTun)
	l.far, err2 = openTun(labSpace, labTun)
	if err := errors.Join(err1, err2); err != nil {
		l.close()
		return nil, err
	}
	for _, argv := range linkPlan() {
		if err := command(ctx, argv...); err != nil {
			l.close()
			return nil, err
		}
	}
	l.wg.Go(func() { l.carry(l.near, l.far) })
	l.wg.Go(func() { l.carry(l.far, l.near) })
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
	removeLink(ctx)
}

func removeLink(ctx context.Context) {
	for _, argv := range unlinkPlan() {
		_ = command(ctx, argv...)
	}
}

// setRTT applies to packets that arrive from now on.
func (l *slowLink) setRTT(rtt time.Duration) { l.delay.Store(int64(rtt / 2)) }

// packet is a packet with the time at which it is due.
type packet struct {
	due  time.Time
	data []byte
}

// carry relays packets in one direction. All have the same delay, so they stay in order.
func (l *slowLink) carry(from, to *os.File) {
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
		queue <- packet{time.Now().Add(time.Duration(l.delay.Load())), data[:n]}
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
