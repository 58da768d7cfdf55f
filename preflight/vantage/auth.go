package vantage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
)

// agentTimeout bounds the wait for the SSH agent's list of keys: the agent is a local socket, and if it hangs the walk
// must go on.
const agentTimeout = 2 * time.Second

// maxOffered stays below a server's MaxAuthTries (6 by default) if no key was named.
const maxOffered = 5

// credentials are the keys to offer, in order, and why other keys are missing.
type credentials struct {
	signers []ssh.Signer

	publicAlgorithms []string // that may be offered
	minRSA           int      // bits

	missing []string
	agent   io.Closer // open as long as signers of the agent may be used
	more    int       // keys beyond maxOffered
	used    atomic.Pointer[string]
	signing atomic.Pointer[string] // the key that is signing, or whose signing failed
	unsign  atomic.Pointer[string] // why it failed

	accepted atomic.Pointer[string] // the key that signed last: a server requests signatures of keys that it accepts

	publicKeys, passwords atomic.Bool // the server was seen to accept this method
}

// errNoPassword ends a login at a server that requests a password: none is ever sent.
var errNoPassword = errors.New("the server wants a password")

// methods returns the authentication methods: public keys only. A request for a password is recorded and refused.
// Keyboard-interactive is not tried, since it may send a prompt to a user's phone.
func (c *credentials) methods() []ssh.AuthMethod {
	if len(c.signers) == 0 {
		return nil
	}
	return []ssh.AuthMethod{
		ssh.PublicKeysCallback(func() ([]ssh.Signer, error) { c.publicKeys.Store(true); return c.signers, nil }),
		ssh.PasswordCallback(func() (string, error) { c.passwords.Store(true); return "", errNoPassword }),
	}
}

func (c *credentials) close() {
	if c.agent != nil {
		_ = c.agent.Close()
	}
}

// why lists the keys that were not offered, with the reasons.
func (c *credentials) why() string { return strings.Join(c.missing, "; ") }

// method returns "agent" or "key", by where the last signing key was.
func (c *credentials) method() string {
	if m := c.used.Load(); m != nil {
		return *m
	}
	return ""
}

// loadCredentials collects keys for t. Named identities come first, through the agent if the agent has them, with the
// certificates for them; then the agent's other keys, unless only the named ones may be offered. Without a named
// identity, the agent's keys come first, and then the default files. Closing the returned value closes the connection
// to the agent.
func loadCredentials(ctx context.Context, t *target, socket string, within time.Duration) *credentials {
	c := &credentials{publicAlgorithms: t.algorithms.publicKeys, minRSA: t.algorithms.minRSA}
	if why := t.noKeys(); why != "" {
		c.missing = append(c.missing, "any key: "+why)
		return c
	}
	held := c.fromAgent(ctx, socket, within)
	keys := c.readIdentities(t, held)
	others := func() {
		for _, s := range held {
			if !t.only {
				c.add(s, "agent")
			}
		}
	}
	c.addCertificates(t, keys, held)
	if !t.named {
		others()
	}
	for _, k := range keys {
		switch {
		case k.err == nil:
			c.add(k.signer, k.kind)
		case t.named || !errors.Is(k.err, fs.ErrNotExist):
			c.missing = append(c.missing, k.err.Error())
		}
	}
	if t.named {
		others()
	}
	if c.more > 0 {
		c.missing = append(c.missing, fmt.Sprintf(
			"%d more keys, because servers allow few tries: name the right one as ssh.identity", c.more))
	}
	if len(c.signers) == 0 && len(c.missing) == 0 {
		c.missing = append(c.missing, "there is no key to offer: no SSH agent with keys and none of "+
			strings.Join(t.identities, ", "))
	}
	return c
}

// add offers a key, unless it is offered already or ssh_config forbids it.
func (c *credentials) add(s ssh.Signer, kind string) {
	pub := s.PublicKey()
	name := pub.Type() + " " + ssh.FingerprintSHA256(pub)
	algorithms := c.algorithmsOf(pub)
	switch bits := openssh.RSABits(pub); {
	case findKey(c.signers, pub) != nil:
		return
	case len(algorithms) == 0:
		c.missing = append(c.missing, name+", whose type PubkeyAcceptedAlgorithms leaves out")
		return
	case bits > 0 && bits < c.minRSA:
		c.missing = append(c.missing, fmt.Sprintf("%s, which has %d bits, fewer than %d (RequiredRSASize)", name, bits,
			c.minRSA))
		return
	case len(c.signers) >= maxOffered:
		c.more++
		return
	}
	c.signers = append(c.signers, &notedSigner{Signer: s, algorithms: algorithms,
		note: func() { c.used.Store(&kind); c.signing.Store(&name) }, done: c.signed})
}

