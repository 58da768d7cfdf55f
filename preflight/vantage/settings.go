package vantage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
	"github.com/gpuaas/gpuaasctl/profile"
)

// target is one SSH server and its login, merged from the profile and the operator's ssh_config.
type target struct {
	alias      string // host as the caller named it
	host       string // name or address to connect to
	port       string
	user       string
	identities []string // key files; named: by the operator or ssh_config
	named      bool
	only       bool     // no key of the agent is offered but those of identities
	certs      []string // files of user certificates
	knownHosts []string // files; a new key is written to the first
	keyAlias   string   // HostKeyAlias: the host's name in known_hosts
	jumps      []target // to pass through, in order
	proxy      *proxy   // a program to pass through; nil: none
	dial       dialling
	algorithms algorithms
	config     *openssh.Config // nil in tests of rules

	profileKey, profileHosts bool // identities, knownHosts: from the profile
}

func (t *target) address() string { return net.JoinHostPort(t.host, t.port) }

// keyAddress returns the host:port of the key in known_hosts.
func (t *target) keyAddress() string {
	if t.keyAlias != "" {
		return net.JoinHostPort(t.keyAlias, "22")
	}
	return t.address()
}

// String returns user@host:port.
func (t *target) String() string { return t.user + "@" + t.address() }

// value returns the first value of a keyword of ssh_config.
func (t *target) value(name string) *openssh.Value {
	if t.config == nil {
		return nil
	}
	return t.config.Get(name)
}

// notUsed returns what ssh_config says and this program does not do; failed: of a login that failed.
func (t *target) notUsed(failed bool) []string {
	if t.config == nil {
		return nil
	}
	return t.config.NotUsed(failed)
}

// errNoHost is the error of a login without a host to dial.
var errNoHost = errors.New("no host to dial is given: name it under nodes in the profile, or by --node-host")

// place is the context of a look-up of settings: the operator's machine and ssh_config files.
type place struct {
	local openssh.Local
	files []openssh.File // the first value wins
}

// here returns this operator's place. file, if not empty, replaces both ssh_config files; "none" reads none.
func here(file string) place {
	p := place{local: openssh.This()}
	p.local.Run, p.local.Lookup = runShell(p.local.Shell), lookupName
	own := filepath.Join(p.local.Home, ".ssh")
	switch file {
	case "":
		p.files = []openssh.File{{Path: filepath.Join(own, "config"), Checked: true, Dir: own},
			{Path: "/etc/ssh/ssh_config", Dir: "/etc/ssh"}}
	case "none":
	default:
		p.files = []openssh.File{{Path: file, Dir: own}}
	}
	return p
}

// lookupName resolves a name as programs do, and returns the name behind its aliases.
func lookupName(ctx context.Context, name string) (string, error) {
	if _, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name); err != nil {
		return "", err
	}
	canonical, err := net.DefaultResolver.LookupCNAME(ctx, name)
	if err != nil {
		return name, nil // as of a hosts file
	}
	return canonical, nil
}

// mostJumps bounds the hosts to pass through: an ssh_config may send a jump host through itself.
const mostJumps = 8

// resolve merges the settings for host: the profile overrides ssh_config, which overrides SSH's defaults. Each jump
// host is looked up in ssh_config by its own name, and the first may have jump hosts of its own; the profile's identity
// and known hosts also apply to jump hosts for which ssh_config has none.
//
// An empty host is an error: the network would take it for this machine.
func (p place) resolve(ctx context.Context, host string, s profile.SSH) (target, error) {
	return p.resolveWithin(ctx, host, s, mostJumps)
}

