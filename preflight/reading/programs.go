package reading

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// The walk looks a name up by itself, as nsswitch.conf and resolv.conf say, and goes on with the first address. A
// program of the machine waits for all that the C library waits for, and may ask services that no file shows. So the
// same name is looked up once more by getent, and the two are compared.

// Programs is what a machine's programs get for a name, compared with the walk's own look-up.
type Programs struct {
	Failure diag.Failure // dns_timeout: they wait; dns_nxdomain: they get no address; dns_mismatch: another one
	Text    string
}

// slowerBy is how many times longer than the walk's own look-up a program's must take to count as slow: a busy machine
// is late at starting one.
const slowerBy = 2

// ProgramsGet compares the look-up programs, by getent, with those that the walk made of the same name; the zero value
// if they agree, or one of them was not measured.
func ProgramsGet(c *hop.Case, walked, programs *diag.Fact) (p Programs) {
	if walked == nil || programs == nil || programs.DNS == nil || walked.DNS == nil || len(walked.DNS.Addresses) == 0 ||
		walked.Request.Resolve != "" || programs.DNS.Source == "literal" || walked.DNS.Name != programs.DNS.Name {
		return p
	}
	name, own := walked.DNS.Name, fmt.Sprintf("this walk's own look-up took %d ms", walked.DNS.DurationMS)
	switch {
	case programs.Failure == diag.DNSTimeout:
		return Programs{diag.DNSTimeout, fmt.Sprintf("programs on the node wait at least %s to look up %s (getent), and %s%s",
			programs.DNS.DurationMS.Words(), name, own, whyTheyWait(walked.DNS))}
	case programs.Failure == diag.DNSNXDomain:
		return Programs{diag.DNSNXDomain, fmt.Sprintf("programs on the node get no address of %s (getent), and this walk's "+
			"own look-up gets %s (%s): nsswitch.conf, or a cache (nscd, sssd), keeps it from them", name,
			hop.Clip(walked.DNS.Addresses), Source(walked.DNS))}
	case programs.Failure != diag.OK:
		return p
	case programs.DNS.DurationMS >= slowLookUp && programs.DNS.DurationMS > slowerBy*walked.DNS.DurationMS:
		return Programs{diag.DNSTimeout, fmt.Sprintf("programs on the node wait %s to look up %s (getent), and %s%s",
			programs.DNS.DurationMS.Words(), name, own, whyTheyWait(walked.DNS))}
	case otherAddresses(c, walked, programs):
		return Programs{diag.DNSMismatch, fmt.Sprintf("programs on the node look up %s as %s (getent), and this walk as %s "+
			"(%s): a source of nsswitch.conf that no file shows (mdns, myhostname, sssd), or a cache (nscd), gives another",
			name, hop.Clip(programs.DNS.Addresses), hop.Clip(walked.DNS.Addresses), Source(walked.DNS))}
	}
	return p
}

// whyTheyWait describes what the walk's look-up shows of the wait, and what ends it.
func whyTheyWait(d *diag.DNSFacts) string {
	if d.Unanswered == "" {
		return "; find the source of nsswitch.conf, or the name server, that they wait for"
	}
	return fmt.Sprintf("; the name server %s left the query for %s unanswered, which they wait for: have it answer, or "+
		"set options single-request, or no-aaaa, in the node's resolv.conf", d.Server, d.Unanswered)
}

// otherAddresses reports whether programs get only addresses that no look-up of the walk on the node got, while these
// agree with each other: the addresses of a name that rotates are different each time.
func otherAddresses(c *hop.Case, walked, programs *diag.Fact) bool {
	known := slices.Clone(walked.DNS.Addresses)
	for i := range walked.DNS.Servers {
		known = append(known, walked.DNS.Servers[i].Addresses...)
	}
	same := sortedWords(walked.DNS.Addresses)
	for f := range c.All() {
		if f.Vantage != walked.Vantage || f.DNS == nil || f.DNS.Name != walked.DNS.Name || f == programs ||
			f.Request.Resolve != "" || f.Request.Op == diag.OpGetent || len(f.DNS.Addresses) == 0 {
			continue
		}
		if sortedWords(f.DNS.Addresses) != same {
			return false
		}
	}
	return !slices.ContainsFunc(programs.DNS.Addresses, func(a string) bool { return slices.Contains(known, a) })
}

func sortedWords(words []string) string {
	return strings.Join(slices.Sorted(slices.Values(words)), " ")
}
