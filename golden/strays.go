package golden

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// known are the allowed destinations of a walk: those in its profile, and those that answers name.
type known struct {
	ports     map[string][]string // by host
	addresses map[string][]string // by host
}

// UnknownAddresses lists the requests of a walk to an address and port that neither its profile nor an answer names.
func UnknownAddresses(r *diag.Report) []string {
	k := known{ports: map[string][]string{}, addresses: map[string][]string{}}
	k.fromProfile(&r.Subject)
	for i := range r.Facts {
		k.fromAnswer(&r.Facts[i])
	}
	var out []string
	for i := range r.Facts {
		f := &r.Facts[i]
		if why := k.strays(f, r.Subject.Expected["node_name_servers"]); why != "" {
			out = append(out, f.ID+": "+why)
		}
	}
	return out
}

// endpoint returns the host and port of a URL or of host:port, "" for any other text.
func endpoint(raw string) (host, port string) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		host, port, err = net.SplitHostPort(raw)
		if err != nil {
			return "", ""
		}
		return strings.ToLower(host), port
	}
	port = u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "wss": "443", "http": "80", "ws": "80"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()), port
}

func (k *known) add(raw, address string) {
	host, port := endpoint(raw)
	if host == "" {
		return
	}
	k.ports[host] = append(k.ports[host], port)
	k.at(host, address)
}

func (k *known) at(host, address string) {
	if _, err := netip.ParseAddr(address); err == nil {
		k.addresses[host] = append(k.addresses[host], address)
	}
}

func (k *known) fromProfile(s *diag.Subject) {
	e := s.Expected
	k.add(e["api_base"], "")
	k.add(e["terminal_base"], "")
	k.add(e["node_runtime_api_url"], e["node_runtime_resolve_address"])
	k.add(e["node_terminal_url"], e["node_terminal_resolve_address"])
}

// fromAnswer adds the destinations that an answer names: endpoints in the fields of the platform, the addresses of a
// name, and the running agent's endpoints. A step's pinned address is the profile's.
func (k *known) fromAnswer(f *diag.Fact) {
	counter := strings.Contains(f.ID, "~")
	host, _ := endpoint(asked(f))
	switch {
	case f.HTTP != nil:
		for name, v := range f.HTTP.Fields {
			k.add(v, "")
			if strings.HasSuffix(name, "app_port") {
				k.add(net.JoinHostPort("127.0.0.1", v), "")
			}
		}
	case f.Env != nil:
		for _, v := range f.Env.Values {
			k.add(v, "")
		}
	}
	if strings.HasPrefix(f.Request.Target, "${") && !counter {
		k.add(asked(f), "")
	}
	if !counter {
		k.at(host, f.Request.Resolve)
	}
	if f.DNS != nil && f.Request.Resolve == "" {
		for _, a := range f.DNS.Addresses {
			k.at(strings.ToLower(f.DNS.Name), a)
		}
	}
}

func asked(f *diag.Fact) string {
	return cmp.Or(f.Target, f.Request.Target)
}

// strays describes the destination of a request that nothing in the report names; "" if every destination is named.
func (k *known) strays(f *diag.Fact, servers string) string {
	if !f.Request.Op.Row().Connects() {
		return "" // a login connects to the subject's own host; other operations stay on the machine
	}
	if strings.HasPrefix(asked(f), "${") {
		return "" // a variable that was not expanded: nothing was sent
	}
	host, port := endpoint(asked(f))
	if f.Request.Resolver != "" && !slices.Contains(strings.Split(servers, ","), f.Request.Resolver) {
		return "asks the name server " + f.Request.Resolver
	}
	if f.Request.Resolve != "" && !slices.Contains(k.addresses[host],
		f.Request.Resolve) && !k.anywhere(f.Request.Resolve) {
		return fmt.Sprintf("asks for %s at %s", host, f.Request.Resolve)
	}
	if slices.Contains(k.ports[host], port) {
		return ""
	}
	for name, at := range k.addresses { // an address counts for the names that resolve to it
		if slices.Contains(at, host) && slices.Contains(k.ports[name], port) {
			return ""
		}
	}
	return "goes to " + net.JoinHostPort(host, port)
}

// anywhere reports whether an address belongs to any known name.
func (k *known) anywhere(address string) bool {
	return slices.Contains(slices.Concat(slices.Collect(maps.Values(k.addresses))...), address)
}
