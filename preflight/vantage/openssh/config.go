// Package openssh reads what OpenSSH's client reads (ssh_config, known_hosts, lists of algorithms, of revoked keys), by
// OpenSSH's own rules, so that a login here goes where `ssh HOST` goes and accepts no host that it refuses.
//
// The rules are those of OpenSSH's sources (readconf.c, hostfile.c, krl.c, match.c), which are stricter and odder than
// its manual: a bad line in ssh_config refuses every login, a bad line in known_hosts is nothing.
package openssh

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// maxConfig bounds one file of ssh_config, in bytes.
const maxConfig = 1 << 20

// File is one file of ssh_config.
type File struct {
	Path string
	// Checked files must belong to root or the user, and not be writable by others, as ~/.ssh/config
	Checked bool
	Dir     string // where Include looks for relative names
}

// Value is what one line of ssh_config gives.
type Value struct {
	Keyword string // in lower case
	Word    string // the keyword as it is written
	Args    []string
	File    string
	Line    int
}

// First returns the first argument; "" of no value.
func (v *Value) First() string {
	if v == nil || len(v.Args) == 0 {
		return ""
	}
	return v.Args[0]
}

// String returns "Keyword value (file:line)".
func (v *Value) String() string {
	return fmt.Sprintf("%s %s (%s)", v.Word, strings.Join(v.Args, " "), v.At())
}

// At returns where the value is: file:line.
func (v *Value) At() string {
	if v == nil || v.File == "" {
		return "the profile"
	}
	return v.File + ":" + strconv.Itoa(v.Line)
}

// Config is what the files of ssh_config say of one host.
type Config struct {
	Asked string // the host as it was named
	Host  string // the name to connect to, after Hostname and canonicalisation

	local  Local
	values map[string][]*Value
	ignore string
	final  bool // a second pass was asked for
	second bool // it is under way
}

// Local is what a login depends on of this machine and its user.
type Local struct {
	Home   string
	User   string
	UID    string
	Shell  string // that runs ProxyCommand and Match exec
	Name   string // of this machine
	Getenv func(string) (string, bool)
	// Run runs a command of a file through the user's shell, and reports whether it succeeded.
	Run func(ctx context.Context, file, command string) (bool, error)
	// Lookup resolves a name as a program does, and returns the name behind its aliases (which may be the same).
	Lookup func(ctx context.Context, name string) (canonical string, err error)
}

// This returns what this process is, without Run and Lookup.
func This() Local {
	l := Local{Home: os.Getenv("HOME"), User: os.Getenv("USER"), Getenv: os.LookupEnv, Shell: os.Getenv("SHELL"),
		UID: strconv.Itoa(os.Getuid())}
	if u, err := user.Current(); err == nil {
		l.User = u.Username
		if l.Home == "" {
			l.Home = u.HomeDir
		}
	}
	if l.Shell == "" {
		l.Shell = "/bin/sh"
	}
	l.Name, _ = os.Hostname()
	return l
}

// Get returns the first value of a keyword; nil if there is none.
func (c *Config) Get(name string) *Value {
	if v := c.values[name]; len(v) > 0 {
		return v[0]
	}
	return nil
}

// All returns all values of a keyword that may have several.
func (c *Config) All(name string) []*Value { return c.values[name] }

// Set gives a keyword a value that no file can change, as the command line of ssh does.
func (c *Config) set(name, value string) {
	if value != "" {
		c.values[name] = []*Value{{Keyword: name, Word: name, Args: []string{value}}}
	}
}

// Yes reports whether a keyword is yes (or true); def without a value.
func (c *Config) Yes(name string, def bool) bool {
	switch strings.ToLower(c.Get(name).First()) {
	case "":
		return def
	case "yes", "true":
		return true
	}
	return false
}

// NotUsed returns the values that change a login and that this program does not honour. failed also lists those by
// which OpenSSH might have been let in where this program was not.
func (c *Config) NotUsed(failed bool) (out []string) {
	for _, name := range sorted(c.values) {
		k, ok := keywords[name]
		if !ok || (k.class != Unused && (k.class != Instead || !failed)) {
			continue
		}
		if v := c.Get(name); !k.idles(strings.ToLower(v.First())) {
			out = append(out, v.String())
		}
	}
	return out
}

// Given are values that the caller's own settings give, as on the command line of ssh.
type Given struct{ User, Port, Jump string }

// Read reads the files for a host.
func Read(ctx context.Context, files []File, host string, given Given, local Local) (*Config, error) {
	c := &Config{Asked: host, Host: host, local: local, values: map[string][]*Value{}}
	c.set("user", given.User)
	c.set("port", given.Port)
	c.set("proxyjump", given.Jump)
	if err := c.pass(ctx, files); err != nil {
		return nil, err
	}
	name, err := c.hostname()
	if err != nil {
		return nil, err
	}
	c.Host = name
	if !isAddress(c.Host) {
		c.Host = strings.ToLower(c.Host)
	}
	again, err := c.canonicalize(ctx)
	if err != nil {
		return nil, err
	}
	if again || c.final {
		c.second = true
		c.values["hostname"] = []*Value{{Keyword: "hostname", Word: "Hostname", Args: []string{c.Host}}}
		if err := c.pass(ctx, files); err != nil {
			return nil, err
		}
	}
	if v := c.Get("refuseconnection"); v != nil {
		return nil, fmt.Errorf("%s: RefuseConnection: %s", v.At(), v.First())
	}
	return c, nil
}

// pass reads all files once.
func (c *Config) pass(ctx context.Context, files []File) error {
	for _, f := range files {
		r := reader{c: c, dir: f.Dir, active: true}
		if err := r.file(ctx, f.Path, f.Checked, 0); err != nil {
			return err
		}
	}
	return nil
}

// hostname returns the host to connect to: Hostname with its tokens, or what was asked for.
func (c *Config) hostname() (string, error) {
	v := c.Get("hostname")
	if v == nil || c.second {
		return c.Host, nil
	}
	name, err := Expand(v.First(), Tokens{'h': c.Asked}, nil)
	if err != nil {
		return "", fmt.Errorf("%s: Hostname: %w", v.At(), err)
	}
	return name, nil
}

// Port returns the port to connect to.
func (c *Config) Port() string {
	if p := c.Get("port").First(); p != "" {
		return p
	}
	return "22"
}

// User returns the user to log in as.
func (c *Config) User() string {
	if u := c.Get("user").First(); u != "" {
		return u
	}
	return c.local.User
}
