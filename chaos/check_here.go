package chaos

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// interpreters run whatever their arguments name, so that the rule "one program" says nothing about them.
var interpreters = [...]string{
	"awk", "ed", "ex", "expect", "find", "gawk", "lua", "make", "mawk", "nawk", "node", "osascript", "perl", "php", "pwsh",
	"python", "ruby", "socat", "tclsh", "vi", "vim",
}

// loopbackAPI matches an API on the machine that calls it, by address, since a name can be made to resolve to
// anything.
var loopbackAPI = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^https?://(127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|\[::1\])(:[0-9]{1,5})?/?$`)
})

// ownAPI reports whether base is an API that may receive the operator's token: the profile's, or one on the
// platform's own machine.
func ownAPI(base, profiles string) bool {
	return loopbackAPI().MatchString(base) ||
		(profiles != "" && strings.TrimRight(base, "/") == strings.TrimRight(profiles, "/"))
}

const wantAPI = "the operator's token is sent there: want http://127.0.0.1:PORT, which is the platform's own " +
	"machine, or " +
	"${edge_api_url}"

// here rejects what a probe on the operator's machine does not need. It catches mistakes; MayRunLocally protects
// against attacks, by checking the file's source.
func (c *checker) here(key string, p Probe) {
	if p.From != RoleOperator {
		return
	}
	for i, w := range started(p.Probe) {
		name := strings.TrimRight(path.Base(w), "0123456789.")
		for _, no := range interpreters {
			if name == no {
				c.bad(key+".probe",
					"%s: want a program with its arguments on the operator's machine, not one that runs other programs", w)
				return
			}
		}
		if name == "curl" {
			if _, why := readCurl(p.Probe[min(i+1, len(p.Probe)):]); why != "" {
				c.bad(key+".probe", "curl on the operator's machine: %s", why)
			}
			return
		}
	}
}

// material rejects a probe that would send material of the run, which may be the operator's token, to anything but
// the platform's API.
func (c *checker) material(key string, p Probe) {
	if !strings.Contains(strings.Join(p.Probe, "\x00"), "gpuaasctl-") {
		return
	}
	if path.Base(p.Probe[0]) != "curl" {
		for _, a := range p.Probe {
			if strings.Contains(a, "gpuaasctl-") && strings.HasSuffix(a, "-header") {
				c.bad(key+".probe", "%s holds the operator's token: only curl may read it", a)
			}
		}
		return
	}
	asked, why := readCurl(p.Probe[1:])
	if why != "" {
		c.bad(key+".probe", "with the operator's token: %s", why)
		return
	}
	for _, a := range asked {
		base := a
		if at := strings.Index(a, "://"); at > 0 {
			if slash := strings.IndexByte(a[at+3:], '/'); slash >= 0 {
				base = a[:at+3+slash]
			}
		}
		if base != "${edge_api_url}" && !strings.HasPrefix(a, "${edge_api_url}/") && !loopbackAPI().MatchString(base) {
			c.bad(key+".probe", "%s: %s", a, wantAPI)
		}
	}
	for _, a := range p.Probe {
		if a == "--connect-to" || a == "--resolve" || a == "-L" || a == "--location" {
			c.bad(key+".probe", "%s: would lead the operator's token elsewhere", a)
		}
	}
}

// curlLooks are curl's read-only options; true if a value follows.
var curlLooks = sync.OnceValue(func() map[string]bool {
	return options("-s -S -f -k -i -I -v -g -L -4 -6 --silent --show-error --fail --insecure --include --head --location "+
		"--http1.1 --http2 --compressed --ipv4 --ipv6 --no-progress-meter --tlsv1.2 --tlsv1.3",
		"-m -w -X -H -o -d -A --max-time --write-out --request --header --output --data --data-raw --cacert --capath "+
			"--connect-to --resolve --connect-timeout --retry --retry-delay --tls-max --user-agent --max-redirs --noproxy")
})

func options(flags, values string) map[string]bool {
	all := map[string]bool{}
	for f := range strings.FieldsSeq(flags) {
		all[f] = false
	}
	for v := range strings.FieldsSeq(values) {
		all[v] = true
	}
	return all
}

// readCurl parses read-only arguments of curl and returns the URL; why names the first argument that may read or
// write a local file other than a header file of the run.
func readCurl(args []string) (asked []string, why string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") {
			u, err := url.Parse(a)
			if err == nil && !slices.Contains([]string{"", "http", "https", "telnet"}, u.Scheme) {
				return nil, fmt.Sprintf("%s: want http, https or telnet", a)
			}
			asked = append(asked, a)
			continue
		}
		option := a
		// as in -sk: each letter is an option, and the last one may have a value
		if !strings.HasPrefix(a, "--") && len(a) > 2 {
			for _, r := range a[1 : len(a)-1] {
				if value, ok := curlLooks()["-"+string(r)]; !ok || value {
					return nil, fmt.Sprintf("option %s may do more than look: write each option by itself", a)
				}
			}
			option = "-" + a[len(a)-1:]
		}
		value, ok := curlLooks()[option]
		if !ok {
			return nil, fmt.Sprintf("option %s may do more than look", a)
		}
		if !value {
			continue
		}
		if i++; i == len(args) {
			return nil, fmt.Sprintf("option %s has no value", a)
		}
		v := args[i]
		switch {
		case (option == "-o" || option == "--output") && v != "/dev/null":
			return nil, fmt.Sprintf("option %s %s writes a file", a, v)
		case strings.Contains(v, "%output{"):
			return nil, fmt.Sprintf("option %s %s writes a file", a, v)
		case strings.HasPrefix(v, "@") && !(option == "-H" && strings.HasPrefix(v, "@/run/gpuaasctl-${run}-")):
			return nil, fmt.Sprintf("option %s %s reads a file", a, v)
		}
	}
	return asked, ""
}