func (p place) resolveWithin(ctx context.Context, host string, s profile.SSH, most int) (target, error) {
	if host == "" {
		return target{}, errNoHost
	}
	port := ""
	if s.Port != 0 {
		port = strconv.Itoa(s.Port)
	}
	c, err := openssh.Read(ctx, p.files, host, openssh.Given{User: s.User, Port: port, Jump: s.Jump}, p.local)
	if err != nil {
		return target{}, err
	}
	t, err := p.merge(c, s)
	if err != nil {
		return target{}, err
	}
	if t.proxy, err = proxyOf(c, p.local.Shell); err != nil || t.proxy != nil {
		return t, err
	}
	jump := c.Get("proxyjump").First()
	if jump == "" || strings.EqualFold(jump, "none") {
		return t, nil
	}
	if jump, err = openssh.Expand(jump, c.ForProxy(), nil); err != nil {
		return target{}, fmt.Errorf("reading the jump hosts of %s: %w", host, err)
	}
	for i, hop := range strings.Split(jump, ",") {
		hs, name, err := splitJump(hop)
		if err == nil && len(t.jumps) >= most {
			err = fmt.Errorf("there are more than %d, or one of them is reached through itself", mostJumps)
		}
		if err != nil {
			return target{}, fmt.Errorf("reading the jump hosts of %s: %w", host, err)
		}
		if i > 0 {
			hs.Jump = "none" // it is reached through the one before it, whatever ssh_config says
		}
		h, err := p.jumpHost(ctx, name, hs, s, most-len(t.jumps)-1)
		if err != nil {
			return target{}, err
		}
		if i == 0 && h.address() == t.address() { // of a Host *: the jump host itself is reached directly
			return t, nil
		}
		t.jumps = append(t.jumps, h.jumps...)
		h.jumps = nil
		t.jumps = append(t.jumps, h)
	}
	return t, nil
}

// jumpHost resolves a jump host by its own settings hs; s are those of the node.
func (p place) jumpHost(ctx context.Context, name string, hs, s profile.SSH, most int) (target, error) {
	hs.KnownHosts = s.KnownHosts
	h, err := p.resolveWithin(ctx, name, hs, max(0, most))
	if err != nil || s.Identity == "" || len(h.config.All("identityfile")) > 0 {
		return h, err
	}
	h.identities, err = p.paths(h.config, &openssh.Value{Word: "ssh.identity", Args: []string{s.Identity}})
	h.named, h.only, h.profileKey = true, true, true
	return h, err
}

// merge returns a target without its jumps.
func (p place) merge(c *openssh.Config, s profile.SSH) (target, error) {
	t := target{alias: c.Asked, host: c.Host, port: c.Port(), user: c.User(), config: c,
		keyAlias: strings.ToLower(c.Get("hostkeyalias").First()), only: c.Yes("identitiesonly", false)}
	var errs [5]error
	given := func(word, file string) *openssh.Value { return &openssh.Value{Word: word, Args: []string{file}} }
	switch files := c.All("identityfile"); {
	case s.Identity != "":
		t.identities, errs[0] = p.paths(c, given("ssh.identity", s.Identity))
		t.named, t.only, t.profileKey = true, true, true
	case len(files) > 0:
		t.identities, errs[0] = p.paths(c, files...)
		t.named = true
	default:
		t.identities, errs[0] = p.paths(c, given("IdentityFile", "~/.ssh/id_ed25519"),
			given("IdentityFile", "~/.ssh/id_ecdsa"), given("IdentityFile", "~/.ssh/id_rsa"),
			given("IdentityFile", "~/.ssh/id_ed25519_sk"), given("IdentityFile", "~/.ssh/id_ecdsa_sk"))
	}
	t.certs, errs[1] = p.paths(c, c.All("certificatefile")...)
	if s.KnownHosts != "" {
		t.knownHosts, errs[2] = p.paths(c, given("ssh.known_hosts", s.KnownHosts))
		t.profileHosts = true
	} else {
		t.knownHosts, errs[2] = p.hostFiles(c)
	}
	t.dial, errs[3] = diallingOf(c)
	t.algorithms, errs[4] = algorithmsOf(c)
	return t, errors.Join(errs[:]...)
}

// hostFiles returns the known_hosts files of the user and of the machine.
func (p place) hostFiles(c *openssh.Config) ([]string, error) {
	own, all := c.Get("userknownhostsfile"), c.Get("globalknownhostsfile")
	if own == nil {
		own = &openssh.Value{Word: "UserKnownHostsFile", Args: []string{"~/.ssh/known_hosts", "~/.ssh/known_hosts2"}}
	}
	if all == nil {
		all = &openssh.Value{Word: "GlobalKnownHostsFile",
			Args: []string{"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}}
	}
	return p.paths(c, own, all)
}

// paths expands names of files. none as the only one names no file.
func (p place) paths(c *openssh.Config, values ...*openssh.Value) (out []string, err error) {
	for _, v := range values {
		if len(v.Args) == 1 && strings.EqualFold(v.Args[0], "none") {
			continue
		}
		for _, name := range v.Args {
			path, err := c.Path(v, name)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	return out, nil
}
