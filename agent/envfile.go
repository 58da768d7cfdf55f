package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// setEnv sets keys of an environment file (in the format of systemd's EnvironmentFile=). It replaces their lines
// in place and appends missing ones; comments, order and all other lines stay. The file is replaced atomically and
// stays readable only by its owner. A value with a line break or a quote is rejected: it could inject another
// line.
func setEnv(path string, set map[string]string) error {
	for key, v := range set {
		if !fitsEnv(v) {
			return fmt.Errorf("write %s: the value of %s does not fit an environment file", path, key)
		}
	}
	return durable.Rewrite(path, 0o600, func(old []byte) []byte { return withEnv(old, set) })
}

// withEnv returns the text of an environment file with set applied.
func withEnv(old []byte, set map[string]string) []byte {
	var out []string
	done := map[string]bool{}
	for line := range strings.Lines(string(old)) {
		key, _, ok := strings.Cut(strings.TrimSpace(line), "=")
		if v, is := set[key]; ok && is {
			if !done[key] {
				out = append(out, key+"="+v+"\n")
			}
			done[key] = true
			continue
		}
		if !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
		out = append(out, line)
	}
	var missing []string
	for key, v := range set {
		if !done[key] {
			missing = append(missing, key+"="+v+"\n")
		}
	}
	slices.Sort(missing)
	return []byte(strings.Join(append(out, missing...), ""))
}

// fitsEnv reports whether a value needs no quoting in an environment file, for systemd as well as for a shell.
func fitsEnv(v string) bool {
	return !strings.ContainsFunc(v, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("\"'\\$`;&|<>()", r)
	})
}
