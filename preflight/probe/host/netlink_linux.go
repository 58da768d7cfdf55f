package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

const (
	netlinkTime   = 500 * time.Millisecond
	netlinkBuffer = 64 << 10
	netlinkAll    = 8 << 20 // limit for one answer
	maxChains     = 16      // limit for the reported chains
)

// attribute encodes one netlink attribute, padded.
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// attributes decodes a list of netlink attributes, with all values of repeated ones.
func attributes(b []byte) map[uint16][][]byte {
	out := map[uint16][][]byte{}
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			break
		}
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		out[kind] = append(out[kind], b[4:n])
		b = b[min(len(b), (n+3)&^3):]
	}
	return out
}

// one returns the first attribute of a kind; nil if it is missing.
func one(a map[uint16][][]byte, kind uint16) []byte {
	if len(a[kind]) == 0 {
		return nil
	}
	return a[kind][0]
}

func textOf(b []byte) string { return strings.TrimRight(string(b), "\x00") }

// netlinkAsk sends one request to the kernel, and returns the bodies of its answer. It changes nothing.
func netlinkAsk(protocol int, kind, flags uint16, body []byte) ([][]byte, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(netlinkTime.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, err
	}
	msg := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, kind)
	msg = binary.NativeEndian.AppendUint16(msg, unix.NLM_F_REQUEST|flags)
	msg = append(msg, 1, 0, 0, 0, 0, 0, 0, 0) // sequence number and sender: one request per socket
	if err := unix.Sendto(fd, append(msg, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var out [][]byte
	b := make([]byte, netlinkBuffer)
	for all := 0; all < netlinkAll; {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			return nil, err
		}
		all += n
		for part := b[:n]; len(part) >= unix.NLMSG_HDRLEN; {
			size := int(binary.NativeEndian.Uint32(part))
			if size < unix.NLMSG_HDRLEN || size > len(part) {
				return out, errors.New("an answer of netlink is cut off")
			}
			value := part[unix.NLMSG_HDRLEN:size]
			switch kind, more := binary.NativeEndian.Uint16(part[4:]), binary.NativeEndian.Uint16(part[6:]); {
			case kind == unix.NLMSG_DONE:
				return out, nil
			case kind == unix.NLMSG_ERROR && len(value) >= 4:
				if e := int32(binary.NativeEndian.Uint32(value)); e != 0 {
					return nil, unix.Errno(-e)
				}
				return out, nil
			case more&unix.NLM_F_MULTI == 0:
				return append(out, slices.Clone(value)), nil
			}
			out = append(out, slices.Clone(value))
			part = part[min(len(part), (size+3)&^3):]
		}
	}
	return out, errors.New("the answer of netlink exceeds the limit")
}

// Constants of nf_tables that are parsed here; see linux/netfilter/nf_tables.h.
const (
	nftChainTable, nftChainName, nftChainHook, nftChainPolicy = 1, 3, 4, 5
	nftRuleTable, nftRuleChain, nftRuleExpressions            = 1, 2, 4
	nftExprName, nftExprData                                  = 1, 2
	nftImmediateData, nftDataVerdict, nftVerdictCode          = 2, 2, 1
	nftTargetName, nftLookupTo                                = 1, 3
	nftHookNumber                                             = 1

	hookOutput, hookPostrouting = 3, 4
)

// nftFamilies are the families that process a host's own connections.
var nftFamilies = map[byte]string{unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6"}

// packetFilters names the chains of this network namespace that drop or reject outgoing packets: those of nf_tables,
// which iptables uses as well, and the tables of legacy iptables.
func packetFilters() ([]string, error) {
	old, _ := host.Read("/proc/self/net/ip_tables_names", host.Small)
	var out []string
	for name := range strings.FieldsSeq(old) {
		out = append(out, "the old iptables, table "+name)
	}
	leaving, hooked, policy, err := nftChains()
	if err != nil {
		return out, err
	}
	rules, err := nftDump(unix.NFT_MSG_GETRULE)
	if err != nil {
		return out, err
	}
	refusing := map[string]int{}
	for _, r := range rules {
		if len(r) < 4 || nftFamilies[r[0]] == "" {
			continue
		}
		a := attributes(r[4:])
		table := nftFamilies[r[0]] + " " + textOf(one(a, nftRuleTable))
		chain := table + " " + textOf(one(a, nftRuleChain))
		// A chain without a hook is called by other chains; which ones is not checked.
		if leaving[table] && (leaving[chain] || !hooked[chain]) && refuses(one(a, nftRuleExpressions)) {
			refusing[chain]++
		}
	}
	for chain := range policy {
		refusing[chain] += 0
	}
	var found []string
	for chain, n := range refusing {
		found = append(found, fmt.Sprintf("nft %s: rules that may drop or reject: %d%s", chain, n, policy[chain]))
	}
	slices.Sort(found)
	return append(out, found[:min(len(found), maxChains)]...), nil
}

// nftChains reads the chains of nf_tables: leaving has those for outgoing packets and their tables, hooked those that
// the kernel calls itself, and policy what happens at the end of a chain that drops.
func nftChains() (leaving, hooked map[string]bool, policy map[string]string, err error) {
	chains, err := nftDump(unix.NFT_MSG_GETCHAIN)
	leaving, hooked, policy = map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, c := range chains {
		if len(c) < 4 || nftFamilies[c[0]] == "" {
			continue
		}
		a := attributes(c[4:])
		hook := one(attributes(one(a, nftChainHook)), nftHookNumber)
		if len(hook) != 4 {
			continue
		}
		table := nftFamilies[c[0]] + " " + textOf(one(a, nftChainTable))
		chain := table + " " + textOf(one(a, nftChainName))
		hooked[chain] = true
		if n := binary.BigEndian.Uint32(hook); n != hookOutput && n != hookPostrouting {
			continue
		}
		leaving[table], leaving[chain] = true, true
		if p := one(a, nftChainPolicy); len(p) == 4 && binary.BigEndian.Uint32(p) == 0 {
			policy[chain] = ", policy drop"
		}
	}
	return leaving, hooked, policy, err
}

func nftDump(what uint16) ([][]byte, error) {
	return netlinkAsk(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|what, unix.NLM_F_DUMP, make([]byte, 4))
}

// refuses reports whether a rule's expressions may end in a drop or a reject. For verdict maps and programs this is
// unknown, and so counts as possible.
func refuses(expressions []byte) bool {
	for _, e := range attributes(expressions)[1] {
		a := attributes(e)
		data := attributes(one(a, nftExprData))
		switch textOf(one(a, nftExprName)) {
		case "reject", "queue":
			return true
		case "lookup":
			if to := one(data, nftLookupTo); len(to) == 4 && binary.BigEndian.Uint32(to) == 0 { // the verdict's register
				return true
			}
		case "target":
			name := textOf(one(data, nftTargetName))
			if name == "DROP" || name == "REJECT" {
				return true
			}
		case "immediate":
			verdict := attributes(one(attributes(one(data, nftImmediateData)), nftDataVerdict))
			if code := one(verdict, nftVerdictCode); len(code) == 4 && binary.BigEndian.Uint32(code) == 0 {
				return true
			}
		}
	}
	return false
}
