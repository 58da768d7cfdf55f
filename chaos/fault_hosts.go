package chaos

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// hostsParams are the parameters of hosts.
type hostsParams struct {
	Remove []string          `yaml:"remove,omitempty,flow" json:"remove,omitempty" jsonschema_description:"names that are found no more: nothing but the hosts file is asked, and it has them not"`
	Keep   []string          `yaml:"keep,omitempty,flow" json:"keep,omitempty" jsonschema_description:"names that the DNS is asked for otherwise, and that must still lead where they do"`
	Set    map[string]string `yaml:"set,omitempty" json:"set,omitempty" jsonschema_description:"address by name"`
	SeenBy string            `yaml:"seenBy,omitempty" json:"seenBy,omitempty" jsonschema_description:"the unit that sees it; default: the agent's"`
}

const (
	hostsFile    = "/etc/hosts"
	nsswitchFile = "/etc/nsswitch.conf"
)

// hostsKind changes name resolution for one unit. Logins and all other processes use the machine's own files.
func hostsKind() Kind {
	return kind(Kind{
		Name: "hosts", Title: "change the addresses of names, for one unit", Tier: step.TierBoot,
		On: []Role{RoleNode, RolePeer},
		About: "Another hosts file in the mount namespace of a running unit, and for names that are removed an " +
			"nsswitch.conf that reads that file alone.",
	}, func(p *hostsParams) []problem {
		found := required("remove", len(p.Remove)+len(p.Set) > 0)
		for name, a := range p.Set {
			_, err := netip.ParseAddr(a)
			found = append(found, want("set."+name, err == nil, fmt.Sprintf("want an address, not %q", a))...)
		}
		return found
	}, func(p *hostsParams, c *Case) Questions {
		return Questions{Tools: []string{"getent"}, Units: []string{c.unit(p.SeenBy)},
			Texts: []string{hostsFile, nsswitchFile}, Names: append(slices.Clone(p.Remove), p.Keep...)}
	}, makeHosts)
}

func makeHosts(p *hostsParams, c *Case) (Made, *step.Refusal) {
	unit := c.unit(p.SeenBy)
	for _, name := range p.Remove {
		if len(c.Machine.Names[name]) == 0 {
			return Made{}, step.Refuse(step.RefusedUnsupported, "%s leads nowhere on %s already", name, c.Machine.ID)
		}
	}
	names := slices.Clone(p.Remove)
	var more []string
	for _, name := range sortedKeys(p.Set) {
		names, more = append(names, name), append(more, p.Set[name]+" "+name+"\n")
	}
	for _, name := range p.Keep {
		for _, a := range c.Machine.Names[name] {
			more = append(more, a.String()+" "+name+"\n")
		}
	}
	text := withoutHosts(c.Machine.Files[hostsFile].Text, names) + strings.Join(more, "")
	hosts, no := c.bind(unit, overlay{path: hostsFile, text: text})
	if no != nil {
		return Made{}, no
	}
	made := Made{Title: "names as " + unit + " sees them: " + strings.Join(names, ", "), Changes: []step.Change{hosts},
		Scope: step.Scope{Units: []string{unit}}}
	if len(p.Remove) > 0 {
		only, no := c.bind(unit, overlay{path: nsswitchFile, text: filesOnly(c.Machine.Files[nsswitchFile].Text)})
		if no != nil {
			return Made{}, no
		}
		made.Changes = append(made.Changes, only)
	}
	if c.tool("getent") != "" {
		for _, name := range p.Remove {
			made.Verify = append(made.Verify, step.Check{Name: name + " is not found", Unit: unit, Within: verifyWithin,
				Exec: step.Exec{Argv: []string{c.tool("getent"), "ahosts", name}, Exits: []int{2}}})
		}
		for _, name := range sortedKeys(p.Set) {
			made.Verify = append(made.Verify,
				step.Check{Name: name + " leads to " + p.Set[name], Unit: unit, Within: verifyWithin, Has: p.Set[name],
					Exec: step.Exec{Argv: []string{c.tool("getent"), "ahosts", name}}})
		}
	}
	return made, nil
}

// hostsOf returns the addresses that a hosts file has for a name.
func hostsOf(text, name string) []string {
	var all []string
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.Split(line, "#")[0])
		if len(words) > 1 && slices.ContainsFunc(words[1:], func(w string) bool { return strings.EqualFold(w, name) }) {
			all = append(all, words[0])
		}
	}
	return all
}

// withoutHosts removes the names from a hosts file's text; other names on the same lines stay.
func withoutHosts(text string, names []string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.Fields(strings.Split(line, "#")[0])
		var kept []string
		for _, w := range words {
			if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, w) }) {
				kept = append(kept, w)
			}
		}
		switch {
		case len(kept) == len(words):
			out.WriteString(line + "\n")
		case len(kept) > 1:
			out.WriteString(strings.Join(kept, " ") + "\n")
		}
	}
	return out.String()
}

// filesOnly changes an nsswitch.conf so that host names come only from the hosts file.
func filesOnly(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "hosts:") {
			out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return out.String() + "hosts: files\n"
}

func (p *hostsParams) ofAgent() bool { return p.SeenBy == "" }
