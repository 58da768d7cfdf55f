package vantage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"

	"github.com/kevinburke/ssh_config"

	"github.com/gpuaas/gpuaasctl/profile"
)

// askSSHTimeout bounds `ssh -G`, which may run the commands of Match exec.
const askSSHTimeout = 3 * time.Second

// settings are ssh_config's values for one host, with keys in lower case.
type settings struct{ list func(key string) []string }

func (s settings) all(key string) []string {
	if s.list == nil {
		return nil
	}
	return s.list(key)
}

func (s settings) get(key string) string {
	if v := s.all(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// lookup reads the ssh_config files for host. If they contain what the parser does not support (Match exec, Match
// final), it runs the ssh program, if installed.
func (p place) lookup(ctx context.Context, host string) (settings, error) {
	var files []*ssh_config.Config
	for _, name := range p.files {
		b, err := profile.ReadOwn(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return settings{}, fmt.Errorf("reading ssh_config: %w", err)
		}
		c, err := ssh_config.DecodeBytes(b)
		if err != nil {
			return p.askSSH(ctx, host, name, err)
		}
		files = append(files, c)
	}
	return settings{func(key string) []string {
		for _, c := range files {
			if v, err := c.GetAll(host, key); err == nil && len(v) > 0 {
				return unquote(v)
			}
		}
		return nil
	}}, nil
}

// askSSH lets OpenSSH's own client read the files.
func (p place) askSSH(ctx context.Context, host, file string, why error) (settings, error) {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return settings{}, fmt.Errorf("reading %s: %w (and no ssh program is installed to read it)", file, why)
	}
	if strings.HasPrefix(host, "-") {
		return settings{}, fmt.Errorf("bad host name %q", host)
	}
	ctx, cancel := context.WithTimeout(ctx, askSSHTimeout)
	defer cancel()
	argv := []string{"-G"}
	if len(p.files) == 1 {
		argv = append(argv, "-F", p.files[0])
	}
	cmd := exec.CommandContext(ctx, program, append(argv, "--", host)...)
	cmd.WaitDelay = askSSHTimeout // a command run by Match may hold its output open
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return settings{}, fmt.Errorf("reading ssh_config by ssh -G %s: %w: %s", host, err, clip(stderr.String(), 200))
	}
	return parseSSHG(string(out)), nil
}

// parseSSHG parses the output of `ssh -G`. It skips defaults that mean "not configured".
func parseSSHG(out string) settings {
	byKey := map[string][]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key = strings.ToLower(key); key != "" {
			byKey[key] = append(byKey[key], value)
		}
	}
	named := false
	for _, f := range byKey["identityfile"] {
		if !strings.HasPrefix(f, "~/.ssh/id_") {
			named = true
		}
	}
	if !named && len(byKey["identityfile"]) > 1 {
		delete(byKey, "identityfile")
	}
	return settings{func(key string) []string { return byKey[key] }}
}

// unquote removes the quotes that ssh_config allows around a value.
func unquote(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
			v = v[1 : len(v)-1]
		}
		out[i] = v
	}
	return out
}

// clip shortens foreign text for a detail, on one line.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
