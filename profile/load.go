package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sources are where values come from, strongest first: flags, environment, the profile's file.
type Sources struct {
	Flags map[string]Flag     // by profile key; only flags that were given
	Env   func(string) string // nil: the environment is not read
	Dir   string              // folder of the profiles
}

// Flag is a value from the command line.
type Flag struct {
	Name  string // as typed, e.g. --api-base
	Value string
}

// Origins records by dotted key where a value came from: "flag --api-base", "env GPUAASCTL_API_BASE", "PATH:LINE". A
// key that is missing has its default.
type Origins map[string]string

// InputError is an invalid value of a flag or an environment variable.
type InputError struct {
	Source string // "flag --api-base" or "env GPUAASCTL_API_BASE"
	Err    error
}

func (e *InputError) Error() string {
	return strings.TrimPrefix(e.Source, "flag ") + ": " + e.Err.Error()
}
func (e *InputError) Unwrap() error { return e.Err }

// NotFoundError is a profile that does not exist.
type NotFoundError struct {
	Name  string
	Dir   string
	Known []string
}

func (e *NotFoundError) Error() string {
	have := "it holds no profile; gpuaasctl profile init NAME writes one, and gpuaasctl lab up that of a lab"
	if len(e.Known) > 0 {
		have = "it has: " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("no profile %q in %s (%s)", e.Name, e.Dir, have)
}

// Load reads the named profile, overrides it by the environment and then the flags, and records where each value came
// from. A name with a slash or ending in .yaml is a path. An empty name means GPUAASCTL_PROFILE, or no file at all.
// Errors about values are *FileError, *InputError or *NotFoundError, joined if there are several.
func Load(name string, src Sources) (Profile, Origins, error) {
	env := src.Env
	if env == nil {
		env = func(string) string { return "" }
	}
	name = cmp.Or(name, env(EnvProfile))
	p, origins := Profile{}, Origins{}
	if name == "" {
		err := override(&p, origins, src.Flags, env)
		return p, origins, errors.Join(err, p.plaintextOf(origins))
	}
	path := Path(name, src.Dir)
	p, lines, foreign, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) && !isPath(name) {
		return p, nil, &NotFoundError{name, src.Dir, List(src.Dir)}
	}
	if err != nil {
		return Profile{}, nil, err
	}
	for key, line := range lines {
		origins[key] = fmt.Sprintf("%s:%d", path, line)
	}
	err = override(&p, origins, src.Flags, env)
	return p, origins, errors.Join(err, p.mayUse(path, lines, foreign), p.plaintextOf(origins))
}

// plaintextOf is plaintext after flags and environment: a file that has it alone was refused already.
func (p *Profile) plaintextOf(origins Origins) error {
	var errs []error
	for _, found := range p.plaintext() {
		errs = append(errs, &InputError{origins[found.key], found.err})
	}
	return errors.Join(errs...)
}

// override applies the environment and then the flags to p.
func override(p *Profile, origins Origins, flags map[string]Flag, env func(string) string) error {
	var errs []error
	for _, s := range settings {
		value, source := env(EnvPrefix+s.env), "env "+EnvPrefix+s.env
		if f, ok := flags[s.key]; ok {
			value, source = f.Value, "flag "+f.Name
		} else if value == "" {
			continue
		}
		if err := s.set(p, value); err != nil {
			errs = append(errs, &InputError{source, err})
			continue
		}
		origins[s.key] = source
		switch s.key { // a file given for this run replaces the profile's command
		case "auth.token_file":
			p.Auth.TokenCommand = nil
		case "auth.edge_cookie_file":
			p.Auth.EdgeCookieCommand = nil
		case "ssh.user", "ssh.port": // a value given for this run also replaces a node's own
			forgetOwn(p, s.key)
		}
	}
	return errors.Join(errs...)
}

// forgetOwn removes the nodes' own users or ports from p. It copies the map, which may be shared.
func forgetOwn(p *Profile, key string) {
	nodes := maps.Clone(p.Nodes)
	for id, n := range nodes {
		if key == "ssh.user" {
			n.User = ""
		} else {
			n.Port = 0
		}
		nodes[id] = n
	}
	p.Nodes = nodes
}

// Dir returns the folder of the profiles: $XDG_CONFIG_HOME/gpuaasctl/profiles, else under ~/.config.
func Dir(env func(string) string) string {
	base := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) { // the XDG specification ignores a relative one
		base = filepath.Join(env("HOME"), ".config")
	}
	return filepath.Join(base, "gpuaasctl", "profiles")
}

// Path returns the path of the profile of that name, whether or not it exists.
func Path(name, dir string) string {
	if isPath(name) {
		return name
	}
	return filepath.Join(dir, name+".yaml")
}

func isPath(name string) bool {
	return strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// List returns the names of the profiles in dir, sorted. An unreadable folder has none.
func List(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok && name != "" && !e.IsDir() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
