package reading

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// This file is about names that have IPv4 and IPv6 addresses. A probe dials them as the agent does, so the working
// family hides a dead one: the delay is a warning, and a finding names a family that leads to another host.

// Six reports whether an address is IPv6; false for anything that is not an address.
func Six(addr string) bool {
	a, err := netip.ParseAddr(addr)
	return err == nil && a.Unmap().Is6()
}

// Family names the address family of addr for people.
func Family(addr string) string {
	if Six(addr) {
		return "IPv6"
	}
	return "IPv4"
}

// otherFamily returns the first address of the family that f's connection did not use; "" if the name has none, or if
// the address was not looked up.
func otherFamily(f *diag.Fact) string {
	used := RemoteIP(f)
	if f.DNS == nil || f.Request.Resolve != "" || used == "" {
		return ""
	}
	i := slices.IndexFunc(f.DNS.Addresses, func(a string) bool { return Six(a) != Six(used) })
	if i < 0 {
		return ""
	}
	return f.DNS.Addresses[i]
}

// FamilyCounter returns a bare connection to the other address family, for a step that got an answer over its own.
func FamilyCounter(s hop.Step, f *diag.Fact) (hop.Counter, bool) {
	if !s.BothFamilies || (f.Failure != diag.OK && Rung(f.Phase) <= Rung("tls")) {
		return hop.Counter{}, false
	}
	other := otherFamily(f)
	if other == "" {
		return hop.Counter{}, false
	}
	_, port, err := net.SplitHostPort(f.TCP.Remote)
	if err != nil {
		return hop.Counter{}, false
	}
	return hop.Counter{Name: CounterOtherFamily, From: f.Vantage, Request: diag.Request{
		Op: diag.OpTCP, Target: net.JoinHostPort(f.DNS.Name, port), Resolve: other, View: f.Request.View,
		TimeoutMS: hop.CounterTimeoutMS,
	}}, true
}

// RefusesFamily reports whether a connection failed because of its far side or the path to it.
func RefusesFamily(k *diag.Fact) bool {
	switch k.Failure {
	case diag.TCPTimeout, diag.TCPRefused, diag.TCPReset, diag.TCPNoRoute, diag.TCPDenied:
		return true
	}
	return false
}

// WarnedBefore reports whether an earlier hop saw the same of this name from the same vantage.
func WarnedBefore(id diag.HopID, c *hop.Case, f *diag.Fact) bool {
	for k := range c.All() {
		base, is := strings.CutSuffix(k.ID, "~"+CounterOtherFamily)
		e := c.FactByID(base)
		if !is || e == nil || e.DNS == nil || !RefusesFamily(k) {
			continue
		}
		at, _, _ := strings.Cut(base, "/")
		if e.Vantage == f.Vantage && e.DNS.Name == f.DNS.Name &&
			hop.Position(c.Chain.List(), diag.HopID(at)) < hop.Position(c.Chain.List(), id) {
			return true
		}
	}
	return false
}

// FamilyCost describes what the dead address costs a connection, as far as it was measured.
func FamilyCost(f *diag.Fact, dead string) string {
	var lost, won *diag.TCPAttempt
	for i := range f.TCP.Attempts {
		a := &f.TCP.Attempts[i]
		host, _, _ := net.SplitHostPort(a.Remote) // text that cannot be split is not a dialled address
		switch {
		case a.Connected:
			won = a
		case host == dead:
			lost = a
		}
	}
	switch {
	case won == nil:
		return ""
	case lost == nil:
		return fmt.Sprintf(": connections are not delayed as long as %s answers first", Family(RemoteIP(f)))
	case won.AfterMS > 0:
		return fmt.Sprintf(": every connection costs %d ms more", won.AfterMS)
	}
	return ""
}

// dialled returns the addresses that a failed connection tried, and notes a host without any route for them.
func dialled(f *diag.Fact) []string {
	if len(f.TCP.Attempts) < 2 {
		return noRouteForSix(f, []string{f.TCP.Remote})
	}
	var out []string
	for _, a := range f.TCP.Attempts {
		word := cmp.Or(string(a.Failure), "no answer")
		out = append(out, a.Remote+" "+word)
	}
	return noRouteForSix(f, out)
}

func noRouteForSix(f *diag.Fact, out []string) []string {
	if f.Failure != diag.TCPNetUnreachable || f.DNS == nil || len(f.DNS.Addresses) == 0 ||
		slices.ContainsFunc(f.DNS.Addresses, func(a string) bool { return !Six(a) }) {
		return out
	}
	return append(out, "the name has IPv6 addresses only, and there is no IPv6 route here")
}
