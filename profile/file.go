package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// FileError is one mistake in a file, with its line.
type FileError = strictyaml.Error

// ReadFile reads one profile file strictly. The second result is the line of every value by dotted key. The error joins
// one *FileError per mistake, in the order of the lines.
func ReadFile(path string) (Profile, map[string]int, error) {
	f, err := openOwn(context.Background(), path)
	if err != nil {
		return Profile{}, nil, fmt.Errorf("read profile: %w", err)
	}
	defer f.Close()
	data, err := f.read(bounded.YAML)
	if err != nil {
		return Profile{}, nil, fmt.Errorf("read profile: %w", err)
	}
	p, lines, err := parse(path, data)
	if err != nil {
		return Profile{}, nil, err
	}
	if p.Auth.TokenCommand != nil || p.Auth.EdgeCookieCommand != nil {
		if err := mayCommand(f.File); err != nil { // 0 if the command came from a merge key
			return Profile{}, nil, &FileError{
				Path: path, Line: max(lines["auth.token_command"], lines["auth.edge_cookie_command"]), Message: err.Error()}
		}
	}
	p.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".yaml"), ".yml")
	settlePaths(&p, filepath.Dir(path))
	return p, lines, nil
}

// mayCommand refuses a profile that another user may have written, since the current user would run its commands. It
// checks the open file, which cannot be swapped; a pipe has an owner as well.
func mayCommand(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("a command is run only from a profile whose owner is known")
	}
	return mayCommandAs(os.Geteuid(), int(sys.Uid), st.Mode().Perm(), f.Name())
}

// Foreign describes who, other than root and user uid, could have written a file with that owner and mode; "" if
// nobody.
func Foreign(uid, owner int, mode os.FileMode) string {
	switch {
	case owner != 0 && owner != uid:
		return fmt.Sprintf("belongs to user %d", owner)
	case mode&othersWrite != 0:
		return fmt.Sprintf("can be written by others (mode %04o)", mode)
	}
	return ""
}

// mayCommandAs is mayCommand for user uid and a file at path with that owner and mode.
func mayCommandAs(uid, owner int, mode os.FileMode, path string) error {
	switch {
	case Foreign(uid, owner, mode) == "":
		return nil
	case owner != 0 && owner != uid:
		return fmt.Errorf(
			"a command is run only from a profile that belongs to root or to who runs it, and this one is user %d's", owner)
	}
	return errors.New("a command is run only from a profile that no other user can write; run: chmod go-w " + path)
}

// parse decodes and checks data; path is only for messages.
func parse(path string, data []byte) (p Profile, lines map[string]int, err error) {
	doc, err := strictyaml.Parse(path, data)
	if err != nil {
		return p, nil, err
	}
	found := doc.Decode(&p)
	if len(found) > 0 {
		return p, nil, doc.Error(found)
	}
	for _, pr := range problems(&p) {
		found = append(found, strictyaml.Problem{Line: doc.LineOf(pr.key), Text: pr.err.Error()})
	}
	return p, doc.Lines, doc.Error(found)
}

// settlePaths makes relative paths relative to the file's folder and expands ~/, so that a profile means the same in
// every working directory.
func settlePaths(p *Profile, dir string) {
	paths := []*string{
		&p.SSH.Identity, &p.SSH.KnownHosts, &p.PlatformSSH.Identity, &p.PlatformSSH.KnownHosts,
		&p.Auth.TokenFile, &p.Auth.EdgeCookieFile, &p.Trust.OperatorCA, &p.Trust.NodeCA,
		&p.Chaos.CACert, &p.Chaos.CAKey,
	}
	if p.GPU.IsFile() {
		paths = append(paths, &p.GPU.Policy)
	}
	for _, argv := range [][]string{p.Auth.TokenCommand, p.Auth.EdgeCookieCommand} {
		if len(argv) == 0 || !strings.ContainsRune(argv[0], '/') { // searched in PATH
			continue
		}
		// filepath.Join would make it a bare name
		if dir == "." && !filepath.IsAbs(argv[0]) && !strings.HasPrefix(argv[0], "~/") {
			continue
		}
		paths = append(paths, &argv[0])
	}
	for _, v := range paths {
		switch {
		case *v == "" || filepath.IsAbs(*v):
		case strings.HasPrefix(*v, "~/"):
			if home, err := os.UserHomeDir(); err == nil {
				*v = filepath.Join(home, (*v)[2:])
			}
		default:
			*v = filepath.Join(dir, *v)
		}
	}
}
