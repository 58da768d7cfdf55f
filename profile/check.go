package profile

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// maxBudget bounds one hop's budget, since a whole walk should take five minutes at most.
const maxBudget = 5 * time.Minute

// problem is one invalid value of a file, with the dotted key that leads to its line.
type problem struct {
	key string
	err error
}

// problems lists the invalid values of a file that was decoded without errors, unsorted.
func problems(p *Profile) []problem {
	var out []problem
	add := func(key string, err error) {
		if err != nil {
			out = append(out, problem{key, err})
		}
	}
	for _, s := range settings {
		if s.num != nil {
			continue
		}
		if v := *s.text(p); v != "" {
			add(s.key, s.check(v))
		}
	}
	sshProblems(p, add)
	for key, v := range p.Policy {
		add("policy."+key, checkPolicy(key, v))
	}
	for hop, d := range p.Budgets {
		add("budgets."+string(hop), checkBudget(hop, d))
	}
	for name, template := range p.Mapping.Paths {
		add("mapping.paths."+name, checkPath(name, template))
	}
	for name, path := range p.Mapping.Fields {
		add("mapping.fields."+name, checkField(name, path))
	}
	for i, server := range p.NodeNameServers {
		add(fmt.Sprintf("node_name_servers[%d]", i), checkServer(server))
	}
	out = append(out, p.plaintext()...)
	commandProblems(p, add)
	appProblems(p, add)
	taskProblems(&p.Task, add)
	terminalProblems(p, add)
	add("gpu.policy", checkGPUPolicy(p.GPU))
	add("kind", checkKind(p.Kind))
	for id := range p.Hops {
		add("hops."+string(id), checkOptionalHop(id))
	}
	agentProblems(p.Agent, add)
	checksProblems(p, add)
	return out
}

// sshProblems reports invalid logins, nodes and pinned fingerprints.
func sshProblems(p *Profile, add func(key string, err error)) {
	for prefix, ssh := range map[string]SSH{"ssh": p.SSH, "platform_ssh": p.PlatformSSH} {
		if ssh.Port != 0 {
			add(prefix+".port", checkPort(ssh.Port))
		}
	}
	if p.SSH.Host != "" {
		add("ssh.host", fmt.Errorf("ssh has no host of its own: give each node's under nodes"))
	}
	checkID := func(key, what, v string) {
		if err := CheckID(v); err != nil {
			add(key, fmt.Errorf("%s: %w", what, err))
		}
	}
	checkID("platform_ssh.host", "the platform's host", p.PlatformSSH.Host)
	for id, n := range p.Nodes {
		if id == "" {
			add("nodes", errors.New("the id of a node is empty"))
		}
		checkID("nodes."+id, "the id of a node", id)
		checkID("nodes."+id+".host", "the host of a node", n.Host)
		if n.Command != nil {
			add("nodes."+id+".command", checkCommand(n.Command))
		}
		if n.Port != 0 {
			add("nodes."+id+".port", checkPort(n.Port))
		}
		if n.User != "" {
			add("nodes."+id+".user", checkLogin(n.User))
		}
	}
	for key, v := range map[string]string{
		"trust.signing_ca_fingerprint":      p.Trust.SigningCAFingerprint,
		"trust.ingress_ca_fingerprint":      p.Trust.IngressCAFingerprint,
		"trust.node_api_server_fingerprint": p.Trust.NodeAPIServerFingerprint,
	} {
		if v != "" {
			add(key, checkFingerprint(v))
		}
	}
}

// commandProblems reports invalid commands, and invalid windows of drills.
func commandProblems(p *Profile, add func(key string, err error)) {
	for name, from := range map[string]struct {
		file    string
		command []string
	}{"token": {p.Auth.TokenFile, p.Auth.TokenCommand}, "edge_cookie": {p.Auth.EdgeCookieFile, p.Auth.EdgeCookieCommand}} {
		if from.command == nil {
			continue
		}
		add("auth."+name+"_command", checkCommand(from.command))
		if from.file != "" {
			add("auth."+name+"_command", fmt.Errorf("give %s_file or %s_command, not both", name, name))
		}
	}
	if p.Agent.VersionCommand != nil {
		add("agent.version_command", checkCommand(p.Agent.VersionCommand))
	}
	for i, text := range p.Chaos.Windows {
		if _, err := ParseWindow(text); err != nil {
			add(fmt.Sprintf("chaos.windows[%d]", i), fmt.Errorf("chaos.windows: %w", err))
		}
	}
}

// appProblems reports invalid settings of the path to a workload.
func appProblems(p *Profile, add func(key string, err error)) {
	for key, v := range map[string]string{"app.websocket": p.App.Websocket, "app.headers_path": p.App.HeadersPath} {
		if v != "" {
			add(key, checkAppPath(v))
		}
	}
	for i, name := range p.App.InjectedHeaders {
		if !headerName().MatchString(name) {
			add(fmt.Sprintf("app.injected_headers[%d]", i), fmt.Errorf("not the name of a header: %q", name))
		}
	}
}

