package profile

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// plaintext lists the bases that would get a secret over http:// on another machine, by key. Only an address says that
// it is this machine's; of names, only localhost does, and the probe looks at the address that it really dials.
func (p *Profile) plaintext() (found []problem) {
	var secret string
	for _, s := range p.secrets() {
		if s.set {
			secret = cmp.Or(secret, s.key)
		}
	}
	if secret == "" || p.InsecureHTTP {
		return nil
	}
	for _, base := range [...]struct{ key, url, resolve string }{
		{"api_base", p.APIBase, p.APIResolveAddress},
		{"terminal_base", p.TerminalBase, p.TerminalResolveAddress},
	} {
		u, err := url.Parse(base.url)
		if err != nil || u.Scheme != "http" || thisMachine(cmp.Or(base.resolve, u.Hostname())) {
			continue
		}
		found = append(found, problem{base.key, fmt.Errorf("%s: anybody on the way to %s could read the secret of %s: use "+
			"https://, or set insecure_http: true in the profile", base.key, cmp.Or(base.resolve, u.Hostname()), secret)})
	}
	return found
}

// thisMachine reports whether a host is the loopback.
func thisMachine(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}
