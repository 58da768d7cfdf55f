package vantage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
	"github.com/gpuaas/gpuaasctl/profile"
)

// hostKeyError is a host key that was not accepted.
type hostKeyError struct {
	text    string
	unknown bool // no key of the host is known: the operator has to accept a first key
}

func (e *hostKeyError) Error() string { return e.text }

// knownKeys are the host keys that the operator has accepted.
type knownKeys struct {
	hosts *openssh.Hosts
	files []string // files with known keys; a new key is appended to the first
	trust string   // command that accepts a first key
	// ask adds the lines that KnownHostsCommand prints; nil: there is none
	ask func(purpose, name string, key ssh.PublicKey) error
}

// readKnownKeys reads t's files; missing files count as empty, and lines that cannot be read are skipped, as by
// OpenSSH.
func readKnownKeys(ctx context.Context, t *target, trust string) (*knownKeys, error) {
	k := &knownKeys{hosts: &openssh.Hosts{}, files: t.knownHosts, trust: trust}
	for i, f := range t.knownHosts {
		if slices.Contains(t.knownHosts[:i], f) {
			continue
		}
		if t.profileHosts {
			if err := checkOwner(f); err != nil {
				return nil, fmt.Errorf("reading the known host keys: %w", err)
			}
		}
		err := k.hosts.Read(f)
		switch {
		case err != nil && t.profileHosts:
			return nil, fmt.Errorf("reading the known host keys: %w", err)
		case err != nil:
			k.hosts.Skip(err)
		}
	}
	if v := t.value("knownhostscommand"); v != nil && !strings.EqualFold(v.First(), "none") && !t.profileHosts {
		k.ask = func(purpose, name string, key ssh.PublicKey) error { return k.command(ctx, t, v, purpose, name, key) }
		if err := k.ask("ORDER", t.keyName(), nil); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// keyName returns the host's name in known_hosts: its alias, or host, or [host]:port.
func (t *target) keyName() string { return knownhosts.Normalize(t.keyAddress()) }

// plainName is the host's name without a port.
func (t *target) plainName() string {
	if t.keyAlias != "" {
		return t.keyAlias
	}
	return t.host
}

// mayRead refuses a known_hosts file that cannot be read, or only by waiting.
func mayRead(file string) error {
	if info, err := os.Stat(file); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return fmt.Errorf("%s is a pipe; want a file", file)
	}
	_, err := profile.ReadOwn(file)
	return err
}

// searched lists the files that were searched, and whether all of them are missing.
func (k *knownKeys) searched() string {
	list := strings.Join(k.files, ", ")
	for _, f := range k.files {
		if _, err := os.Stat(f); err == nil {
			return "looked in " + list
		}
	}
	switch len(k.files) {
	case 0:
		return "no file is to be looked in"
	case 1:
		return list + " does not exist"
	}
	return "none of " + list + " exists"
}

// algorithms lists the key types to negotiate with t: first those that are known of it, so that a host with three keys
// presents the one that can be compared. A certificate is asked for where an authority is known.
func (k *knownKeys) algorithms(t *target) []string {
	all := t.algorithms.hostKeys
	if all == nil {
		all = keyTypes()
	}
	lines := k.hosts.For(t.keyName())
	if len(lines) == 0 && t.keyAlias == "" {
		lines = k.hosts.For(t.plainName())
	}
	trusted := func(a string) bool {
		return slices.ContainsFunc(lines, func(l openssh.Known) bool {
			if isCertificate(a) {
				return l.Marker == openssh.Authority
			}
			return l.Marker == openssh.Plain && l.Key.Type() == baseType(a)
		})
	}
	if t.algorithms.hostKeysFixed {
		return all
	}
	var first, rest []string
	for _, a := range all {
		if trusted(a) {
			first = append(first, a)
		} else {
			rest = append(rest, a)
		}
	}
	return slices.Concat(first, rest)
}

// check returns, as an error for operators, why key is not accepted; nil if it is.
func (k *knownKeys) check(t *target, remote net.Addr, key ssh.PublicKey) error {
	if err := t.checkKey(key); err != nil {
		return err
	}
	if k.ask != nil {
		if err := k.ask("HOSTNAME", t.keyName(), key); err != nil {
			return &hostKeyError{text: err.Error()}
		}
	}
	status, lines, why := k.compare(t, key)
	if status == openssh.OK {
		return k.checkAddress(t, remote, key)
	}
	key = openssh.PlainKey(key)
	sum := key.Type() + " " + ssh.FingerprintSHA256(key)
	switch status {
	case openssh.New:
		if why != "" {
			why = " (its certificate is not accepted: " + why + ")"
		}
		return &hostKeyError{unknown: true, text: fmt.Sprintf(
			"no host key of %s has been accepted yet (%s%s); it presents %s%s; verify it, then accept it with: %s",
			t.address(), k.searched(), k.skipped(), sum, why, k.trust)}
	case openssh.Banned:
		return &hostKeyError{text: fmt.Sprintf("the host key of %s is revoked by %s:%d: %s", t.address(),
			lines[0].File, lines[0].Line, sum)}
	}
	var known []string
	for _, l := range lines {
		known = append(known, fmt.Sprintf("%s %s (%s:%d)", l.Key.Type(), ssh.FingerprintSHA256(l.Key), l.File, l.Line))
	}
	return &hostKeyError{text: fmt.Sprintf(
		"the host key of %s has CHANGED: it shows %s, known is %s; find out why, and only then run: %s",
		t.address(), sum, strings.Join(known, ", "), Quote([]string{"ssh-keygen", "-R", t.keyName(), "-f", lines[0].File}))}
}

// skipped describes the lines that were not read.
func (k *knownKeys) skipped() string {
	if len(k.hosts.Skipped) == 0 {
		return ""
	}
	return "; skipped " + strings.Join(k.hosts.Skipped, ", ")
}

// compare judges a key by the known ones, in OpenSSH's order: a certificate by the authorities, then the key itself,
// and for a host with no line of its port by the lines without one. It returns the lines that decide, and why a
// certificate of a known authority is not accepted.
func (k *knownKeys) compare(t *target, key ssh.PublicKey) (openssh.Status, []openssh.Known, string) {
	lines, why := k.hosts.For(t.keyName()), ""
	plain := k.hosts.For(t.plainName())
	portless := t.keyAlias == "" && t.port != "22"
	if cert, is := key.(*ssh.Certificate); is {
		status, found := openssh.Compare(lines, key)
		if status == openssh.New && portless {
			if s, f := openssh.Compare(plain, key); s == openssh.OK {
				status, found = s, f
			} else if s, _ := openssh.Compare(plain, cert.Key); s == openssh.OK {
				return s, nil, ""
			}
		}
		switch status {
		case openssh.Banned:
			return status, []openssh.Known{*found}, ""
		case openssh.OK:
			if err := t.checkCertificate(cert); err != nil {
				why = err.Error()
				break
			}
			return status, nil, ""
		}
		key = cert.Key
	}
	status, found := openssh.Compare(lines, key)
	switch status {
	case openssh.New:
		if s, _ := openssh.Compare(plain, key); portless && s == openssh.OK {
			return s, nil, ""
		}
	case openssh.Banned:
		return status, []openssh.Known{*found}, why
	case openssh.Changed:
		return status, slices.DeleteFunc(lines, func(l openssh.Known) bool { return l.Marker != openssh.Plain }), why
	}
	return status, nil, why
}

// checkCertificate refuses a host's certificate that OpenSSH refuses although its authority is known.
func (t *target) checkCertificate(c *ssh.Certificate) error {
	switch {
	case c.CertType != ssh.HostCert:
		return errors.New("it is not of a host")
	case !slices.Contains(t.algorithms.certificates, c.Signature.Format):
		return fmt.Errorf("its authority signed with %s, which CASignatureAlgorithms does not have", c.Signature.Format)
	}
	return (&ssh.CertChecker{}).CheckCert(t.plainName(), c)
}

// checkKey refuses a key, known or not, by its length and by RevokedHostKeys.
func (t *target) checkKey(key ssh.PublicKey) error {
	sum := key.Type() + " " + ssh.FingerprintSHA256(openssh.PlainKey(key))
	if bits := openssh.RSABits(key); bits > 0 && bits < t.algorithms.minRSA {
		return &hostKeyError{text: fmt.Sprintf("the host key of %s has %d bits, fewer than %d (RequiredRSASize): %s",
			t.address(), bits, t.algorithms.minRSA, sum)}
	}
	v := t.value("revokedhostkeys")
	if v == nil || (len(v.Args) == 1 && strings.EqualFold(v.First(), "none")) {
		return nil
	}
	for _, name := range v.Args {
		file, err := t.config.Path(v, name)
		var revoked bool
		if err == nil {
			revoked, err = openssh.IsRevoked(file, key)
		}
		switch {
		case err != nil:
			return &hostKeyError{text: fmt.Sprintf("no host key is accepted, since %s cannot be used: %v", v, err)}
		case revoked:
			return &hostKeyError{text: fmt.Sprintf("the host key of %s is revoked by %s: %s", t.address(), v, sum)}
		}
	}
	return nil
}

// checkAddress refuses a known key where CheckHostIP is asked for and another key is known of the host's address.
func (k *knownKeys) checkAddress(t *target, remote net.Addr, key ssh.PublicKey) error {
	if t.config == nil || !t.config.Yes("checkhostip", false) || t.proxy != nil || len(t.jumps) > 0 {
		return nil
	}
	tcp, ok := remote.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() || tcp.IP.String() == t.host {
		return nil
	}
	name := knownhosts.Normalize(net.JoinHostPort(tcp.IP.String(), t.port))
	status, found := openssh.Compare(k.hosts.For(name), key)
	if status != openssh.Changed && status != openssh.Banned {
		return nil
	}
	return &hostKeyError{text: fmt.Sprintf("the host key of %s is known, and another one of its address %s (%s:%d), "+
		"which CheckHostIP forbids", t.address(), name, found.File, found.Line)}
}
