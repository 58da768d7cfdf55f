package net

import (
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// behindRouter puts this thread into a network namespace whose router, behind a TUN device, answers each TCP segment
// over IPv6 with an ICMPv6 error. One prefix has a route that prohibits.
func behindRouter(from net.IP, code byte) (end func(), err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ifr, err := unix.NewIfreq("tunicmp")
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	for _, args := range []string{"link set lo up", "link set tunicmp up", "-6 addr add fd00:1::2/64 dev tunicmp nodad",
		"-6 route add fd00:2::/64 via fd00:1::1 dev tunicmp", "-6 route add prohibit fd00:3::/64"} {
		if err == nil {
			err = exec.Command("ip", strings.Fields(args)...).Run()
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		packet := make([]byte, 2048)
		for {
			select {
			case <-stop:
				return
			default:
			}
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, _ := unix.Poll(ready, 50); n < 1 {
				continue
			}
			n, err := unix.Read(fd, packet)
			const header, tcp = 40, 6
			if err == nil && n > header && packet[0]>>4 == 6 && packet[6] == tcp {
				_, _ = unix.Write(fd, icmp6(from, net.IP(packet[8:24]), code, packet[:n]))
			}
		}
	}()
	return func() { close(stop); <-stopped; _ = unix.Close(fd) }, nil
}

// icmp6 is an ICMPv6 error of type 1 about a packet.
func icmp6(from, to net.IP, code byte, about []byte) []byte {
	body := append([]byte{1, code, 0, 0, 0, 0, 0, 0}, about...)
	p := make([]byte, 40, 40+len(body))
	p[0], p[6], p[7] = 0x60, 58, 64
	binary.BigEndian.PutUint16(p[4:], uint16(len(body)))
	copy(p[8:], from.To16())
	copy(p[24:], to.To16())
	sum := uint32(len(body)) + 58
	for _, part := range [][]byte{p[8:40], body} {
		for i := 0; i < len(part); i += 2 {
			word := uint32(part[i]) << 8
			if i+1 < len(part) {
				word |= uint32(part[i+1])
			}
			sum += word
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(body[2:], ^uint16(sum))
	return append(p, body...)
}

// onThread calls do on a thread of its own, which ends with the namespaces that do made. It is never the process's
// first thread, whose namespaces are those of /proc/self.
func onThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			err := onThread(do)
			runtime.UnlockOSThread()
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

// TestARouterThatProhibitsIsNotThisMachine: over IPv6 the errno of a router's "administratively prohibited" is that of
// a local policy.
func TestARouterThatProhibitsIsNotThisMachine(t *testing.T) {
	tier.NeedsHost(t)
	kit.NeedsRoot(t)
	ctx := kit.Patient(t)
	for code, errno := range map[byte]string{1: "EACCES", 5: "EACCES", 3: "EHOSTUNREACH"} {
		if err := onThread(func() error {
			end, err := behindRouter(net.ParseIP("fd00:1::1"), code)
			if err != nil {
				return err
			}
			defer end()
			// A probe dials on threads of its own, so the dialer is called on this one.
			_, err = dialAddress(ctx, "tcp", "[fd00:2::9]:443")
			var facts diag.TCPFacts
			refusedBy(&facts, err)
			if word := connectWord(err); word != diag.TCPNoRoute || measure.ErrnoName(err) != errno ||
				(facts.ProhibitedBy == "fd00:1::1") != (errno == "EACCES") || facts.RefusedHere {
				t.Errorf("code %d: %s, %+v: %v", code, word, facts, err)
			}
			facts = diag.TCPFacts{}
			_, err = dialAddress(ctx, "tcp", "[fd00:3::9]:443")
			refusedBy(&facts, err)
			if word := connectWord(err); word != diag.TCPDenied || !facts.RefusedHere || facts.ProhibitedBy != "" {
				t.Errorf("a route that prohibits: %s, %+v: %v", word, facts, err)
			}
			return nil
		}); err != nil {
			t.Skipf("needs ip, a network namespace and a TUN device: %v", err)
		}
	}
}
