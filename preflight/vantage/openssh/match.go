package openssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// criteria are the words of Match that have an argument.
var criteria = []string{"host", "originalhost", "user", "localuser", "localnetwork", "tagged", "exec", "command",
	"sessiontype", "version"}

// match evaluates a Match line. Commands run only if what is before them holds, and only if may.
func (c *Config) match(ctx context.Context, file, rest string, may bool) (bool, error) {
	result, some, seen := true, false, 0
	for {
		var word string
		word, rest = cutWord(rest)
		if word == "" || word[0] == '#' {
			break
		}
		some = true
		name, not := strings.CutPrefix(strings.ToLower(word), "!")
		switch name {
		case "all":
			next, _ := cutWord(rest)
			if seen > 0 || (next != "" && next[0] != '#') {
				return false, errors.New("match: 'all' cannot be combined with other attributes")
			}
			return result && !not, nil
		case "canonical", "final":
			c.final = c.final || name == "final"
			if c.second == not {
				result = false
			}
			continue
		}
		seen++
		if !slices.Contains(criteria, name) {
			return false, fmt.Errorf("match: unsupported attribute %q", word)
		}
		var arg string
		if arg, rest = cutWord(rest); arg == "" || arg[0] == '#' {
			return false, fmt.Errorf("match: missing argument for %q", word)
		}
		holds, err := c.holds(ctx, file, name, arg, result && may)
		if err != nil {
			return false, fmt.Errorf("match: %w", err)
		}
		if holds == not {
			result = false
		}
	}
	if !some {
		return false, errors.New("match: one attribute is required")
	}
	return result, nil
}

// holds evaluates one criterion. A command that may not run does not hold.
func (c *Config) holds(ctx context.Context, file, name, arg string, may bool) (bool, error) {
	host, err := c.hostname()
	if err != nil {
		return false, err
	}
	switch name {
	case "host":
		return hostList(host, arg), nil
	case "originalhost":
		return hostList(c.Asked, arg), nil
	case "user":
		return globList(c.User(), arg), nil
	case "localuser":
		return globList(c.local.User, arg), nil
	case "tagged":
		return globList(c.Get("tag").First(), arg), nil
	case "localnetwork":
		return localNetwork(arg)
	case "version":
		return globList("OpenSSH_10.0", arg), nil
	case "command":
		return globList("true", arg), nil
	case "sessiontype":
		return globList("exec", strings.ToLower(arg)), nil
	}
	if !may {
		return false, nil
	}
	t := c.tokens(host)
	if alias := c.Get("hostkeyalias").First(); alias == "" {
		t['k'] = host
	}
	command, err := Expand(arg, t, nil)
	if err != nil {
		return false, err
	}
	return c.local.Run(ctx, file, command)
}

// cutWord cuts the next word of a Match line: words end at a space or at one =, and may be quoted.
func cutWord(s string) (word, rest string) {
	s = strings.TrimLeft(s, " \t")
	if s != "" && s[0] == '"' {
		var b strings.Builder
		for i := 1; i < len(s); i++ {
			switch {
			case s[i] == '\\' && i+1 < len(s) && s[i+1] == '"':
				i++
				b.WriteByte(s[i])
			case s[i] == '"':
				return b.String(), s[i+1:]
			default:
				b.WriteByte(s[i])
			}
		}
		return "", ""
	}
	return cutKeyword(s)
}

// localNetwork reports whether an interface of this machine has an address in a list of networks.
func localNetwork(networks string) (bool, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	found := false
	for n := range strings.SplitSeq(networks, ",") {
		n, not := strings.CutPrefix(n, "!")
		p, err := netip.ParsePrefix(n)
		if err != nil {
			a, errAddress := netip.ParseAddr(n)
			if errAddress != nil {
				return false, fmt.Errorf("localnetwork: %w", err)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		in := slices.ContainsFunc(addresses, func(a net.Addr) bool {
			own, err := netip.ParsePrefix(a.String())
			return err == nil && p.Contains(own.Addr().Unmap())
		})
		if in && not {
			return false, nil
		}
		found = found || in
	}
	return found, nil
}
