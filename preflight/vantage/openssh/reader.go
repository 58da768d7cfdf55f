package openssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// maxDepth is how deep files may include each other, as in OpenSSH.
const maxDepth = 16

// reader reads the lines of a file and of those that it includes.
type reader struct {
	c      *Config
	dir    string
	active bool // the lines count: their Host or Match matches
	never  bool // they are included where nothing matches
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// ReadFile reads a file of ssh_config or a known_hosts file. A pipe without a writer is empty, and no file is longer
// than most. If checked, the file must be as OpenSSH wants its own: of root or the user, and not writable by others.
func ReadFile(path string, checked bool, most int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	}
	if checked {
		if why := badOwner(info); why != "" {
			return nil, fmt.Errorf("bad owner or permissions on %s: %s", path, why)
		}
	}
	b, err := bounded.Read(f, most)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return b, err
}

// badOwner says why OpenSSH does not use a file of its own; "" if it does.
func badOwner(info fs.FileInfo) string {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Uid != 0 && int(sys.Uid) != os.Getuid() {
		return fmt.Sprintf("it belongs to user %d", sys.Uid)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Sprintf("its mode %04o lets others write it", mode)
	}
	return ""
}

// file reads one file. A missing one is empty, as for OpenSSH.
func (r *reader) file(ctx context.Context, path string, checked bool, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: too many recursive configuration includes", path)
	}
	b, err := ReadFile(path, checked, maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return fmt.Errorf("reading ssh_config: %w", err)
	}
	n := 0
	for text := range strings.Lines(string(b)) {
		n++
		if err := r.line(ctx, path, n, text, depth); err != nil {
			return fmt.Errorf("reading ssh_config: %s:%d: %w", path, n, err)
		}
	}
	return nil
}

func (r *reader) line(ctx context.Context, path string, n int, text string, depth int) error {
	text = strings.TrimRight(text, " \t\r\n\f")
	text = strings.TrimLeft(text, " \t\f")
	if text == "" || text[0] == '#' {
		return nil
	}
	word, rest := cutKeyword(text)
	name := strings.ToLower(word)
	if real, ok := aliases[name]; ok {
		name = real
	}
	if k, ok := keywords[name]; ok {
		return r.value(&Value{Keyword: name, Word: word, File: path, Line: n}, k, rest)
	}
	words, err := split(rest)
	if err != nil && name != "match" {
		return err
	}
	switch name {
	case "host":
		return r.host(words)
	case "match":
		active, err := r.c.match(ctx, path, rest, r.active || !r.never)
		r.active = active && !r.never
		return err
	case "include":
		return r.include(ctx, words, depth)
	}
	if globList(name, strings.ToLower(r.c.ignore)) {
		return nil
	}
	return fmt.Errorf("bad configuration option: %s (IgnoreUnknown would have it ignored)", name)
}

// value keeps the arguments of a line, if it counts.
func (r *reader) value(v *Value, k keyword, rest string) error {
	name := v.Keyword
	if k.shape == line {
		rest = strings.TrimLeft(rest, " \t=")
		if rest == "" && k.class != Retired {
			return fmt.Errorf("%s: missing argument", v.Word)
		}
		v.Args = []string{rest}
	} else {
		words, err := split(rest)
		switch {
		case err != nil:
			return err
		case len(words) == 0:
			return fmt.Errorf("%s: missing argument", v.Word)
		case len(words) > 1 && k.shape != list:
			return fmt.Errorf("%s: extra arguments at the end of the line", v.Word)
		}
		v.Args = words
	}
	if err := check(name, k, v.Args[0]); err != nil {
		return fmt.Errorf("%s: %w", v.Word, err)
	}
	if name == "ignoreunknown" && r.c.ignore == "" && r.active {
		r.c.ignore = v.Args[0]
	}
	if r.active {
		r.c.add(v, k)
	}
	return nil
}

// add keeps a value unless an earlier one wins. Of ProxyJump and ProxyCommand the first that is given wins.
func (c *Config) add(v *Value, k keyword) {
	other := map[string]string{"proxyjump": "proxycommand", "proxycommand": "proxyjump"}[v.Keyword]
	have := c.values[v.Keyword]
	switch {
	case len(have) > 0 && k.shape != each, len(c.values[other]) > 0:
		return
	case slices.ContainsFunc(have, func(o *Value) bool { return slices.Equal(o.Args, v.Args) }):
		return
	}
	c.values[v.Keyword] = append(have, v)
}

// check refuses a value that OpenSSH refuses.
func check(name string, k keyword, value string) error {
	lower := strings.ToLower(value)
	bad := fmt.Errorf("unsupported value %q", value)
	switch {
	case name == "port":
		if n, err := strconv.ParseUint(value, 10, 16); err != nil || n == 0 {
			return bad
		}
	case k.shape == bool2, name == "pubkeyauthentication":
		if !slices.Contains([]string{"yes", "true", "no", "false"}, lower) &&
			(name != "pubkeyauthentication" || (lower != "unbound" && lower != "host-bound")) {
			return bad
		}
	case name == "addressfamily":
		if !slices.Contains([]string{"any", "inet", "inet6"}, lower) {
			return bad
		}
	case name == "canonicalizehostname":
		if !slices.Contains([]string{"yes", "true", "no", "false", "always"}, lower) {
			return bad
		}
	case name == "canonicalizemaxdots", name == "requiredrsasize":
		if n, err := strconv.Atoi(value); err != nil || n < 0 {
			return bad
		}
	case name == "connecttimeout":
		if _, err := Seconds(value); err != nil {
			return bad
		}
	case value == "" && k.class == Honoured:
		return fmt.Errorf("missing argument")
	}
	return checkAlgorithms(name, value)
}

func (r *reader) host(words []string) error {
	if len(words) == 0 {
		return errors.New("host: missing argument")
	}
	r.active = false
	name := r.c.Asked
	if r.c.second {
		name = r.c.Host
	}
	for _, w := range words {
		pattern, not := strings.CutPrefix(w, "!")
		if !glob(name, pattern) {
			continue
		}
		r.active = !not && !r.never
		if not {
			return nil
		}
	}
	return nil
}

// include reads files. What they match ends with them.
func (r *reader) include(ctx context.Context, words []string, depth int) error {
	if len(words) == 0 {
		return errors.New("include: missing argument")
	}
	for _, w := range words {
		w, err := Expand(w, nil, r.c.local.Getenv)
		if err != nil {
			return fmt.Errorf("include: %w", err)
		}
		w = r.c.local.Tilde(w)
		if !filepath.IsAbs(w) {
			w = filepath.Join(r.dir, w)
		}
		names, err := filepath.Glob(w)
		if err != nil {
			return fmt.Errorf("include %s: %w", w, err)
		}
		for _, name := range names {
			inner := reader{c: r.c, dir: r.dir, active: r.active, never: r.never || !r.active}
			if err := inner.file(ctx, name, true, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
