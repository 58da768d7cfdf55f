package profile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// FileError is one mistake in a file, with its line.
type FileError = strictyaml.Error

// ReadFile reads one profile file strictly. The second result is the line of every value by dotted key. The error joins
// one *FileError per mistake, in the order of the lines.
func ReadFile(path string) (Profile, map[string]int, error) {
	p, lines, foreign, err := readFile(path)
	if err == nil {
		err = p.mayUse(path, lines, foreign)
	}
	if err != nil {
		return Profile{}, nil, err
	}
	return p, lines, nil
}

// readFile is ReadFile without mayUse; foreign is why another user could have written the file.
func readFile(path string) (p Profile, lines map[string]int, foreign, err error) {
	f, err := openOwn(context.Background(), path)
	if err != nil {
		return p, nil, nil, fmt.Errorf("read profile: %w", err)
	}
	defer f.Close()
	foreign = owned.Check(f.File, owned.Caller())
	data, err := f.read(bounded.YAML)
	if err != nil {
		return p, nil, nil, fmt.Errorf("read profile: %w", err)
	}
	if p, lines, err = parse(path, data); err != nil {
		return p, nil, nil, err
	}
	p.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".yaml"), ".yml")
	settlePaths(&p, filepath.Dir(path))
	return p, lines, foreign, nil
}

// mayUse refuses a profile that another user could have written (foreign) if it is used with secrets, keys or
// programs: its author would choose which of this user's files are sent and where, and what is run. The secret may
// come from a flag or the environment as well: then the profile still chooses where it is sent.
func (p *Profile) mayUse(path string, lines map[string]int, foreign error) error {
	if foreign == nil {
		return nil
	}
	used := append(p.secrets(), []usedKey{
		{"ssh.identity", p.SSH.Identity != ""},
		{"platform_ssh.identity", p.PlatformSSH.Identity != ""},
		{"agent.version_command", p.Agent.VersionCommand != nil},
		{"chaos.ca_key", p.Chaos.CAKey != ""},
		{"checks", p.runsCommands()},
	}...)
	for id, n := range p.Nodes {
		used = append(used, usedKey{"nodes." + id + ".command", n.Command != nil})
	}
	for _, used := range used {
		if used.set { // the line is 0 if the value came from a merge key, a flag or the environment
			return &FileError{Path: path, Line: lines[used.key], Message: fmt.Sprintf(
				"with %s, a profile must be one that no other user could have written: %v", used.key, foreign)}
		}
	}
	return nil
}

// usedKey is a key of a profile, and whether it is set.
type usedKey struct {
	key string
	set bool
}

// secrets lists the settings that give a walk a secret to send.
func (p *Profile) secrets() []usedKey {
	return []usedKey{
		{"auth.token_file", p.Auth.TokenFile != ""},
		{"auth.token_command", p.Auth.TokenCommand != nil},
		{"auth.edge_cookie_file", p.Auth.EdgeCookieFile != ""},
		{"auth.edge_cookie_command", p.Auth.EdgeCookieCommand != nil},
	}
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
