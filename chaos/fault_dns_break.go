package chaos

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// dnsBreakParams are the parameters of dns-break.
type dnsBreakParams struct {
	How  string `yaml:"how" json:"how" jsonschema:"enum=timeout,enum=refused,enum=nxdomain,enum=servfail" jsonschema_description:"timeout: answers do not come; refused: questions are rejected; nxdomain: every answer says that there is no such name; servfail: every answer says that the server failed"`
	Name string `yaml:"name" json:"name" jsonschema_description:"a name that must not be found any more"`
}

const resolvFile = "/etc/resolv.conf"

// dnsBreak breaks the DNS. For silence it drops the responses: the sender of a dropped query would get an error at
// once, which is another fault. A wrong answer is the real response with another code, rewritten by the packet
// filter, so that it needs no extra server, comes from the expected address, and ends with the kernel's timeout.
func dnsBreak() Kind {
	return kind(Kind{
		Name: "dns-break", Title: "make DNS queries time out or fail", Tier: step.TierKernel, On: []Role{RoleNode, RolePeer},
		About: "Answers from port 53 are dropped on their way in, or the packet filter has them say that there is no such " +
			"name, or that the server failed; or questions are rejected. The hosts file still works.",
	}, func(p *dnsBreakParams) []problem {
		return append(word("how", p.How, "timeout", "refused", "nxdomain", "servfail"), required("name", p.Name != "")...)
	}, func(p *dnsBreakParams, _ *Case) Questions {
		return Questions{Tools: []string{"nft", "getent"}, Names: []string{p.Name}, Texts: []string{hostsFile, resolvFile}}
	}, func(p *dnsBreakParams, c *Case) (Made, *step.Refusal) {
		if no := c.needTools("nft"); no != nil {
			return Made{}, no
		}
		if len(c.Machine.Names[p.Name]) == 0 {
			return Made{}, step.Refuse(step.RefusedUnsupported, "%s leads nowhere on %s already", p.Name, c.Machine.ID)
		}
		if len(hostsOf(c.Machine.Files[hostsFile].Text, p.Name)) > 0 {
			return Made{}, step.Refuse(step.RefusedUnsupported,
				"%s is in the hosts file of %s, so the DNS is not asked for it", p.Name, c.Machine.ID)
		}
		b, title := p.block()
		if by, other := otherWay(c.Machine.Files[resolvFile].Text); other && (p.How == "nxdomain" || p.How == "servfail") {
			return Made{}, step.Refuse(step.RefusedUnsupported,
				"%s of %s has %q: only an answer by UDP over IPv4 can be rewritten", resolvFile, c.Machine.ID, by)
		}
		made := Made{Title: title, Changes: []step.Change{{Block: b}}}
		if c.tool("getent") != "" && c.tool("timeout") != "" {
			made.Verify = []step.Check{{Name: p.Name + " is not found", Within: verifyWithin,
				Exec: step.Exec{Argv: []string{c.tool("timeout"), "3", c.tool("getent"), "ahosts", p.Name}, Exits: []int{2, 124}}}}
		}
		return made, nil
	})
}

// block returns the packet filter's change, and its title.
func (p *dnsBreakParams) block() (*step.Block, string) {
	four, six := "0.0.0.0/0", "::/0"
	b := &step.Block{Direction: "in", Proto: "any", Remote: []string{four, six}, Ports: []uint16{53}, Verdict: step.Drop}
	switch p.How {
	case "refused":
		b.Direction, b.Verdict = "out", step.Refused
		return b, "every question to the DNS is rejected"
	case "nxdomain":
		b.Proto, b.Remote, b.Verdict = "udp", []string{four}, step.NameError
		return b, "every answer of the DNS says that there is no such name"
	case "servfail":
		b.Proto, b.Remote, b.Verdict = "udp", []string{four}, step.ServerFailure
		return b, "every answer of the DNS says that the server failed"
	}
	return b, "no answer of the DNS comes in"
}

// otherWay finds a line of a resolv.conf that makes the resolver use anything but UDP over IPv4.
func otherWay(text string) (string, bool) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		a, err := netip.ParseAddr(words[1])
		if (words[0] == "nameserver" && err == nil && !a.Unmap().Is4()) ||
			(words[0] == "options" && slices.Contains(words, "use-vc")) {
			return strings.TrimSpace(line), true
		}
	}
	return "", false
}
