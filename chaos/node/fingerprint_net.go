//go:build linux

package node

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// nftItems returns the packet filter's blocks: "inet fw chain input" with all its lines. It leaves out elements
// that come and go by themselves.
func nftItems(ctx context.Context, _ step.Scope) (map[string]string, error) {
	out, err := must(ctx, "", "nft", "-s", "list", "ruleset")
	if err != nil {
		return nil, err
	}
	return nftBlocks(out), nil
}

func nftBlocks(out string) map[string]string {
	items := map[string]string{}
	var path []string
	var body [][]string
	passing := false // inside the elements of a set that changes by itself
	for line := range strings.SplitSeq(out, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case passing:
			passing = !strings.HasSuffix(line, "}")
		case strings.HasSuffix(line, "{") && !strings.HasPrefix(line, "elements"):
			path, body = append(path, strings.TrimSpace(strings.TrimSuffix(line, "{"))), append(body, nil)
		case line == "}" && len(path) > 0:
			last := len(path) - 1
			put(items, strings.TrimPrefix(strings.Join(path, " "), "table "), "{ "+strings.Join(body[last], "; ")+" }")
			path, body = path[:last], body[:last]
		case len(path) == 0:
			put(items, line, "there")
		default:
			last := len(path) - 1
			if strings.HasPrefix(line, "elements") && lasting(body[last]) {
				passing = !strings.HasSuffix(line, "}")
				continue
			}
			body[last] = append(body[last], line)
		}
	}
	return items
}

// lasting reports whether a set, by its definition, neither drops nor adds elements by itself.
func lasting(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "flags ") && (strings.Contains(l, "timeout") || strings.Contains(l, "dynamic"))
	})
}

// netItems returns links, addresses, routes and rules as iproute2 lists them, without indices and times.
func netItems(ctx context.Context, _ step.Scope) (map[string]string, error) {
	items := map[string]string{}
	for _, q := range [...]struct {
		kind string
		argv []string
	}{
		{"link", []string{"ip", "-o", "link", "show"}}, {"addr", []string{"ip", "-o", "addr", "show"}},
		{"route", []string{"ip", "-4", "route", "show", "table", "all"}},
		{"route6", []string{"ip", "-6", "route", "show", "table", "all"}}, {"rule", []string{"ip", "-4", "rule", "show"}},
		{"rule6", []string{"ip", "-6", "rule", "show"}},
	} {
		out, err := must(ctx, "", q.argv...)
		if err != nil {
			return nil, err
		}
		for line := range strings.SplitSeq(out, "\n") {
			if f := steady(q.kind, line); len(f) > 0 {
				put(items, q.kind+" "+strings.Join(f, " "), "there")
			}
		}
	}
	return items, nil
}

// steady returns the words of a line that do not change by themselves; none for a line that comes and goes by
// itself.
func steady(kind, line string) []string {
	f := strings.Fields(strings.ReplaceAll(line, `\`, " "))
	if ofAddress(f) {
		return nil
	}
	if (kind == "link" || kind == "addr") && len(f) > 0 {
		f = f[1:] // the index
	}
	var kept []string
	for i := 0; i < len(f); i++ {
		switch f[i] {
		case "valid_lft", "preferred_lft", "expires", "hoplimit", "age", "link-netnsid":
			i++
		case "tentative", "dynamic", "linkdown", "cache":
		default:
			name, _, _ := strings.Cut(f[i], "@if") // the index of the peer in another namespace
			kept = append(kept, name)
		}
	}
	return kept
}

// ofAddress reports whether a line is a route that the kernel derives from an address. For an IPv6 address it adds
// that route a second or two later, after duplicate address detection; and addresses are compared themselves.
func ofAddress(f []string) bool {
	text := strings.Join(f, " ")
	return strings.Contains(text, " table local ") && strings.Contains(text, " proto kernel ")
}

// firstEphemeral is the lowest port of a UDP socket that may be a client waiting for a response.
const firstEphemeral = 32768

// socketItems returns listening sockets. It leaves out tenants' sockets, which open and close at any time, and
// sockets in the abstract namespace, whose owner the table does not show. The workload's port is probed by the
// chain.
func socketItems(context.Context, step.Scope) (map[string]string, error) {
	items := map[string]string{}
	for _, q := range [...]struct{ proto, listens string }{{"tcp", "0A"}, {"tcp6", "0A"}, {"udp", "07"}, {"udp6", "07"}} {
		err := lines("/proc/net/"+q.proto, func(f []string) {
			if len(f) < 8 || f[3] != q.listens {
				return
			}
			if uid, err := strconv.ParseUint(f[7], 10, 32); err == nil && uid >= host.FirstTenant {
				return
			}
			at, err := socketAddress(f[1])
			if err == nil && (q.listens == "0A" || at.Port() < firstEphemeral) {
				items[q.proto+" "+at.String()] = "listens"
			}
		})
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
	const accepts = "00010000"
	return items, lines("/proc/net/unix", func(f []string) {
		if len(f) > 7 && f[3] == accepts && !strings.HasPrefix(f[7], "@") && !tenants(f[7]) {
			items["unix "+f[7]] = "listens"
		}
	})
}

// tenants reports whether a socket's file belongs to a tenant.
func tenants(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Uid >= host.FirstTenant
}

func lines(path string, each func(fields []string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		each(strings.Fields(s.Text()))
	}
	return s.Err()
}

// socketAddress parses the kernel's "0100007F:0016": words in host byte order, which is little-endian here.
func socketAddress(s string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	p, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("socket address %q", s)
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("socket address %q", s)
	}
	return netip.AddrPortFrom(addr, uint16(p)), nil
}
