package chaos

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// netBlockParams are the parameters of net-block.
type netBlockParams struct {
	To      []string `yaml:"to,flow" json:"to" jsonschema:"minItems=1" jsonschema_description:"names, addresses or prefixes of the far end; names are looked up on the machine"`
	Ports   []uint16 `yaml:"ports,omitempty,flow" json:"ports,omitempty" jsonschema_description:"of the far end; none: all"`
	Proto   string   `yaml:"proto,omitempty" json:"proto,omitempty" jsonschema:"enum=tcp,enum=udp,enum=any" jsonschema_description:"default tcp"`
	Verdict string   `yaml:"verdict" json:"verdict" jsonschema:"enum=drop,enum=reject,enum=reset" jsonschema_description:"drop: silence; reject: an ICMP error; reset: a TCP reset"`
	User    string   `yaml:"user,omitempty" json:"user,omitempty" jsonschema_description:"only what this user's processes send"`
}

// netBlock blocks a machine's traffic to a destination.
func netBlock() Kind {
	return kind(Kind{
		Name: "net-block", Title: "drop or refuse traffic to a host", Tier: step.TierKernel,
		On: []Role{RoleNode, RolePlatform, RolePeer},
		About: "One table of nftables for both families, whose elements the kernel drops at the drill's TTL. Never the " +
			"operator's own SSH.",
	}, func(p *netBlockParams) []problem {
		return slices.Concat(required("to", len(p.To) > 0), word("verdict", p.Verdict, "drop", "reject", "reset"),
			optional("proto", p.Proto, "tcp", "udp", "any"),
			want("verdict", p.Verdict != "reset" || p.Proto == "" || p.Proto == "tcp", "only tcp can be reset"))
	}, func(p *netBlockParams, _ *Case) Questions {
		q := Questions{Tools: []string{"nft", "curl", "setpriv"}}
		for _, to := range p.To {
			if _, err := netip.ParsePrefix(to); err != nil {
				q.Names = append(q.Names, to)
			}
		}
		if p.User != "" {
			q.Users = []string{p.User}
		}
		return q
	}, makeNetBlock)
}

func makeNetBlock(p *netBlockParams, c *Case) (Made, *step.Refusal) {
	if no := c.needTools("nft"); no != nil {
		return Made{}, no
	}
	b := &step.Block{Direction: "out", Proto: cmp.Or(p.Proto, "tcp"), Ports: p.Ports,
		Verdict: map[string]string{"drop": step.Drop, "reject": step.Refused, "reset": step.Reset}[p.Verdict]}
	for _, to := range p.To {
		if prefix, err := netip.ParsePrefix(to); err == nil {
			b.Remote = append(b.Remote, prefix.Masked().String())
			continue
		}
		if len(c.Machine.Names[to]) == 0 {
			return Made{}, step.Refuse(step.RefusedUnsupported, "%s leads nowhere on %s, so there is nothing to block", to,
				c.Machine.ID)
		}
		for _, a := range c.Machine.Names[to] {
			b.Remote = append(b.Remote, a.String())
		}
	}
	slices.Sort(b.Remote)
	b.Remote = slices.Compact(b.Remote)
	if p.User != "" {
		u, no := c.needUser(p.User)
		if no != nil {
			return Made{}, no
		}
		b.UID = new(uint32(u.UID))
	}
	made := Made{
		Title:   p.Verdict + " what goes to " + strings.Join(p.To, ", ") + ports(p.Ports),
		Changes: []step.Change{{Block: b}},
	}
	if c.tool("curl") != "" && b.Proto != "udp" {
		made.Verify = append(made.Verify, c.blocked(b))
	}
	return made, nil
}

// blocked tries one blocked address: curl exits with 28 for a timeout and 7 for a refusal.
func (c *Case) blocked(b *step.Block) step.Check {
	host, port := oneOf(b.Remote), uint16(443)
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		host = "[" + host + "]"
	}
	if len(b.Ports) > 0 {
		port = b.Ports[0]
	}
	argv := []string{c.tool("curl"), "-sk", "-o", "/dev/null", "--connect-timeout", "1", "-m", "2",
		fmt.Sprintf("https://%s:%d/", host, port)}
	if b.UID != nil && c.tool("setpriv") != "" {
		argv = append([]string{c.tool("setpriv"), "--reuid", strconv.Itoa(int(*b.UID)), "--clear-groups"}, argv...)
	}
	exits := []int{7}
	if b.Verdict == step.Drop {
		exits = []int{28}
	}
	return step.Check{Name: "no connection to " + host, Exec: step.Exec{Argv: argv, Exits: exits}, Within: verifyWithin}
}

// oneOf picks an address among remotes that a peer may have: a single address, or the first host address of a
// prefix, since a kernel may refuse to connect to a network address whatever is blocked.
func oneOf(remotes []string) string {
	for _, r := range remotes {
		if !strings.Contains(r, "/") {
			return r
		}
	}
	p, err := netip.ParsePrefix(remotes[0])
	if err != nil || p.IsSingleIP() {
		return strings.Split(remotes[0], "/")[0]
	}
	return p.Addr().Next().String()
}

func ports(all []uint16) string {
	if len(all) == 0 {
		return ""
	}
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = strconv.Itoa(int(p))
	}
	return ":" + strings.Join(words, ",")
}
