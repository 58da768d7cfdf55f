package reading

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// The name servers of a host may disagree. If they take turns, which of them answered a probe is chance.

// nameServersDiffer describes name servers of which some give addresses, and others deny the same name or give only
// other addresses; "" if they agree. A server that fails, or does not answer, is passed over by resolvers.
func nameServersDiffer(d *diag.DNSFacts) string {
	if d == nil {
		return ""
	}
	var texts []string
	var first []string
	differs, gives := false, false
	for i := range d.Servers {
		a := &d.Servers[i]
		switch {
		case len(a.Addresses) > 0 && a.Failure == diag.OK:
			texts = append(texts, a.Server+" gives "+hop.Clip(a.Addresses))
			if gives && !slices.ContainsFunc(a.Addresses, func(x string) bool { return slices.Contains(first, x) }) {
				differs = true
			}
			if gives = true; first == nil {
				first = a.Addresses
			}
		case a.Denies():
			texts = append(texts, fmt.Sprintf("%s gives no address (%s)", a.Server, a.RCode))
		}
	}
	if differs || (gives && deniedBySome(d)) {
		return strings.Join(texts, ", ")
	}
	return ""
}

// OwnResolver reports whether a failed look-up asked a resolver on the asking machine itself.
func OwnResolver(f *diag.Fact) bool {
	return InPhase(f, "dns") && f.DNS != nil && loopbackServer(f.DNS.Server) &&
		!slices.ContainsFunc(f.DNS.Servers, func(a diag.DNSAnswer) bool { return !loopbackServer(a.Server) })
}

// NoResolver reports whether nothing listens at the only resolver, which is on the asking machine itself.
func NoResolver(f *diag.Fact) bool {
	return OwnResolver(f) && !f.DNS.Truncated && f.Failure == diag.DNSRefused && f.Errno == "ECONNREFUSED"
}

// Knows reports whether a name server gave an address.
func Knows(a diag.DNSAnswer) bool { return len(a.Addresses) > 0 && a.Failure == diag.OK }

// behindWords describes the servers behind a resolver on the asking machine; "" if none was asked.
func behindWords(d *diag.DNSFacts) string {
	var texts []string
	for i := range d.Behind {
		a := &d.Behind[i]
		if Knows(*a) {
			return fmt.Sprintf(", while %s, which %s names, gives %s", a.Server, d.BehindFile, hop.Clip(a.Addresses))
		}
		texts = append(texts, a.Server+" "+cmp.Or(a.RCode, string(a.Failure)))
	}
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprintf(", and the servers that %s names fail as well: %s", d.BehindFile, hop.Clip(texts))
}