// algorithmsOf returns the signature algorithms for a key, in order of preference.
func (c *credentials) algorithmsOf(pub ssh.PublicKey) (out []string) {
	_, isCert := pub.(*ssh.Certificate)
	for _, a := range c.publicAlgorithms {
		if isCertificate(a) == isCert && baseType(a) == openssh.PlainKey(pub).Type() {
			plain := strings.Replace(a, "-cert-v01@openssh.com", "", 1)
			if strings.HasPrefix(plain, "sk-") {
				plain = baseType(a)
			}
			out = append(out, plain)
		}
	}
	return out
}

// signed notes how signing ended.
func (c *credentials) signed(err error) {
	if err == nil {
		c.accepted.Store(c.signing.Swap(nil))
		return
	}
	c.unsign.Store(new(err.Error()))
}

// unsigned describes a key that failed to sign or has not signed yet; "" if every requested signature was made.
func (c *credentials) unsigned() string {
	key := c.signing.Load()
	if key == nil {
		return ""
	}
	if why := c.unsign.Load(); why != nil {
		return "the server accepts the key " + *key + ", and the SSH agent did not sign with it: " + foreign(*why)
	}
	return "the server accepts the key " + *key +
		", and the SSH agent has not signed with it in time (does it wait for a confirmation?)"
}

// refused describes a login that the server refused. A server gives the same answer for a key that it does not know and
// for a user that it does not admit.
func (c *credentials) refused(user string) string {
	if key := c.accepted.Load(); key != nil {
		return "the server accepts the key " + *key + ", and still refuses the login of user " + user +
			": it wants a second factor, or does not admit this user (PermitRootLogin)"
	}
	var offered []string
	for _, s := range c.signers {
		offered = append(offered, s.PublicKey().Type()+" "+ssh.FingerprintSHA256(s.PublicKey()))
	}
	return fmt.Sprintf("the server refuses user %s with the keys that were offered (%s): it does not accept these keys, "+
		"or it does not admit the user (who may not exist, be locked or excluded, or have a shell that is missing)", user,
		strings.Join(offered, ", "))
}

// cutShort notes that a server ended the login after too many keys, so that it has not seen all of them.
func (c *credentials) cutShort(err error) {
	if err != nil && len(c.signers) > 1 && c.accepted.Load() == nil &&
		strings.Contains(strings.ToLower(err.Error()), "too many authentication failures") {
		c.missing = append(c.missing, "some of these keys, because the server allows few tries: name the right one as "+
			"ssh.identity")
	}
}

// fromAgent lists the agent's keys. A missing agent is not an error.
func (c *credentials) fromAgent(ctx context.Context, socket string, within time.Duration) []ssh.Signer {
	if socket == "" {
		return nil
	}
	d := net.Dialer{Timeout: within}
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		c.missing = append(c.missing, "the SSH agent does not answer: "+err.Error())
		return nil
	}
	_ = conn.SetDeadline(time.Now().Add(within))
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		_ = conn.Close()
		c.missing = append(c.missing, "the SSH agent does not answer: "+err.Error())
		return nil
	}
	_ = conn.SetDeadline(time.Time{})
	c.agent = conn
	return signers
}

func findKey(signers []ssh.Signer, pub ssh.PublicKey) ssh.Signer {
	want := pub.Marshal()
	for _, s := range signers {
		if bytes.Equal(s.PublicKey().Marshal(), want) {
			return s
		}
	}
	return nil
}

// notedSigner records that it was used. It passes algorithms on, so that RSA keys sign with SHA-2.
type notedSigner struct {
	ssh.Signer
	algorithms []string
	note       func()
	done       func(error)
}

func (s *notedSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	s.note()
	sig, err := s.Signer.Sign(rand, data)
	s.done(err)
	return sig, err
}

// Algorithms implements ssh.MultiAlgorithmSigner.
func (s *notedSigner) Algorithms() []string { return s.algorithms }

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (s *notedSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	as, ok := s.Signer.(ssh.AlgorithmSigner)
	if !ok {
		return s.Sign(rand, data)
	}
	s.note()
	sig, err := as.SignWithAlgorithm(rand, data, algorithm)
	s.done(err)
	return sig, err
}
