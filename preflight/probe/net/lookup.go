package net

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// Lookup finds the value at a path of Request.Extract in a JSON document, as text: a string without its quotes, any
// other value as it is written. found is false if the document lacks it, or it is null.
type Lookup func(doc []byte, path string) (value string, found bool)

// plainPath reports whether path is names and list indices joined by dots, which is all that a node supports.
func plainPath(path string) bool {
	return !slices.ContainsFunc(strings.Split(path, "."), func(step string) bool {
		return step == "" || strings.TrimLeftFunc(step, nameRune) != ""
	})
}

func nameRune(c rune) bool { return measure.IsAlphanumeric(c) || c == '_' || c == '-' }

// lookup is the Lookup for plain paths.
func lookup(doc []byte, path string) (string, bool) {
	for _, step := range strings.Split(path, ".") {
		doc = child(bytes.TrimSpace(doc), step)
	}
	return measure.JSONText(doc)
}

// child returns an object's member or a list's element; nil if it is missing.
func child(doc []byte, step string) []byte {
	if !bytes.HasPrefix(doc, []byte("[")) {
		var members map[string]json.RawMessage
		_ = bounded.Unmarshal(doc, &members, bounded.Answer()) // other values have no members
		return members[step]
	}
	var list []json.RawMessage
	_ = bounded.Unmarshal(doc, &list, bounded.Answer()) // a truncated document has the elements before its end
	if n, err := strconv.ParseUint(step, 10, 31); err == nil && int(n) < len(list) {
		return list[n]
	}
	return nil
}

// serverGrace is how long to wait for the other servers after one has returned an address: a dead server must not delay
// a healthy walk by its timeout.
const serverGrace = 100 * time.Millisecond

// askedNames are the names for which every name server was queried, once per prober: a walk looks up the same names
// many times.
type askedNames struct {
	mu    sync.Mutex // guards names
	names map[string]bool
}

// first reports whether this is the first call with this key.
func (a *askedNames) first(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.names == nil {
		a.names = map[string]bool{}
	}
	again := a.names[key]
	a.names[key] = true
	return !again
}

// askPlain queries one server with the look-up's own means.
func askPlain(ctx context.Context, server, name string) (a diag.DNSAnswer, err error) {
	got := askBoth(ctx, server, name)
	for _, addr := range got.addrs {
		a.Addresses = append(a.Addresses, addr.String())
	}
	if a.RCode, a.Truncated = got.rcode, got.cut; a.RCode == "" {
		err = got.err
	}
	return a, err
}

// askEach queries every server for the first name at once, in as much detail as p can; one server alone only if that is
// more than the look-up itself shows. It returns a function that returns the answers in the order
// of the servers; callers must call it. It waits only briefly if the look-up has found an address.
func (p *Prober) askEach(ctx context.Context, q question) func(found bool) []diag.DNSAnswer {
	ask := p.AskServer
	if ask == nil && len(q.servers) > 1 && !q.rotate {
		ask = askPlain
	}
	if ask == nil || len(q.names) == 0 || !p.asked.first(strings.Join(q.servers, " ")+" "+q.names[0]) {
		return func(bool) []diag.DNSAnswer { return nil }
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	answers := make([]diag.DNSAnswer, len(q.servers))
	var wg sync.WaitGroup
	for i, server := range q.servers {
		wg.Go(func() {
			began := time.Now()
			a, err := ask(ctx, server, q.names[0])
			a.Server, a.Name, a.DurationMS = server, q.names[0], since(began)
			if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
				if a.Failure = dnsErrorWord(ctx, err); a.Truncated {
					a.Failure = overTCPWord(ctx, err)
				}
			}
			for n, text := range a.Extended {
				a.Extended[n] = string(measure.Clip([]byte(scrub.Text(text)), maxExtended))
			}
			answers[i] = a
		})
	}
	return func(found bool) []diag.DNSAnswer {
		defer cancel()
		if found {
			defer time.AfterFunc(measure.Briefly(ctx, serverGrace), cancel).Stop()
		}
		wg.Wait()
		return answers
	}
}

// maxExtended bounds the text of one extended DNS error.
const maxExtended = 200

// resolvConf has the settings of resolv.conf(5), with the C library's defaults and limits.
type resolvConf struct {
	servers  []string // host:port
	search   []string
	ndots    int
	attempts int
	rotate   bool
	unset    bool          // no server is named
	timeout  time.Duration // per attempt
}

// maxServers is how many name servers the C library uses; it ignores further ones in the list.
const maxServers = 3

// readResolvConf reads the file. If the file or its servers are missing, it returns this host as the server.
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
		c.servers, c.unset = []string{serverAddress("127.0.0.1")}, true
	}
	return c, nil
}

// serverAddress returns a name server with its port. resolv.conf has only addresses; a port is accepted for tests.
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
	case "rotate":
		c.rotate = true
	case "ndots":
		c.ndots = min(max(n, 0), 15)
	case "timeout":
		c.timeout = time.Duration(min(max(n, 1), 30)) * time.Second
	case "attempts":
		c.attempts = min(max(n, 1), 5)
	}
}

// names returns the fully qualified names to try in order: the name itself comes first if it has enough dots, else
// last.
func (c resolvConf) names(name string) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	var names []string
	for _, s := range c.search {
		if s = strings.Trim(s, "."); s != "" { // "search ." is the root: the name itself
			names = append(names, name+"."+s+".")
		}
	}
	if strings.Count(name, ".") >= c.ndots {
		return append([]string{name + "."}, names...)
	}
	return append(names, name+".")
}
