package openssh

import (
	"crypto/sha1" //nolint:gosec // %C is this digest of names, which no security depends on
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Tokens are the values of percent tokens.
type Tokens map[byte]string

// tokens returns those that most keywords may have, for a login to host.
func (c *Config) tokens(host string) Tokens {
	short, _, _ := strings.Cut(c.local.Name, ".")
	jump := c.Get("proxyjump").First()
	if strings.EqualFold(jump, "none") {
		jump = ""
	}
	jumpHost := jump // without the user, the port and the other hosts
	jumpHost = jumpHost[strings.LastIndexByte(jumpHost, ',')+1:]
	alias := c.Get("hostkeyalias").First()
	if alias == "" {
		alias = c.Asked
	}
	sum := sha1.Sum([]byte(c.local.Name + host + c.Port() + c.User() + jump)) //nolint:gosec // as above
	return Tokens{'C': hex.EncodeToString(sum[:]), 'L': short, 'd': c.local.Home, 'h': host, 'i': c.local.UID,
		'j': jumpHost, 'k': alias, 'l': c.local.Name, 'n': c.Asked, 'p': c.Port(), 'r': c.User(), 'u': c.local.User}
}

// Tokens returns the tokens that keywords may have.
func (c *Config) Tokens() Tokens { return c.tokens(c.Host) }

// ForProxy returns the tokens of ProxyCommand and ProxyJump.
func (c *Config) ForProxy() Tokens {
	t := c.Tokens()
	return Tokens{'h': t['h'], 'n': t['n'], 'p': t['p'], 'r': t['r']}
}

// ForKnownHosts returns the tokens of KnownHostsCommand: for the purpose, the name that is looked for, and the key that
// the host shows, whose fields are NONE before it is known.
func (c *Config) ForKnownHosts(purpose, name, keyType, fingerprint, key string) Tokens {
	t := c.Tokens()
	t['I'], t['H'], t['t'], t['f'], t['K'] = purpose, name, keyType, fingerprint, key
	return t
}

// Path expands the name of a file: ~, tokens and ${ENV}.
func (c *Config) Path(v *Value, name string) (string, error) {
	out, err := Expand(c.local.Tilde(name), c.Tokens(), c.local.Getenv)
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", v.At(), v.Word, err)
	}
	return out, nil
}

// Tilde expands ~ at the beginning of a name.
func (l Local) Tilde(name string) string {
	if name == "~" || strings.HasPrefix(name, "~/") {
		return strings.TrimRight(l.Home, "/") + name[1:]
	}
	if rest, is := strings.CutPrefix(name, "~"+l.User+"/"); is && l.User != "" {
		return strings.TrimRight(l.Home, "/") + "/" + rest
	}
	return name
}

// Expand replaces percent tokens, if tokens is not nil, and ${NAME}, if env is not nil. An unknown token and a variable
// that is not set are errors.
func Expand(s string, tokens Tokens, env func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case env != nil && strings.HasPrefix(s[i:], "${"):
			name, _, closed := strings.Cut(s[i+2:], "}")
			if !closed || name == "" {
				return "", fmt.Errorf("bad environment variable in %q", s)
			}
			value, is := env(name)
			if !is {
				return "", fmt.Errorf("the environment variable ${%s} has no value", name)
			}
			b.WriteString(value)
			i += len(name) + 2
		case tokens != nil && s[i] == '%':
			if i++; i == len(s) {
				return "", errors.New("invalid format: % at the end")
			}
			value, is := tokens[s[i]]
			switch {
			case s[i] == '%':
				value = "%"
			case !is:
				return "", fmt.Errorf("unknown key %%%c", s[i])
			}
			b.WriteString(value)
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// Seconds reads a time of ssh_config: a number with units s, m, h, d and w, seconds without one.
func Seconds(s string) (total int, err error) {
	if strings.EqualFold(s, "none") {
		return 0, nil
	}
	unit := map[byte]int{'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}
	rest := strings.ToLower(s)
	for rest != "" {
		end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		digits, times := rest, 1
		if end >= 0 {
			digits, times = rest[:end], unit[rest[end]]
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || times == 0 || int(n) > (1<<31-1-total)/times {
			return 0, fmt.Errorf("%q is not a time", s)
		}
		total += int(n) * times
		if end < 0 {
			return total, nil
		}
		rest = rest[end+1:]
	}
	if s == "" {
		return 0, errors.New("an empty time")
	}
	return total, nil
}

// isAddress reports whether a host is written as an address, or only of digits and points, which no name is.
func isAddress(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.Trim(host, "0123456789.") == ""
}

// Argv splits a command that no shell runs, and expands each word.
func (c *Config) Argv(v *Value, t Tokens) ([]string, error) {
	argv, err := split(v.First())
	if err != nil {
		return nil, err
	}
	if len(argv) == 0 {
		return nil, errors.New("it is empty")
	}
	for i := range argv {
		if argv[i], err = Expand(argv[i], t, c.local.Getenv); err != nil {
			return nil, err
		}
	}
	return argv, nil
}
