package host

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// A setting of the agent is named by a variable of its environment, or by FILE#KEY: a value in a file, where KEY is
// names and indices joined by dots.

const (
	maxSettingsFile = 1 << 20 // bytes of a file with settings
	maxSetting      = 512     // bytes of a value
)

// secretParts mark names of variables whose value is never reported.
var secretParts = [...]string{"TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL", "COOKIE"}

// isSecretName reports whether the value of a variable must not be reported. Public keys may be.
func isSecretName(name string) bool {
	upper := strings.ToUpper(name)
	return measure.ContainsAny(upper, secretParts[:]) && !strings.HasSuffix(upper, "_PUBKEYS") &&
		!strings.HasSuffix(upper, "_PUBKEY")
}

// settingOfFile returns the file and key of a setting's name; false if it names a variable.
func settingOfFile(name string) (file, key string, ok bool) {
	if !strings.HasPrefix(name, "/") {
		return "", "", false
	}
	i := strings.LastIndexByte(name, '#')
	if i < 0 || i == len(name)-1 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

func ofFile(name string) bool {
	_, _, ok := settingOfFile(name)
	return ok
}

// plainSetting matches what a setting may be: an address, a URL or the name of a node. Other text is not reported,
// since a key may name anything in a file.
var plainSetting = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z][a-z0-9+.-]*://)?[\w.~:/\[\]@%-]+$`)
})

// readSetting returns the value of key in a file.
func readSetting(file, key string) (string, error) {
	if isSecretName(key) {
		return "", fmt.Errorf("%s may be a secret, which is not read", key)
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close() // it was read only
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", errors.Join(err, &os.PathError{Op: "read", Path: file, Err: errors.New("not a regular file")})
	}
	text, err := bounded.Read(f, maxSettingsFile)
	if errors.Is(err, bounded.ErrLimit) {
		return "", &os.PathError{Op: "read", Path: file, Err: err}
	}
	if err != nil {
		return "", err
	}
	value, ok := settingsOf(filepath.Ext(file), string(text))[key]
	value, _, _ = strings.Cut(value, "?") // a query may hold a secret
	switch {
	case !ok || value == "":
		return "", &missingSetting{file, key}
	case len(value) > maxSetting || !plainSetting().MatchString(value):
		return "", fmt.Errorf("%s in %s is neither a URL, an address nor a name, so it is not shown", key, file)
	}
	return withoutUserinfo(value), nil
}

// missingSetting is the error of a file without the key.
type missingSetting struct{ file, key string }

func (e *missingSetting) Error() string { return fmt.Sprintf("%s has no %s", e.file, e.key) }

// withoutUserinfo removes credentials from a URL.
func withoutUserinfo(value string) string {
	if !strings.Contains(value, "@") {
		return value
	}
	u, err := url.Parse(value)
	if err != nil {
		return diag.Redacted
	}
	if u.User == nil {
		return value
	}
	u.User = nil
	return u.String()
}

// setting returns the value that the agent has at a name, for a request. A variable is that of its environment.
func (a *AgentView) setting(name string, files bool) (string, error) {
	if slices.Contains(EnvNames[:], name) {
		if v := a.Env[name]; v != "" {
			return withoutUserinfo(v), nil
		}
		return "", fmt.Errorf("%s is not set in the agent's environment", name)
	}
	file, key, ok := settingOfFile(name)
	switch {
	case !files, !ok && (!validName(name) || isSecretName(name)):
		return "", fmt.Errorf("%s is not a name that requests may use", name)
	case ok:
		return readSetting(file, key)
	}
	v, err := a.variable(name)
	if err == nil && v == "" {
		err = fmt.Errorf("%s is not set in the agent's environment", name)
	}
	return withoutUserinfo(v), err
}

// asURL returns an address of a setting as a URL, which an agent that adds the scheme itself has no need of.
func asURL(value string) string {
	if strings.Contains(value, "://") {
		return value
	}
	return "https://" + value
}

// settingsOf returns the values of a file by key, whatever it is written in.
func settingsOf(ext, text string) map[string]string {
	first := strings.TrimSpace(text)
	switch ext = strings.ToLower(ext); {
	case ext == ".json", strings.HasPrefix(first, "{"):
		return jsonSettings(text)
	case ext == ".yaml", ext == ".yml":
		return yamlSettings(text)
	case ext == ".toml", ext == ".ini", ext == ".env", lineSettings().MatchString(text):
		return lineSettingsOf(text)
	}
	return yamlSettings(text)
}

// lineSettings matches a section's line, or a line with an equals sign before any colon.
var lineSettings = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*(\[[^\]\n]+\]\s*$|[\w.-]+\s*=)`)
})

// lineSettingsOf reads TOML's tables and values, INI, and lines KEY=VALUE.
func lineSettingsOf(text string) map[string]string {
	out, section := map[string]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.ContainsRune("#;", rune(line[0])) {
			continue
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = strings.Trim(line, "[] \"") + "."
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if ok {
			out[section+strings.TrimSpace(name)] = scalarOf(value)
		}
	}
	return out
}

// scalarOf returns a value without quotes and without a comment behind it.
func scalarOf(value string) string {
	value = strings.TrimSpace(value)
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		if end := strings.IndexByte(value[1:], value[0]); end >= 0 {
			return value[1 : end+1]
		}
	}
	for _, mark := range [...]string{" #", "\t#", " ;"} {
		value, _, _ = strings.Cut(value, mark)
	}
	return strings.TrimSpace(value)
}
