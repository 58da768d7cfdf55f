package vantage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/owned"
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
	knownHosts []string // files; a new key is written to the first
	keyAlias   string   // HostKeyAlias: the host's name in known_hosts
	jumps      []target // to pass through, in order

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

// errNoHost is the error of a login without a host to dial.
var errNoHost = errors.New("no host to dial is given: name it under nodes in the profile, or by --node-host")

// place is the context of a look-up of settings: the operator's home, name and ssh_config files.
type place struct {
	home  string
	user  string
	files []string // ssh_config files; the first match wins
}

// here returns this operator's place. file, if not empty, replaces both ssh_config files; "none" reads none.
func here(file string) place {
	p := place{home: os.Getenv("HOME"), user: os.Getenv("USER")}
	if u, err := user.Current(); err == nil {
		p.user = u.Username
		p.home = cmp.Or(p.home, u.HomeDir)
	}
	switch file {
	case "":
		p.files = []string{filepath.Join(p.home, ".ssh", "config"), "/etc/ssh/ssh_config"}
	case "none":
	default:
		p.files = []string{file}
	}
	return p
}

// CheckFiles refuses unusable SSH files of a profile: an identity without a private or public key, an existing
// known_hosts that cannot be read, and either if another user could have written it. A missing known_hosts is created
// with the first accepted key. The error names the profile's key.
func CheckFiles(s profile.SSH) error {
	p := here("none")
	// a token can only be expanded for a host
	unset := func(name string) bool { return name == "" || strings.Contains(name, "%") }
	var errs []error
	if !unset(s.Identity) {
		file := p.expand(s.Identity, &target{})
		_, errKey := os.Stat(file)
		if _, errPub := os.Stat(file + ".pub"); errKey != nil && errPub != nil { // an agent may have the key of a .pub
			errs = append(errs, fmt.Errorf("ssh.identity: %w", errKey))
		}
		if err := checkOwner(file); err != nil {
			errs = append(errs, fmt.Errorf("ssh.identity: %w", err))
		}
	}
	if !unset(s.KnownHosts) {
		file := p.expand(s.KnownHosts, &target{})
		err := mayRead(file)
		if err == nil {
			err = checkOwner(file)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("ssh.known_hosts: %w", err))
		}
	}
	return errors.Join(errs...)
}

// checkOwner refuses a profile's SSH file that another user could have written: its author would choose which host
// keys are accepted, or which key logs in. A missing file, and one that is not regular, is not checked.
func checkOwner(file string) error {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := owned.Open(file, owned.Caller())
	if err != nil {
		return err
	}
	return f.Close()
}

// resolve merges the settings for host: the profile overrides ssh_config, which overrides SSH's defaults. Each jump
// host is looked up in ssh_config by its own name; the profile's identity and known hosts also apply to jump hosts for
// which ssh_config has none.
//
// An empty host is an error: the network would take it for this machine.
func (p place) resolve(ctx context.Context, host string, s profile.SSH) (target, error) {
	if host == "" {
		return target{}, errNoHost
	}
	look, err := p.lookup(ctx, host)
	if err != nil {
		return target{}, err
	}
	t := p.merge(host, s, look)
	jump := cmp.Or(s.Jump, look.get("proxyjump"))
	if jump == "" || strings.EqualFold(jump, "none") {
		if cmd := look.get("proxycommand"); cmd != "" && !strings.EqualFold(cmd, "none") && s.Jump == "" {
			return target{}, fmt.Errorf(
				"ssh_config gives %s a ProxyCommand, which is not supported: set a ProxyJump, or ssh.jump in the profile", host)
		}
		return t, nil
	}
	for _, hop := range strings.Split(p.expand(jump, &t), ",") {
		hs, name, err := splitJump(hop)
		if err != nil {
			return target{}, fmt.Errorf("reading the jump hosts of %s: %w", host, err)
		}
		hopLook, err := p.lookup(ctx, name)
		if err != nil {
			return target{}, err
		}
		hs.KnownHosts = s.KnownHosts
		if len(hopLook.all("identityfile")) == 0 {
			hs.Identity = s.Identity
		}
		t.jumps = append(t.jumps, p.merge(name, hs, hopLook))
	}
	return t, nil
}

// merge returns a target without its jumps.
func (p place) merge(alias string, s profile.SSH, look settings) target {
	t := target{alias: alias, host: alias, port: "22", user: p.user, keyAlias: look.get("hostkeyalias")}
	if name := look.get("hostname"); name != "" {
		t.host = strings.ReplaceAll(strings.ReplaceAll(name, "%%", "%"), "%h", alias)
	}
	if port := look.get("port"); port != "" {
		t.port = port
	}
	if s.Port != 0 {
		t.port = strconv.Itoa(s.Port)
	}
	if u := look.get("user"); u != "" {
		t.user = u
	}
	t.user = cmp.Or(s.User, t.user)
	t.identities = look.all("identityfile")
	if s.Identity != "" {
		t.identities, t.profileKey = []string{s.Identity}, true
	}
	t.named = len(t.identities) > 0
	if !t.named {
		t.identities = []string{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"}
	}
	t.knownHosts = strings.Fields(look.get("userknownhostsfile"))
	if len(t.knownHosts) == 0 {
		t.knownHosts = []string{"~/.ssh/known_hosts", "~/.ssh/known_hosts2"}
	}
	t.knownHosts = append(t.knownHosts, "/etc/ssh/ssh_known_hosts")
	if s.KnownHosts != "" {
		t.knownHosts, t.profileHosts = []string{s.KnownHosts}, true
	}
	for _, list := range [][]string{t.identities, t.knownHosts} {
		for i := range list {
			list[i] = p.expand(list[i], &t)
		}
	}
	t.identities = slices.DeleteFunc(t.identities, func(f string) bool { return f == "none" })
	return t
}

// expand replaces ~ and the percent tokens that ssh_config supports for files and jumps.
func (p place) expand(s string, t *target) string {
	if s == "~" || strings.HasPrefix(s, "~/") {
		s = p.home + s[1:]
	}
	return strings.NewReplacer("%%", "%", "%h", t.host, "%n", t.alias, "%p", t.port, "%r", t.user, "%u", p.user,
		"%d", p.home).Replace(s)
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
