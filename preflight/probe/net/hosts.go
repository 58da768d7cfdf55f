package net

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// nameFiles are the paths of the host's name service configuration. The zero value is the standard paths; tests have
// their own.
type nameFiles struct {
	hosts, resolv, nsswitch string
	getent                  string // program
	behind                  []string
}

func (n nameFiles) withDefaults() nameFiles {
	for _, d := range [...]struct {
		field *string
		value string
	}{{&n.hosts, "/etc/hosts"}, {&n.resolv, "/etc/resolv.conf"}, {&n.nsswitch, "/etc/nsswitch.conf"},
		{&n.getent, "getent"}} {
		*d.field = cmp.Or(*d.field, d.value)
	}
	if n.behind == nil {
		n.behind = behindFiles
	}
	return n
}

// Lines of the hosts file between these are managed by a tool. Text after the marker on its line is ignored.
const (
	hostsBegin = "# BEGIN gpuaasctl"
	hostsEnd   = "# END gpuaasctl"
)

// hostsAnswer is a hosts file's answer for a name.
type hostsAnswer struct {
	addrs   []netip.Addr
	line    int // of the first address, from 1
	managed bool
}

// readHosts finds every address of name in the text of a hosts file.
func readHosts(text []byte, name string) hostsAnswer {
	var a hostsAnswer
	managed := false
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case strings.HasPrefix(line, hostsBegin):
			managed = true
		case strings.HasPrefix(line, hostsEnd):
			managed = false
		}
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, f := range fields[1:] {
			if strings.EqualFold(strings.TrimSuffix(f, "."), name) {
				if len(a.addrs) == 0 {
					a.line, a.managed = n, managed
				}
				a.addrs = append(a.addrs, addr)
				break
			}
		}
	}
	return a
}

// nameService is one source of the hosts line of nsswitch.conf.
type nameService struct {
	name string // files, dns, myhostname, resolve, ...
	stop bool   // [NOTFOUND=return] or stronger follows: a negative answer is final
}

// readNSSwitch returns the order of sources; files, then dns, if the text has none.
func readNSSwitch(text []byte) []nameService {
	var services []nameService
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "hosts:")
		if !ok {
			continue
		}
		action := false
		for _, word := range strings.Fields(strings.NewReplacer("[", " [ ", "]", " ] ").Replace(rest)) {
			switch {
			case word == "[":
				action = true
			case word == "]":
				action = false
			case action && len(services) > 0:
				if finalNo(strings.ToUpper(word)) {
					services[len(services)-1].stop = true
				}
			case !action:
				services = append(services, nameService{name: strings.ToLower(word)})
			}
		}
	}
	if len(services) == 0 {
		return []nameService{{name: "files"}, {name: "dns"}}
	}
	return services
}

// finalNo reports whether an nsswitch action ends the search if the source does not know the name. !UNAVAIL=return
// does: any answer except "unavailable" is final. Whether a source is available cannot be seen from outside, so such an
// action applies only to sources that are queried here, see lookupHost.
func finalNo(action string) bool {
	status, what, ok := strings.Cut(action, "=")
	if !ok || what != "RETURN" {
		return false
	}
	if not, ok := strings.CutPrefix(status, "!"); ok {
		return not != "NOTFOUND"
	}
	return status == "NOTFOUND"
}

// lookupHost resolves name as this host would: with the sources of nsswitch.conf in order.
func (c *exchange) lookupHost(ctx context.Context, name string) found {
	files := c.p.names.withDefaults()
	text, _ := os.ReadFile(files.nsswitch) // missing on some systems; the default order then applies
	var last found
	for _, s := range readNSSwitch(text) {
		got, asked := found{}, true
		switch s.name {
		case "files":
			got = lookupFile(files.hosts, name)
		case "dns":
			got = c.p.lookupDNS(ctx, files.resolv, name)
		case "myhostname":
			asked = false // only this host's own names
		default:
			got, asked = lookupNSS(ctx, files.getent, s.name, name), false
		}
		if len(got.addrs) > 0 {
			return got
		}
		if got.word != "" {
			last = got
		}
		if ctx.Err() != nil || (s.stop && asked) {
			break
		}
	}
	if last.word == "" {
		last.word, last.err = noSuchName, fmt.Errorf("no source of names knows %s", name)
	}
	return last
}

func lookupFile(path, name string) found {
	text, err := os.ReadFile(path)
	if err != nil {
		return unasked(err)
	}
	a := readHosts(text, name)
	f := found{addrs: a.addrs, source: sourceHostsManual}
	if a.managed {
		f.source = sourceHostsManaged
	}
	if len(a.addrs) > 0 {
		f.line = fmt.Sprintf("%s:%d", path, a.line)
	}
	return f
}

// lookupNSS queries one source that only the C library supports (resolve, mdns, sss, ...). A negative answer does not
// count: the service may not run at all.
func lookupNSS(ctx context.Context, getent, service, name string) found {
	a, err := host.Command{}.Run(ctx, getent, "-s", "hosts:"+service, "ahosts", name)
	f := found{source: sourceNSS}
	if err != nil || a.Code != 0 {
		return unasked(err)
	}
	f.addrs = getentAddresses(string(a.Out))
	return f
}

// unasked is the result of a source that could not be queried: empty, unless this machine ran out of a resource for the
// query.
func unasked(err error) found {
	if measure.ResourceOf(err) == "" {
		return found{}
	}
	return found{word: diag.HostExhausted, err: err}
}
