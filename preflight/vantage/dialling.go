package vantage

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
	"github.com/gpuaas/gpuaasctl/profile"
)

// dialling is how a connection is made.
type dialling struct {
	network string // tcp, tcp4 or tcp6
	bind    string // address to connect from; "": any
	within  time.Duration
}

func diallingOf(c *openssh.Config) (dialling, error) {
	d := dialling{network: "tcp", bind: c.Get("bindaddress").First()}
	switch strings.ToLower(c.Get("addressfamily").First()) {
	case "inet":
		d.network = "tcp4"
	case "inet6":
		d.network = "tcp6"
	}
	if v := c.Get("connecttimeout"); v != nil {
		seconds, err := openssh.Seconds(v.First())
		if err != nil {
			return d, fmt.Errorf("%s: %w", v, err)
		}
		d.within = time.Duration(seconds) * time.Second
	}
	v := c.Get("bindinterface")
	if v == nil || d.bind != "" {
		return d, nil
	}
	in, err := net.InterfaceByName(v.First())
	if err != nil {
		return d, fmt.Errorf("%s: %w", v, err)
	}
	addresses, err := in.Addrs()
	if err != nil {
		return d, fmt.Errorf("%s: %w", v, err)
	}
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		four := ok && n.IP.To4() != nil
		if !ok || n.IP.IsLinkLocalUnicast() || (d.network == "tcp4" && !four) || (d.network == "tcp6" && four) {
			continue
		}
		d.bind = n.IP.String()
		return d, nil
	}
	return d, fmt.Errorf("%s: the interface has no address to connect from", v)
}

// splitJump reads [user@]host[:port].
func splitJump(hop string) (profile.SSH, string, error) {
	var s profile.SSH
	hop = strings.TrimPrefix(strings.TrimSpace(hop), "ssh://")
	if i := strings.LastIndexByte(hop, '@'); i >= 0 {
		s.User, hop = hop[:i], hop[i+1:]
	}
	if host, port, err := net.SplitHostPort(hop); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return s, "", fmt.Errorf("bad port %q in jump host", port)
		}
		hop, s.Port = host, int(n)
	}
	hop = strings.Trim(hop, "[]")
	if hop == "" {
		return s, "", fmt.Errorf("a jump host without a name")
	}
	return s, hop, nil
}

// jumpNames joins the logins of jump hosts.
func jumpNames(jumps []target) string {
	var names []string
	for i := range jumps {
		names = append(names, jumps[i].String())
	}
	return strings.Join(names, ",")
}
