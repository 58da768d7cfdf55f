package vantage

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/gpuaas/gpuaasctl/profile"
)

// keyTypes returns the key types, in order of preference, that we accept from a host without a known key. RSA with
// SHA-1 is not among them.
func keyTypes() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
}

// hostKeyError is a host key that was not accepted.
type hostKeyError struct {
	text    string
	unknown bool // no key of the host is known: the operator has to accept a first key
}

func (e *hostKeyError) Error() string { return e.text }

// knownKeys are the host keys that the operator has accepted.
type knownKeys struct {
	db    *knownhosts.HostKeyDB
	files []string // files with known keys; a new key is appended to the first
	trust string   // command that accepts a first key
}

// readKnownKeys reads t's files; missing files count as empty.
func readKnownKeys(t *target, trust string) (*knownKeys, error) {
	var files []string
	for _, f := range t.knownHosts {
		if _, err := os.Stat(f); err != nil || slices.Contains(files, f) {
			continue
		}
		err := mayRead(f)
		if err == nil && t.profileHosts {
			err = checkOwner(f)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the known host keys: %w", err)
		}
		files = append(files, f)
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, fmt.Errorf("reading the known host keys: %w", err)
	}
	return &knownKeys{db: db, files: t.knownHosts, trust: trust}, nil
}

// mayRead refuses a known_hosts file on which the library would block or read without end: the library opens the file
// again by name.
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
	if len(k.files) == 1 {
		return list + " does not exist"
	}
	return "none of " + list + " exists"
}

// algorithms lists the key types to negotiate with t: those in the files, so that a host with three keys presents the
// one that can be compared.
func (k *knownKeys) algorithms(t *target) []string {
	algos := slices.DeleteFunc(k.db.HostKeyAlgorithms(t.keyAddress()), func(a string) bool {
		return a == ssh.KeyAlgoRSA || a == ssh.CertAlgoRSAv01
	})
	if len(algos) == 0 {
		return keyTypes()
	}
	return algos
}

// check returns, as an error for operators, why key is not accepted; nil if it is.
func (k *knownKeys) check(t *target, remote net.Addr, key ssh.PublicKey) error {
	err := k.db.HostKeyCallback()(t.keyAddress(), remote, key)
	var keyErr *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	sum := key.Type() + " " + ssh.FingerprintSHA256(key)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &keyErr) && len(keyErr.Want) == 0:
		return &hostKeyError{unknown: true, text: fmt.Sprintf(
			"no host key of %s has been accepted yet (%s); it presents %s; verify it, then accept it with: %s", t.address(),
			k.searched(), sum, k.trust)}
	case errors.As(err, &keyErr):
		var known []string
		for _, w := range keyErr.Want {
			known = append(known, fmt.Sprintf("%s %s (%s:%d)", w.Key.Type(), ssh.FingerprintSHA256(w.Key), w.Filename, w.Line))
		}
		return &hostKeyError{text: fmt.Sprintf(
			"the host key of %s has CHANGED: it shows %s, known is %s; find out why, and only then run: %s",
			t.address(), sum, strings.Join(known, ", "),
			Quote([]string{"ssh-keygen", "-R", knownhosts.Normalize(t.keyAddress()), "-f", keyErr.Want[0].Filename}))}
	case errors.As(err, &revoked):
		return &hostKeyError{text: fmt.Sprintf("the host key of %s is revoked by %s:%d: %s", t.address(),
			revoked.Revoked.Filename, revoked.Revoked.Line, sum)}
	}
	return &hostKeyError{text: fmt.Sprintf("the host key of %s: %s: %v", t.address(), sum, err)}
}
