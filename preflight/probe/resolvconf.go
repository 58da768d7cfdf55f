package probe

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// resolvConf is what resolv.conf(5) says, with the C library's defaults and limits.
type resolvConf struct {
	servers  []string // host:port
	search   []string
	ndots    int
	attempts int
	timeout  time.Duration // of one attempt
}

// maxServers is how many name servers the C library asks; those listed behind them are never seen.
const maxServers = 3

// readResolvConf reads the file. Without one, or without a server in it, this host's own is asked.
func readResolvConf(path string) (resolvConf, error) {
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return resolvConf{}, err
	}
	c := resolvConf{ndots: 1, attempts: 2, timeout: 5 * time.Second}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch args := f[1:]; {
		case f[0] == "nameserver" && len(args) > 0 && len(c.servers) < maxServers:
			c.servers = append(c.servers, serverAddress(args[0]))
		case f[0] == "domain":
			c.search = args[:min(len(args), 1)]
		case f[0] == "search":
			c.search = args
		case f[0] == "options":
			for _, o := range args {
				c.option(o)
			}
		}
	}
	if len(c.servers) == 0 {
		c.servers = []string{serverAddress("127.0.0.1")}
	}
	return c, nil
}

// serverAddress is a name server with its port. resolv.conf has addresses only; a port is taken where one is written,
// as tests need.
func serverAddress(s string) string {
	if _, err := netip.ParseAddr(s); err == nil {
		return net.JoinHostPort(s, "53")
	}
	return s
}

func (c *resolvConf) option(o string) {
	name, value, _ := strings.Cut(o, ":")
	n, _ := strconv.Atoi(value)
	switch name {
	case "ndots":
		c.ndots = min(max(n, 0), 15)
	case "timeout":
		c.timeout = time.Duration(min(max(n, 1), 30)) * time.Second
	case "attempts":
		c.attempts = min(max(n, 1), 5)
	}
}

// names are the fully qualified names to try for one, in order: as it is first when it has enough dots, else last.
func (c resolvConf) names(name string) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	var names []string
	for _, s := range c.search {
		if s = strings.Trim(s, "."); s != "" { // "search ." is the root: the name as it is
			names = append(names, name+"."+s+".")
		}
	}
	if strings.Count(name, ".") >= c.ndots {
		return append([]string{name + "."}, names...)
	}
	return append(names, name+".")
}
