package net

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// sourceGetent is the source of a look-up that a program made with the C library.
const sourceGetent = "getent"

// Exit code of getent for a name without an address. Its others are about the call, and so is any of another getent.
const getentUnknown = 2

// maxGetent bounds what is kept of its output: a line for each address and kind of socket.
const maxGetent = 64 << 10

// getentPaths are where a distribution has getent. It is not looked for in PATH: nobody else's program runs here.
var getentPaths = [...]string{"/usr/bin/getent", "/bin/getent"}

// getent looks Target's host up as the programs of this machine do: with the C library, and so with all that
// nsswitch.conf and resolv.conf make of it, its waiting included. Failures: dns_timeout, dns_nxdomain, unsupported (no
// getent, or one that has no ahosts).
func (p *Prober) getent(ctx context.Context, req diag.Request, f *diag.Fact) {
	c := p.newExchange(req, f)
	if c == nil {
		return
	}
	f.Target = c.to.host // nothing is asked of a port there
	f.DNS = &diag.DNSFacts{Name: c.to.host, Source: sourceGetent}
	if addr, err := netip.ParseAddr(c.to.host); err == nil { // no program looks it up
		f.DNS.Source, f.DNS.Addresses = sourceLiteral, []string{addr.String()}
		return
	}
	program, err := p.names.trustedGetent()
	if err != nil {
		f.DNS = nil
		c.failed(phaseDNS, diag.Unsupported, err)
		return
	}
	began := time.Now()
	a, err := host.Command{Most: maxGetent}.Run(ctx, program, "ahosts", c.to.host)
	f.DNS.DurationMS = since(began)
	switch addrs := getentAddresses(string(a.Out)); {
	case err != nil:
		c.stopped(ctx, phaseDNS, diag.DNSTimeout, diag.Unsupported, err)
	case a.Code == getentUnknown:
		c.failed(phaseDNS, noSuchName, fmt.Errorf("getent knows no address of %s", c.to.host))
	case a.Code != 0, len(addrs) == 0:
		c.failed(phaseDNS, diag.Unsupported, fmt.Errorf("%s ended with status %d: %s", program, a.Code, a.Complaint()))
	default:
		for _, addr := range sixFirst(addrs) {
			f.DNS.Addresses = append(f.DNS.Addresses, addr.String())
		}
	}
}

// getentAddresses returns the addresses at the beginnings of the lines of getent ahosts.
func getentAddresses(out string) (addrs []netip.Addr) {
	for line := range strings.Lines(out) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if addr, err := netip.ParseAddr(first); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// trustedGetent returns the machine's own getent: one that only root can have put there.
func (n nameFiles) trustedGetent() (string, error) {
	paths := getentPaths[:]
	if n.getent != "" {
		paths = []string{n.getent}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		sys, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !info.Mode().IsRegular() || (sys.Uid != 0 && int(sys.Uid) != os.Geteuid()) ||
			info.Mode().Perm()&0o022 != 0 {
			return "", fmt.Errorf("%s is not root's alone", path)
		}
		return path, nil
	}
	return "", errors.New("this machine has no getent")
}