func loopbackServer(server string) bool {
	a, err := netip.ParseAddrPort(server)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// resolverWords describes a resolver on the asking machine itself; "" for any other.
func resolverWords(f *diag.Fact) string {
	if !OwnResolver(f) {
		return ""
	}
	place := "the node itself"
	switch {
	case f.OwnNetwork:
		place = "the agent's own network namespace"
	case f.Vantage != hop.Node:
		place = ProberOf(f)
	}
	text := "a resolver on " + place
	if NoResolver(f) {
		text += ", where nothing listens"
	} else {
		text += behindWords(f.DNS)
	}
	if f.DNS.Unset {
		text += ": its resolv.conf names no server"
	}
	return text
}

// CompletedName describes a failure behind a name that the search list completed: a wildcard of that domain answers for
// every name, and leads elsewhere. "" for a name without a dot, which is meant to be completed.
func CompletedName(f *diag.Fact) string {
	if f.Failure == diag.OK || f.DNS == nil || f.DNS.Completed == "" || !strings.Contains(f.DNS.Name, ".") {
		return ""
	}
	return "the answer came for " + strings.TrimSuffix(f.DNS.Completed, ".") + " (search list of /etc/resolv.conf)"
}

// deniedBySome reports whether a name server denies the name.
func deniedBySome(d *diag.DNSFacts) bool {
	return slices.ContainsFunc(d.Servers, func(a diag.DNSAnswer) bool { return a.Denies() })
}

// TurnsDiffer is nameServersDiffer for a host whose name servers take turns: any of these results may be the next one.
func TurnsDiffer(f *diag.Fact) string {
	if f == nil || f.DNS == nil || !f.DNS.Rotates {
		return ""
	}
	return nameServersDiffer(f.DNS)
}

// slowLookUp is a look-up that waited for a server: a resolver asks the next one after a second at the earliest.
const slowLookUp = 1000 // ms

// nameServerTrouble describes what is wrong with a host's name servers although a look-up had a result: they take
// turns, and some deny the name; or it came late, since the first of them gives no answer. "" if nothing is. Different
// addresses alone are common for a healthy name.
func nameServerTrouble(c *hop.Case, f *diag.Fact) string {
	if f == nil || f.DNS == nil {
		return ""
	}
	if words := TurnsDiffer(f); words != "" && deniedBySome(f.DNS) {
		return fmt.Sprintf("the %s's name servers take turns and do not agree about %s: %s; some of its look-ups fail",
			f.Vantage, f.DNS.Name, words)
	}
	if first := unheardFirst(c, f); first != "" {
		return fmt.Sprintf("the %s's first name server %s gave no answer, so the look-up of %s waited for another one, and "+
			"took %d ms", f.Vantage, first, f.DNS.Name, f.DNS.DurationMS)
	}
	return ""
}

// unheardFirst returns the first name server of a look-up that had to wait for another one; "" if that answered another
// look-up of this walk, and only lost a packet here.
func unheardFirst(c *hop.Case, f *diag.Fact) string {
	if len(f.DNS.Addresses) == 0 || f.DNS.DurationMS < slowLookUp || len(f.DNS.Servers) < 2 {
		return ""
	}
	first := &f.DNS.Servers[0]
	heard := first.RCode != "" || len(first.Addresses) > 0 || (first.Failure != diag.OK && !first.Failure.Silent())
	if heard || first.Server == f.DNS.Server || f.DNS.Rotates {
		return ""
	}
	for k := range c.All() {
		if k.Vantage == f.Vantage && k.DNS != nil && k.DNS.Server == first.Server && len(k.DNS.Addresses) > 0 {
			return ""
		}
	}
	return first.Server
}

// NameServerWarnings warns of trouble with name servers, whichever answered this walk. It does so at the first hop that
// looked up the name from that vantage.
func NameServerWarnings(h *hop.Hop, c *hop.Case) []diag.Finding {
	var out []diag.Finding
	for i := range h.Steps {
		s := &h.Steps[i]
		f := c.Fact(h.ID, s.Name)
		words := nameServerTrouble(c, f)
		if s.Uses != "" || words == "" || warnedOfNames(h.ID, s.Name, c, f) {
			continue
		}
		w := Warn("", f, "%s", words)
		w.Failure, w.Culprit = diag.OK, ""
		out = append(out, w)
	}
	return out
}

// warnedOfNames reports whether an earlier step saw the same of this name from the same vantage.
func warnedOfNames(hop diag.HopID, step string, c *hop.Case, f *diag.Fact) bool {
	for _, h := range c.Chain.List() {
		for i := range h.Steps {
			s := &h.Steps[i]
			if h.ID == hop && s.Name == step {
				return false
			}
			k := c.Fact(h.ID, s.Name)
			if s.Uses == "" && k != nil && k.Vantage == f.Vantage && k.DNS != nil &&
				(k.DNS.Name == f.DNS.Name || !f.DNS.Rotates) && nameServerTrouble(c, k) != "" {
				return true
			}
		}
	}
	return false
}

// ProberOf names what a probe ran on, if it is not the node itself.
func ProberOf(f *diag.Fact) string {
	switch {
	case f.Vantage == hop.Node && f.Request.Op != diag.OpSSH:
		return "the operator's login on the node"
	case f.Vantage == hop.Platform:
		return "the platform's host"
	}
	return "this operator's machine"
}
