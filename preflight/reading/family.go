package reading

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// This file is about names that have several addresses. A probe dials them as the agent does, so a working one hides a
// dead one: that is a warning, and a finding names a family that leads to another host.

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
	i := slices.IndexFunc(lookedUp(f), func(a string) bool { return Six(a) != Six(used) })
	if i < 0 {
		return ""
	}
	return f.DNS.Addresses[i]
}

// lookedUp returns the addresses of f's name; none if they were not looked up, or none was connected to.
func lookedUp(f *diag.Fact) []string {
	if f.DNS == nil || f.Request.Resolve != "" || RemoteIP(f) == "" {
		return nil
	}
	return f.DNS.Addresses
}

// further names the counter-probes of what else a name leads to: its other address family, then the further addresses
// of the family that was used, as many as are dialled.
var further = [...]string{CounterOtherFamily, "other-address-1", "other-address-2", "other-address-3"}

// AddressCounters returns bare connections to what else the name of a step leads to: the other address family, and the
// further addresses of the same one. The step got an answer over the address that it used.
func AddressCounters(s hop.Step, f *diag.Fact) []hop.Counter {
	if !s.Policy.BothFamilies || (f.Failure != diag.OK && Rung(f.Phase) <= Rung("tls")) {
		return nil
	}
	used := RemoteIP(f)
	_, port, err := net.SplitHostPort(cmp.Or(f.TCP, &diag.TCPFacts{}).Remote)
	if err != nil {
		return nil
	}
	var counters []hop.Counter
	dial := func(name, address string) {
		counters = append(counters, hop.Counter{Name: name, From: f.Vantage, Request: diag.Request{
			Op: diag.OpTCP, Target: net.JoinHostPort(f.DNS.Name, port), Resolve: address, View: f.Request.View,
			TimeoutMS: hop.CounterTimeoutMS,
		}})
	}
	if other := otherFamily(f); other != "" {
		dial(further[0], other)
	}
	n := 0
	for _, a := range lookedUp(f) {
		if Six(a) == Six(used) && a != used && n < len(further)-1 {
			n++
			dial(further[n], a)
		}
	}
	return counters
}

// OtherAddresses returns the connections of a step to what else its name leads to, see AddressCounters.
func OtherAddresses(c *hop.Case, id diag.HopID, step string) (all []*diag.Fact) {
	for _, name := range further {
		if k := c.Counter(id, step, name); k != nil && k.Request.Op == diag.OpTCP {
			all = append(all, k)
		}
	}
	return all
}

// RefusesFamily reports whether a connection failed because of its far side or the path to it.
func RefusesFamily(k *diag.Fact) bool {
	switch k.Failure {
	case diag.TCPTimeout, diag.TCPRefused, diag.TCPReset, diag.TCPNoRoute, diag.TCPDenied:
		return true
	}
	return false
}

// WarnedBefore reports whether an earlier hop saw the same of this address of the name, from the same vantage.
func WarnedBefore(id diag.HopID, c *hop.Case, f, dead *diag.Fact) bool {
	for _, h := range c.Chain.List() {
		if h.ID == id {
			return false
		}
		for i := range h.Steps {
			e := c.Fact(h.ID, h.Steps[i].Name)
			if e == nil || e.Vantage != f.Vantage || e.DNS == nil || e.DNS.Name != f.DNS.Name {
				continue
			}
			if slices.ContainsFunc(OtherAddresses(c, h.ID, h.Steps[i].Name), func(k *diag.Fact) bool {
				return RefusesFamily(k) && (k.Request.Resolve == dead.Request.Resolve || Six(k.Request.Resolve) != Six(RemoteIP(e)))
			}) {
				return true
			}
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
	case lost == nil && Six(dead) == Six(RemoteIP(f)):
		return fmt.Sprintf(": connections are not delayed as long as %s is tried first", RemoteIP(f))
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
