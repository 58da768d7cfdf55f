package vantage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Trusted is a node's host key, as found by TrustFirstKey.
type Trusted struct {
	Fingerprint string // SHA256:..., as ssh-keygen -l prints it
	KeyType     string
	Line        string // line for a known_hosts file, without newline
	File        string // where it was written, or would be
	Already     bool   // it was already known; nothing was written
}

// AcceptHostKey reads the node's host key without writing anything: it returns the fingerprint, and the line for a
// known_hosts file. Jump hosts must be known already. A key that contradicts a known one is an error.
func AcceptHostKey(ctx context.Context, cfg NodeConfig) (fingerprint, line string, err error) {
	t, err := lookAtKey(ctx, &cfg)
	return t.Fingerprint, t.Line, err
}

// TrustFirstKey reads the node's host key, and appends it to the operator's known_hosts file if no key of the host is
// known yet. It never replaces a key: a changed key is an error that names the known one.
func TrustFirstKey(ctx context.Context, cfg NodeConfig) (Trusted, error) {
	t, err := lookAtKey(ctx, &cfg)
	if err != nil || t.Already {
		return t, err
	}
	if err := appendKnownHost(t.File, t.Line); err != nil {
		return t, fmt.Errorf("noting the host key of %s: %w", cfg.Host, err)
	}
	return t, nil
}

// errLooked ends a handshake that only reads the host key.
var errLooked = errors.New("the host key was looked at")

// lookAtKey connects as far as the key exchange, which proves that the server holds the key.
func lookAtKey(ctx context.Context, cfg *NodeConfig) (Trusted, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.connectTimeout())
	defer cancel()
	t, err := here(cfg.ConfigFile).resolve(ctx, cfg.Host, cfg.SSH)
	if err != nil {
		return Trusted{}, err
	}
	l := &link{cfg: cfg, stop: cancel, ready: make(chan struct{}), gate: newGate()}
	defer l.kill()
	through, err := l.loginJumps(ctx, t.jumps)
	if err != nil {
		return Trusted{}, err
	}
	known, err := readKnownKeys(ctx, &t, cfg.trustCommand())
	if err != nil {
		return Trusted{}, err
	}
	conn, err := connectTo(ctx, &t, through)
	if err != nil {
		return Trusted{}, dialRefusal(ctx, &t, err)
	}
	l.own(conn.Close)
	unhook := context.AfterFunc(ctx, l.kill)
	defer unhook()
	l.enter(phaseBanner)
	w := newWire(conn, func() { l.enter(phaseHostKey) })
	var key ssh.PublicKey
	var remote net.Addr
	_, _, _, err = ssh.NewClientConn(w, t.keyAddress(), &ssh.ClientConfig{
		Config:            ssh.Config{KeyExchanges: t.algorithms.kex, Ciphers: t.algorithms.ciphers, MACs: t.algorithms.macs},
		ClientVersion:     clientVersion,
		HostKeyAlgorithms: known.algorithms(&t), HostKeyCallback: func(_ string, r net.Addr, k ssh.PublicKey) error {
			key, remote = k, r
			return errLooked
		},
	})
	if key == nil {
		return Trusted{}, handshakeRefusal(ctx, l.at(), w, &t, &credentials{}, err)
	}
	return known.judge(&t, remote, key)
}

// judge compares key with the known ones; only a host without known keys returns a key to accept.
func (k *knownKeys) judge(t *target, remote net.Addr, key ssh.PublicKey) (Trusted, error) {
	plain := openssh.PlainKey(key)
	got := Trusted{Fingerprint: ssh.FingerprintSHA256(plain), KeyType: plain.Type(),
		Line: k.line(t, plain)}
	if len(k.files) > 0 {
		got.File = k.files[0]
	}
	err := k.check(t, remote, key)
	var refused *hostKeyError
	switch {
	case err == nil:
		got.Already = true
		return got, nil
	case errors.As(err, &refused) && refused.unknown && got.File != "":
		return got, nil
	case errors.As(err, &refused) && refused.unknown:
		return got, errors.New("ssh_config names no known_hosts file to which a host key could be added")
	}
	return got, err
}

// line returns the line for known_hosts, with the host's name hashed where HashKnownHosts asks for it.
func (k *knownKeys) line(t *target, key ssh.PublicKey) string {
	if t.config != nil && t.config.Yes("hashknownhosts", false) {
		return xknownhosts.HashHostname(t.keyName()) + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	}
	return knownhosts.Line([]string{t.keyAddress()}, key)
}

// appendKnownHost appends line to file in one write (so that concurrent writers do not mix their lines). It creates the
// file and its folder readable by their owner only.
func appendKnownHost(file, line string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	old, err := profile.ReadOwn(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := line + "\n"
	if bytes.HasPrefix(old, []byte(text)) || bytes.Contains(old, []byte("\n"+text)) {
		return nil
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		text = "\n" + text
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	n, err := f.WriteString(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	return errors.Join(err, f.Sync(), f.Close())
}
