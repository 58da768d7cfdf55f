package openssh

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// direct reports whether the host is reached without a jump or a proxy.
func (c *Config) direct() bool {
	return none(c.Get("proxycommand")) && none(c.Get("proxyjump"))
}

// none reports whether a value is missing or says none.
func none(v *Value) bool { return v == nil || strings.EqualFold(strings.TrimSpace(v.First()), "none") }

// canonicalize changes the host as CanonicalizeHostname has it, and reports whether the files are to be read again.
func (c *Config) canonicalize(ctx context.Context) (again bool, err error) {
	if a, err := netip.ParseAddr(c.Host); err == nil {
		c.Host = a.String()
		return c.enabled(), nil
	}
	if a, ok := oldAddress(c.Host); ok {
		c.Host = a.String()
		return c.enabled(), nil
	}
	always := strings.EqualFold(c.Get("canonicalizehostname").First(), "always")
	resolved := false
	if c.enabled() && !isAddress(c.Host) && (c.direct() || always) {
		if resolved, err = c.qualify(ctx); err != nil {
			return false, err
		}
	}
	if !resolved && len(c.rules()) > 0 && (c.direct() || always) {
		name, err := c.local.Lookup(ctx, c.Host)
		if err == nil {
			c.follow(name)
		}
	}
	return c.enabled(), nil
}

func (c *Config) enabled() bool {
	switch strings.ToLower(c.Get("canonicalizehostname").First()) {
	case "yes", "true", "always":
		return true
	}
	return false
}

// qualify looks the host up in the canonical domains.
func (c *Config) qualify(ctx context.Context) (found bool, err error) {
	most := 1
	if v := c.Get("canonicalizemaxdots"); v != nil {
		most, _ = strconv.Atoi(v.First())
	}
	var names []string
	switch {
	case strings.HasSuffix(c.Host, "."):
		names = []string{c.Host}
	case strings.Count(c.Host, ".") > most:
		return false, nil
	default:
		if v := c.Get("canonicaldomains"); v != nil {
			for _, d := range v.Args {
				if strings.EqualFold(d, "none") {
					break
				}
				names = append(names, c.Host+"."+d+".")
			}
		}
	}
	for _, full := range names {
		canonical, err := c.local.Lookup(ctx, full)
		if err != nil {
			continue
		}
		c.Host = strings.TrimSuffix(full, ".")
		c.follow(canonical)
		return true, nil
	}
	if v := c.Get("canonicalizefallbacklocal"); !c.Yes("canonicalizefallbacklocal", true) {
		return false, fmt.Errorf("%s: the host %q is in none of the canonical domains (CanonicalizeFallbackLocal no)",
			v.At(), c.Host)
	}
	return false, nil
}

// rules returns the permitted aliases: pairs of lists, source and target.
func (c *Config) rules() (pairs [][2]string) {
	v := c.Get("canonicalizepermittedcnames")
	if none(v) {
		return nil
	}
	for _, rule := range v.Args {
		if from, to, ok := strings.Cut(rule, ":"); ok {
			pairs = append(pairs, [2]string{strings.ToLower(from), strings.ToLower(to)})
		}
	}
	return pairs
}

// follow takes the name behind an alias, if a rule permits it.
func (c *Config) follow(canonical string) {
	canonical = strings.ToLower(strings.TrimSuffix(canonical, "."))
	if canonical == "" || canonical == c.Host {
		return
	}
	for _, r := range c.rules() {
		if globList(c.Host, r[0]) && globList(canonical, r[1]) {
			c.Host = canonical
			return
		}
	}
}

// oldAddress reads an IPv4 address of fewer than four numbers, as 127.1, whose last number fills the rest.
func oldAddress(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var a uint64
	for i, p := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (4 - i)
		}
		n, err := strconv.ParseUint(p, 10, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		a = a<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}), true
}
