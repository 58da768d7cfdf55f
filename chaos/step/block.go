package step

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Block stops traffic between the machine and remote addresses. In both directions it names the remote end, so
// that a reader can tell whether it affects a connection. The kernel drops its elements at the drill's TTL.
type Block struct {
	Direction string   `json:"direction"`       // out: what the machine sends; in: what it receives
	Proto     string   `json:"proto"`           // tcp | udp | any
	Remote    []string `json:"remote"`          // addresses and prefixes, of either family
	Ports     []uint16 `json:"ports,omitempty"` // the remote's ports; empty = all
	UID       *uint32  `json:"uid,omitempty"`   // only traffic of this user's processes; out only
	Verdict   string   `json:"verdict"`
}

// Verdicts of a block, with what the sender sees, or what arrives in place of a response.
const (
	Drop          = "drop"             // nothing: a timeout
	Reset         = "reset"            // ECONNREFUSED; tcp only
	Refused       = "port-unreachable" // ECONNREFUSED
	NameError     = "nxdomain"         // the DNS response arrives with "no such name"
	ServerFailure = "servfail"         // the DNS response arrives with a failure
)

func (b *Block) validate() error {
	var errs []error
	if b.Direction != "out" && b.Direction != "in" {
		errs = append(errs, fmt.Errorf("direction %q: want out or in", b.Direction))
	}
	switch b.Proto {
	case "tcp", "udp", "any":
	default:
		errs = append(errs, fmt.Errorf("proto %q: want tcp, udp or any", b.Proto))
	}
	if len(b.Remote) == 0 {
		errs = append(errs, errors.New("no remote addresses"))
	}
	var nets []netip.Prefix
	for _, r := range b.Remote {
		p, err := prefix(r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, other := range nets {
			if p.Overlaps(other) {
				errs = append(errs, fmt.Errorf("remote %s and %s overlap", other, p))
			}
		}
		nets = append(nets, p)
	}
	for i, p := range b.Ports {
		if p == 0 || slices.Contains(b.Ports[:i], p) {
			errs = append(errs, fmt.Errorf("port %d is zero or named twice", p))
		}
	}
	if _, ok := verdicts()[b.Verdict]; !ok {
		errs = append(errs, fmt.Errorf("verdict %q", b.Verdict))
	}
	switch {
	case b.Verdict == Reset && b.Proto != "tcp":
		errs = append(errs, errors.New("only tcp can be reset"))
	case b.rewrites():
		errs = append(errs, b.answers())
	case b.Direction == "in" && b.Verdict != Drop:
		errs = append(errs, errors.New("what comes in can only be dropped: an answer would go to the remote"))
	case b.Direction == "in" && b.UID != nil:
		errs = append(errs, errors.New("what comes in has no user yet"))
	}
	return errors.Join(errs...)
}

// rewrites reports whether the block changes packets rather than dropping or rejecting them.
func (b *Block) rewrites() bool { return b.Verdict == NameError || b.Verdict == ServerFailure }

// answers rejects a block that rewrites anything but DNS responses. A rewritten packet has no checksum, which only
// IPv4 allows.
func (b *Block) answers() error {
	switch {
	case b.Direction != "in" || b.Proto != "udp" || !slices.Equal(b.Ports, []uint16{53}):
		return fmt.Errorf("%s is about what comes in by udp from port 53", b.Verdict)
	case b.UID != nil:
		return errors.New("what comes in has no user yet")
	}
	for _, r := range b.Remote {
		if p, err := prefix(r); err == nil && !p.Addr().Is4() {
			return fmt.Errorf("remote %s: only an answer by IPv4 can be rewritten", r)
		}
	}
	return nil
}

// rcode makes the kernel overwrite the last four bits of a DNS header's flags, the response code, 92 bits after
// the start of the UDP header. It also sets the checksum, which would not match any more, to 0, which means none.
func rcode(code int) string { return fmt.Sprintf("@th,92,4 set %d udp checksum set 0", code) }

// verdicts maps our verdicts to nft's.
func verdicts() map[string]string {
	return map[string]string{
		NameError: rcode(3), ServerFailure: rcode(2),
		Drop: "drop", Reset: "reject with tcp reset", Refused: "reject with icmpx port-unreachable",
	}
}

// prefix parses an address, or a prefix without host bits.
func prefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("remote %q is neither an address nor a prefix", s)
	}
	return p, nil
}

