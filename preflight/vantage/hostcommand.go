package vantage

import (
	"context"
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
)

// command runs KnownHostsCommand, without a shell, and adds the lines that it prints. One that fails, takes too long or
// prints too much ends the login, as in OpenSSH. key is nil while it is not known.
func (k *knownKeys) command(ctx context.Context, t *target, v *openssh.Value, purpose, name string,
	key ssh.PublicKey) error {
	fail := func(err error) error { return fmt.Errorf("%s: KnownHostsCommand: %w", v.At(), err) }
	kind, sum, blob := "NONE", "NONE", "NONE"
	if key != nil {
		plain := openssh.PlainKey(key)
		kind, sum, blob = key.Type(), ssh.FingerprintSHA256(plain), base64.StdEncoding.EncodeToString(key.Marshal())
	}
	argv, err := t.config.Argv(v, t.config.ForKnownHosts(purpose, name, kind, sum, blob))
	switch {
	case err != nil:
		return fail(err)
	case !filepath.IsAbs(argv[0]):
		k.hosts.Skip(fail(fmt.Errorf("the path %q is not absolute", argv[0])))
		return nil
	}
	for _, file := range []string{v.File, argv[0]} {
		if err := checkOwner(file); err != nil {
			return fail(fmt.Errorf("it is not run: %w", err))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out := &bounded.Head{Most: askOutput}
	out.Full = cancel
	words := &bounded.Head{Most: greetingKept}
	cmd := inGroup(exec.CommandContext(ctx, argv[0], argv[1:]...))
	cmd.Stdout, cmd.Stderr = out, words
	err = cmd.Run()
	switch {
	case out.Cut():
		return fail(fmt.Errorf("it prints more than %d bytes", askOutput))
	case ctx.Err() != nil:
		return fail(fmt.Errorf("it did not end within %s", askTimeout))
	case err != nil:
		return fail(fmt.Errorf("%w: %s", err, foreign(words.String())))
	}
	k.hosts.Add("KnownHostsCommand", out.Bytes())
	return nil
}
