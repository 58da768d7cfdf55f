// Package endpoints puts the private node-facing names of a profile into a node's hosts file, as one managed block
// between markers. It is pure: the text of a hosts file in, the text that it should have out, with what an operator
// must know of the other lines. Everything outside the block stays as it is, byte for byte, and is never touched: a
// line written by hand for one of the names is reported.
//
// Callers are `gpuaasctl node endpoints plan|apply|remove`. The script that puts the text in place is here as well
// (see ApplyScript), since it only is safe together with what the plan assumes.
package endpoints

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/profile"
)

// The lines around the block. A probe that resolves a name knows them too, and calls such a name hosts_managed; what
// follows the marker on its line is free.
const (
	Begin = "# BEGIN gpuaasctl"
	End   = "# END gpuaasctl"

	beginLine = Begin + " endpoints: managed, edits are lost (gpuaasctl node endpoints)"
	endLine   = End + " endpoints"
)

// Entry is one name and the address that nodes should get for it.
type Entry struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// line is the entry as a hosts file has it.
func (e Entry) line() string { return e.Address + " " + e.Name }

// Wanted are a profile's private node-facing names, sorted. left are the names that the profile gives no address for:
// DNS has to know them. One name with two addresses is an error, and so is a profile that gives no name at all.
func Wanted(p profile.Profile) (entries []Entry, left []string, err error) {
	for _, e := range [...]struct{ key, url, address string }{
		{"node_runtime", p.NodeRuntimeAPIURL, p.NodeRuntimeResolveAddress},
		{"node_terminal", p.NodeTerminalURL, p.NodeTerminalResolveAddress},
	} {
		u, err := url.Parse(e.url)
		if e.url == "" || err != nil || u.Hostname() == "" {
			continue
		}
		name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if _, err := netip.ParseAddr(name); err == nil {
			continue // an address needs no name
		}
		if !plainName(name) {
			return nil, nil, fmt.Errorf("%s: %q is no name for a hosts file", e.key, name)
		}
		if e.address == "" {
			left = append(left, name)
			continue
		}
		addr, err := netip.ParseAddr(e.address)
		if err != nil {
			return nil, nil, fmt.Errorf("%s_resolve_address: want an IP address, not %q", e.key, e.address)
		}
		for _, have := range entries {
			if have.Name == name && have.Address != addr.String() {
				return nil, nil, fmt.Errorf("%s has two addresses in the profile: %s and %s", name, have.Address, addr)
			}
		}
		if entry := (Entry{name, addr.String()}); !slices.Contains(entries, entry) {
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 && len(left) == 0 {
		return nil, nil, errors.New("the profile gives no private name: node_runtime_api_url, node_terminal_url")
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	left = slices.DeleteFunc(left, func(n string) bool {
		return slices.ContainsFunc(entries, func(e Entry) bool { return e.Name == n })
	})
	return entries, left, nil
}

// plainName reports whether name fits a hosts file: letters, digits, dots, dashes.
func plainName(name string) bool {
	ok := func(r rune) bool {
		return (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') || r == '.' || r == '-' || r == '_'
	}
	return name != "" && len(name) <= 253 && !strings.ContainsFunc(name, func(r rune) bool { return !ok(r) })
}