// Covers reports whether the block stops a TCP connection of the machine to that remote end, and why.
func (b *Block) Covers(peer netip.AddrPort) (string, bool) {
	if b.Proto == "udp" || (len(b.Ports) > 0 && !slices.Contains(b.Ports, peer.Port())) {
		return "", false
	}
	for _, r := range b.Remote {
		p, _ := prefix(r) // what is no prefix contains nothing
		if p.Contains(peer.Addr().Unmap().WithZone("")) {
			return fmt.Sprintf("%s of %s covers %s", b.Verdict, b.describe(), peer), true
		}
	}
	return "", false
}

// describe names the blocked traffic: "out tcp 10.0.0.1,10.0.0.2:443".
func (b *Block) describe() string {
	s := b.Direction + " " + b.Proto + " " + strings.Join(b.Remote, ",")
	if len(b.Ports) > 0 {
		s += ":" + joinPorts(b.Ports, ",")
	}
	if b.UID != nil {
		s += fmt.Sprintf(" uid %d", *b.UID)
	}
	return s
}

// Table returns the name of the nft table (family inet) that holds a step's block.
func Table(run, id string, n int) string {
	return "gpuaasctl_" + strings.ReplaceAll(run, "-", "_") + "_" +
		strings.ReplaceAll(id, "-", "_") + fmt.Sprintf("_%d", n)
}

// Ruleset returns the nft text that creates the block in the named table, with elements that expire after ttl, and
// the text that removes it. The creation is one transaction: the table exists completely or not at all.
func (b *Block) Ruleset(table string, ttl time.Duration) (do, undo string) {
	var w strings.Builder
	fmt.Fprintf(&w, "create table inet %s\ntable inet %s {\n", table, table)
	dir, hook := "d", "output"
	if b.Direction == "in" {
		dir, hook = "s", "input"
	}
	var rules []string
	for _, fam := range [...]struct {
		set, typ, match string
		is4             bool
	}{{"remote4", "ipv4_addr", "ip", true}, {"remote6", "ipv6_addr", "ip6", false}} {
		elements := b.elements(fam.is4, ttl)
		if len(elements) == 0 {
			continue
		}
		fmt.Fprintf(&w, "\tset %s {\n\t\ttype %s\n\t\tflags interval,timeout\n\t\telements = { %s }\n\t}\n", fam.set, fam.typ,
			strings.Join(elements, ", "))
		rules = append(rules, fmt.Sprintf("\t\t%s %saddr @%s%s counter %s\n", fam.match, dir, fam.set, b.match(dir),
			verdicts()[b.Verdict]))
	}
	fmt.Fprintf(&w, "\tchain block {\n\t\ttype filter hook %s priority filter; policy accept;\n%s\t}\n}\n", hook,
		strings.Join(rules, ""))
	return w.String(), "delete table inet " + table + "\n"
}

// elements returns the addresses of one family with their timeout in whole seconds, rounded up.
func (b *Block) elements(is4 bool, ttl time.Duration) []string {
	seconds := int64((ttl + time.Second - 1) / time.Second)
	var all []string
	for _, r := range b.Remote {
		p, err := prefix(r)
		if err != nil || p.Addr().Is4() != is4 {
			continue
		}
		text := p.String()
		if p.IsSingleIP() {
			text = p.Addr().String()
		}
		all = append(all, fmt.Sprintf("%s timeout %ds", text, seconds))
	}
	return all
}

func (b *Block) match(dir string) string {
	s := ""
	if b.UID != nil {
		s = fmt.Sprintf(" meta skuid %d", *b.UID)
	}
	ports := ""
	if len(b.Ports) > 0 {
		ports = fmt.Sprintf(" %sport { %s }", dir, joinPorts(b.Ports, ", "))
	}
	switch {
	case b.Proto == "any" && ports == "":
		return s
	case b.Proto == "any":
		return s + " meta l4proto { tcp, udp } th" + ports
	case ports == "":
		return s + " meta l4proto " + b.Proto
	}
	return s + " " + b.Proto + ports
}

func joinPorts(ports []uint16, sep string) string {
	all := make([]string, len(ports))
	for i, p := range ports {
		all[i] = fmt.Sprint(p)
	}
	return strings.Join(all, sep)
}
