// Package endpoints manages the private node-facing names of a profile in a node's hosts file, as one block between
// markers. It is pure: it turns the text of a hosts file into the new text, and reports what an operator must know
// about the other lines. It never changes anything outside the block: a manual line for one of the names is only
// reported.
//
// Callers are `gpuaasctl node endpoints plan|apply|remove`. The script that installs the text is here as well (see
// ApplyScript), since it is safe only together with the plan's assumptions.
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

// The lines around the block. A probe that resolves a name knows them too, and reports such a name as hosts_managed.
// Text after the marker on its line is ignored.
const (
	Begin = "# BEGIN gpuaasctl"
	End   = "# END gpuaasctl"

	beginLine = Begin + " endpoints: managed, edits are lost (gpuaasctl node endpoints)"
	endLine   = End + " endpoints"
)

// Entry is one name and the address that nodes should resolve it to.
type Entry struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// line returns the entry as a line of a hosts file.
func (e Entry) line() string { return e.Address + " " + e.Name }

// Wanted returns a profile's private node-facing names, sorted. left are the names without an address in the profile,
// which DNS has to resolve. One name with two addresses is an error, and so is a profile without names.
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
			return nil, nil, fmt.Errorf("%s: %q is not a valid name for a hosts file", e.key, name)
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

// plainName reports whether name is valid in a hosts file: letters, digits, dots, dashes.
func plainName(name string) bool {
	ok := func(r rune) bool {
		return (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') || r == '.' || r == '-' || r == '_'
	}
	return name != "" && len(name) <= 253 && !strings.ContainsFunc(name, func(r rune) bool { return !ok(r) })
}
