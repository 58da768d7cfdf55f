package probe

import (
	"encoding/binary"
	"net"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
)

// router is a machine behind a TUN device that answers each TCP segment over IPv6 with an ICMPv6 error.
func router(t *testing.T, from net.IP, code byte) {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs /dev/net/tun: %v", err)
	}
	ifr, err := unix.NewIfreq("tunicmp")
	if err != nil {
		t.Fatal(err)
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		t.Skipf("needs a TUN device: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	go func() {
		packet := make([]byte, 2048)
		for {
			n, err := unix.Read(fd, packet)
			if err != nil {
				return
			}
			const header, tcp = 40, 6
			if n > header && packet[0]>>4 == 6 && packet[6] == tcp {
				_, _ = unix.Write(fd, icmp6(from, net.IP(packet[8:24]), code, packet[:n]))
			}
		}
	}()
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

// TestARouterThatProhibitsIsNotThisMachine: over IPv6 the errno of a router's "administratively prohibited" is that of
// a local policy.
func TestARouterThatProhibitsIsNotThisMachine(t *testing.T) {
	needsRoot(t)
	runtime.LockOSThread() // never unlocked: the thread ends with its namespace
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("needs ip %v: %v: %s", args, err, out)
		}
	}
	for code, errno := range map[byte]string{1: "EACCES", 5: "EACCES", 3: "EHOSTUNREACH"} {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Skipf("needs a network namespace: %v", err)
		}
		router(t, net.ParseIP("fd00:1::1"), code)
		ip("link", "set", "lo", "up")
		ip("link", "set", "tunicmp", "up")
		ip("-6", "addr", "add", "fd00:1::2/64", "dev", "tunicmp", "nodad")
		ip("-6", "route", "add", "fd00:2::/64", "via", "fd00:1::1", "dev", "tunicmp")
		ip("-6", "route", "add", "prohibit", "fd00:3::/64")
		// A probe dials on threads of its own, so the dialer is called on this one.
		_, err := dialAddress(patient(t), "tcp", "[fd00:2::9]:443")
		var facts diag.TCPFacts
		refusedBy(&facts, err)
		if word := connectWord(err); word != diag.TCPNoRoute || errnoName(err) != errno ||
			(facts.ProhibitedBy == "fd00:1::1") != (errno == "EACCES") || facts.RefusedHere {
			t.Errorf("code %d: %s, %+v: %v", code, word, facts, err)
		}
		facts = diag.TCPFacts{}
		_, err = dialAddress(patient(t), "tcp", "[fd00:3::9]:443")
		refusedBy(&facts, err)
		if word := connectWord(err); word != diag.TCPDenied || !facts.RefusedHere || facts.ProhibitedBy != "" {
			t.Errorf("a route that prohibits: %s, %+v: %v", word, facts, err)
		}
	}
}
