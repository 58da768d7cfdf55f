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

// keyTypes is what we ask for of a host that no file knows, in our order. RSA with SHA-1 is not in it.
func keyTypes() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
}

// hostKeyError is a host key that was not accepted.
type hostKeyError struct {
	text    string
	unknown bool // nothing is known of the host yet: the operator has to accept a first key
}

func (e *hostKeyError) Error() string { return e.text }

// knownKeys are the host keys that an operator has accepted.
type knownKeys struct {
	db    *knownhosts.HostKeyDB
	files []string // where keys are looked for; the first is the one that a new key goes to
	trust string   // command that accepts a first key
}

// readKnownKeys reads t's files; those that do not exist hold nothing.
func readKnownKeys(t *target, trust string) (*knownKeys, error) {
	var files []string
	for _, f := range t.knownHosts {
		if _, err := os.Stat(f); err != nil || slices.Contains(files, f) {
			continue
		}
		if err := mayRead(f); err != nil {
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

// mayRead refuses a file of known hosts that the library would wait for, or read without end: it opens the file again,
// by its name.
func mayRead(file string) error {
	if info, err := os.Stat(file); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		return fmt.Errorf("%s is a pipe; want a file", file)
	}
	_, err := profile.ReadOwn(file)
	return err
}

// searched reports where keys were looked for, and that a file is missing where none of them exists.
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

// algorithms lists the key types to ask t for: those that the files hold, so that a host with three keys shows the one
// that can be compared.
func (k *knownKeys) algorithms(t *target) []string {
	algos := slices.DeleteFunc(k.db.HostKeyAlgorithms(t.keyAddress()), func(a string) bool {
		return a == ssh.KeyAlgoRSA || a == ssh.CertAlgoRSAv01
	})
	if len(algos) == 0 {
		return keyTypes()
	}
	return algos
}

// check is why key is not accepted, as an error for operators; nil when it is.
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
