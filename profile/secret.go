package profile

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// maxSecret bounds a secret's file: tokens and cookies are short, and the content of a wrong file must not be sent
// anywhere.
const maxSecret = 16 << 10

// secretPatience is how long a command may take to print a secret: a password manager may prompt its user.
const secretPatience = 30 * time.Second

// secretGrace is how long a command's children may keep its output open, and how long this process may take to read it.
const secretGrace = 5 * time.Second

// interruptLag is how much later than a command this process may notice an interrupt from the terminal.
const interruptLag = 100 * time.Millisecond

// othersMay are all permissions of a file's group and of others.
const othersMay os.FileMode = 0o077

// ReadSecret reads a secret from a file: its whole text without the final line break. It refuses a regular file that
// its group or others can use. A pipe (such as /dev/stdin) is not checked, and is empty if no process writes to it. No
// error contains any part of the text. If ctx ends, the error is ctx's.
func ReadSecret(ctx context.Context, path string) (diag.Secret, error) {
	f, err := openOwn(ctx, path)
	if err != nil {
		return diag.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	defer f.Close()
	info, err := f.Stat() // checks the open file, which cannot be swapped between check and use
	if err != nil {
		return diag.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return diag.Secret{}, fmt.Errorf("read secret: %s is a folder", path)
	case mode.IsRegular() && mode.Perm()&othersMay != 0:
		return diag.Secret{}, fmt.Errorf("secret file %s is open to others (mode %04o); run: chmod 600 %s", path, mode.Perm(),
			path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case ctx.Err() != nil:
		return diag.Secret{}, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return diag.Secret{}, fmt.Errorf("read secret %s: the pipe did not end within %s", path, filePatience)
	case err != nil:
		return diag.Secret{}, fmt.Errorf("read secret %s: %w", path, err)
	}
	return oneSecret("secret file "+path, data)
}

// FindCommand looks up argv's program as RunSecret does, without running it.
func FindCommand(argv []string) error {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return fmt.Errorf("secret command: %w", err)
	}
	return nil
}

// RunSecret runs argv without a shell and without input, and returns its output without the final line break. No error
// contains output, not even of standard error, where a program may print the secret. If asked ends, the command is
// killed, and the error is asked's.
func RunSecret(asked context.Context, argv []string) (diag.Secret, error) {
	ctx, cancel := context.WithTimeout(asked, secretPatience)
	defer cancel()
	out := clipped{most: maxSecret + 1}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.WaitDelay = &out, secretGrace
	// on a terminal, a process group of its own could not prompt for a passphrase, and an interrupt reaches the
	// children anyway
	if !onTerminal() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) { // the interrupt may have ended the command as well
		select {
		case <-asked.Done():
		case <-time.After(interruptLag):
		}
	}
	switch {
	case asked.Err() != nil:
		return diag.Secret{}, asked.Err()
	case out.full():
	case ctx.Err() != nil:
		return diag.Secret{}, fmt.Errorf("secret command %s: no end within %s", argv[0], secretPatience)
	case errors.As(err, &exit):
		return diag.Secret{}, fmt.Errorf("secret command %s: %s", argv[0], exit.ProcessState)
	case err != nil:
		return diag.Secret{}, fmt.Errorf("secret command: %w", err)
	}
	return oneSecret("the output of secret command "+argv[0], out.kept.Bytes())
}

// onTerminal reports whether this process can be interrupted from a terminal.
func onTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// clipped keeps the first bytes that are written to it, and discards the rest.
type clipped struct {
	kept bytes.Buffer
	most int
}

func (b *clipped) full() bool { return b.kept.Len() >= b.most }

func (b *clipped) Write(p []byte) (int, error) {
	n, err := b.kept.Write(p[:min(len(p), b.most-b.kept.Len())])
	if n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

// oneSecret accepts data as one secret; what describes its source.
func oneSecret(what string, data []byte) (diag.Secret, error) {
	text := strings.TrimRight(string(data), "\r\n")
	switch {
	case len(data) > maxSecret:
		return diag.Secret{}, fmt.Errorf("%s is longer than %d bytes", what, maxSecret)
	case strings.TrimSpace(text) == "":
		return diag.Secret{}, fmt.Errorf("%s is empty", what)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return diag.Secret{}, fmt.Errorf("%s holds more than one line of text", what)
	}
	return diag.NewSecret(text), nil
}

// ReadCA reads a file of CA certificates in PEM, and refuses one without certificates. An empty path gives "".
func ReadCA(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := ReadOwn(path)
	if err != nil {
		return "", err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return "", fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return string(text), nil
}