// checkGPUPolicy accepts a built-in policy or a file; a file's content is checked only when it is used.
func checkGPUPolicy(g GPU) error {
	if g.Policy == "" || slices.Contains(GPUPolicies(), g.Policy) {
		return nil
	}
	if !g.IsFile() {
		return fmt.Errorf("there is no built-in policy %q%s: want %s, or a file as ./mine.yaml", g.Policy,
			strictyaml.Nearest(g.Policy, GPUPolicies()), strings.Join(GPUPolicies(), ", "))
	}
	return checkPlain(g.Policy)
}

// headerName matches the name of an HTTP header as edges write it.
var headerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`) })

// checkAppPath accepts a path under a product URL, without a query, which might contain credentials.
func checkAppPath(v string) error {
	if !strings.HasPrefix(v, "/") || strings.ContainsAny(v, "?# \t\r\n") {
		return fmt.Errorf("want a path that begins with /, without a query, not %q", withoutQuery(v))
	}
	return nil
}

// withoutQuery returns the part of a URL or a path that an error may show.
func withoutQuery(v string) string {
	if i := strings.IndexAny(v, "?#"); i >= 0 {
		return v[:i] + "…"
	}
	return v
}

// checkURL accepts an address to which a path can be appended: http or https and a host, nothing after it. Its errors
// show neither credentials nor a query, even of malformed text.
func checkURL(v string) error {
	u, err := url.Parse(v)
	shown := withoutQuery(v)
	web := err == nil && (u.Scheme == "https" || u.Scheme == "http")
	switch {
	case (web && u.User != nil) || (!web && strings.Contains(v, "@")):
		return errors.New("a URL here must not hold a login; secrets come from files")
	case err != nil:
		return fmt.Errorf("not a URL: %q", shown)
	case !web:
		return fmt.Errorf("want https://host[:port], not %q", shown)
	case u.Hostname() == "":
		return fmt.Errorf("the URL %q has no host", shown)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("want https://host[:port] without what is behind %q", shown)
	}
	return nil
}

func checkIP(v string) error {
	if _, err := netip.ParseAddr(v); err != nil {
		return fmt.Errorf("want an IP address, not %q", v)
	}
	return nil
}

// checkServer accepts the address of a name server, with an optional port.
func checkServer(v string) error {
	if _, err := netip.ParseAddrPort(v); err == nil {
		return nil
	}
	return checkIP(v)
}

// CheckID refuses an id or a host that no platform gives: they are used in URLs, headers, completions and commands to
// paste, so none has a character that a shell reads. "" is no id, and no mistake here.
func CheckID(v string) error {
	if strings.ContainsFunc(v, notInID) || strings.HasPrefix(v, "-") || len(v) > 255 {
		return fmt.Errorf("%q cannot be one", v)
	}
	return nil
}

func notInID(r rune) bool {
	return r == ' ' || !unicode.IsPrint(r) || strings.ContainsRune("'\"`$\\;|&<>(){}*?~", r)
}

// checkLogin refuses what ssh would parse as an option or a host.
func checkLogin(v string) error {
	if v == "" || strings.HasPrefix(v, "-") || strings.ContainsAny(v, "@: \t\n/") {
		return fmt.Errorf("not a login name: %q", v)
	}
	return nil
}

func checkPlain(v string) error {
	if strings.ContainsAny(v, "\x00\n\r") {
		return fmt.Errorf("a line break in %q", v)
	}
	return nil
}

// checkCommand accepts a program and its arguments as a list: no shell interprets them.
func checkCommand(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return fmt.Errorf("want a program and its arguments as a list: [program, argument]")
	}
	for _, word := range argv {
		if err := checkPlain(word); err != nil {
			return err
		}
	}
	if len(argv) == 1 && strings.ContainsAny(argv[0], " \t") {
		return fmt.Errorf("no shell reads %q: give the program and each argument as an item of the list", argv[0])
	}
	return nil
}

func checkPort(n int) error {
	if n < 1 || n > 65535 {
		return fmt.Errorf("want a port between 1 and 65535, not %d", n)
	}
	return nil
}

func checkFingerprint(v string) error {
	if b, err := hex.DecodeString(v); err != nil || len(b) != 32 || strings.ToLower(v) != v {
		return fmt.Errorf("want the sha256 of a certificate as 64 lower-case hex digits, not %q", v)
	}
	return nil
}

func checkBudget(hop diag.HopID, d time.Duration) error {
	if !hop.Valid() {
		var known []string
		for _, h := range diag.HopIDs() {
			known = append(known, string(h))
		}
		return fmt.Errorf("unknown hop %q%s", hop, strictyaml.Nearest(string(hop), known))
	}
	if d < time.Millisecond || d > maxBudget {
		return fmt.Errorf("the budget of %s must be between 1ms and %s, not %s", hop, maxBudget, d)
	}
	return nil
}
