package profile

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// maxSecret bounds a secret's file: tokens and cookies are short, and a wrong path must not be sent anywhere.
const maxSecret = 16 << 10

// othersMay is every permission of a file's group and of everybody else.
const othersMay os.FileMode = 0o077

// ReadSecret reads the secret that is the whole text of a file, without the line break at its end. A regular file
// that its group or others can use is refused; a pipe (such as /dev/stdin) is taken as it is. No error holds any
// part of the text.
func ReadSecret(path string) (diag.Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return diag.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat() // of what was opened, so that nobody can swap it between check and use
	if err != nil {
		return diag.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return diag.Secret{}, fmt.Errorf("read secret: %s is a folder", path)
	case mode.IsRegular() && mode.Perm()&othersMay != 0:
		return diag.Secret{}, fmt.Errorf("secret file %s is open to others (mode %04o); run: chmod 600 %s", path, mode.Perm(), path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return diag.Secret{}, fmt.Errorf("read secret %s: %w", path, err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	switch {
	case len(data) > maxSecret:
		return diag.Secret{}, fmt.Errorf("secret file %s is longer than %d bytes", path, maxSecret)
	case strings.TrimSpace(text) == "":
		return diag.Secret{}, fmt.Errorf("secret file %s is empty", path)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return diag.Secret{}, fmt.Errorf("secret file %s holds more than one line of text", path)
	}
	return diag.NewSecret(text), nil
}
