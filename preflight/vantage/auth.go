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

	"github.com/gpuaas/gpuaasctl/profile"
)

// agentTimeout bounds the wait for the SSH agent's list of keys: the agent is a local socket, and if it hangs the walk
// must go on.
const agentTimeout = 2 * time.Second

// maxOffered stays below a server's MaxAuthTries (6 by default) if no key was named.
const maxOffered = 5

// credentials are the keys to offer, in order, and why other keys are missing.
type credentials struct {
	signers []ssh.Signer
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

// loadCredentials collects keys for t. A named identity is offered alone, through the agent if the agent has it; else
// the agent's keys come first, and then the default files. Closing the returned value closes the connection to the
// agent.
func loadCredentials(ctx context.Context, t *target, socket string, within time.Duration) *credentials {
	c := &credentials{}
	held := c.fromAgent(ctx, socket, within)
	if !t.named {
		for _, s := range held {
			c.add(s, "agent")
		}
	}
	for _, file := range t.identities {
		if t.profileKey {
			if err := checkOwner(file); err != nil {
				c.missing = append(c.missing, "reading identity: "+err.Error())
				continue
			}
		}
		pub, signer, err := readIdentity(file)
		if pub != nil {
			if s := findKey(held, pub); s != nil {
				if t.named {
					c.add(s, "agent")
				}
				continue
			}
		}
		switch {
		case err == nil:
			c.add(signer, "key")
		case t.named || !errors.Is(err, fs.ErrNotExist):
			c.missing = append(c.missing, err.Error())
		}
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

func (c *credentials) add(s ssh.Signer, kind string) {
	if len(c.signers) >= maxOffered {
		c.more++
		return
	}
	name := s.PublicKey().Type() + " " + ssh.FingerprintSHA256(s.PublicKey())
	c.signers = append(c.signers,
		&notedSigner{Signer: s, note: func() { c.used.Store(&kind); c.signing.Store(&name) }, done: c.signed})
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

// readIdentity reads a private key file. It returns pub even if the key itself cannot be read (it is encrypted, or the
// file has only the public half of a key in an agent), to find the key in an agent.
func readIdentity(file string) (pub ssh.PublicKey, signer ssh.Signer, err error) {
	if b, readErr := profile.ReadOwn(file + ".pub"); readErr == nil {
		pub, _, _, _, _ = ssh.ParseAuthorizedKey(b)
	}
	b, err := profile.ReadOwn(file)
	if err != nil {
		return pub, nil, fmt.Errorf("reading identity: %w", err)
	}
	signer, err = ssh.ParsePrivateKey(b)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return signer.PublicKey(), signer, nil
	case errors.As(err, &locked):
		if locked.PublicKey != nil {
			pub = locked.PublicKey
		}
		return pub, nil, fmt.Errorf("identity %s is encrypted and no SSH agent holds it: run ssh-add %s", file,
			Quote([]string{file}))
	}
	if only, _, _, _, pubErr := ssh.ParseAuthorizedKey(b); pubErr == nil {
		return only, nil, fmt.Errorf("identity %s is a public key and no SSH agent holds it", file)
	}
	return pub, nil, fmt.Errorf("identity %s cannot be read: %w", file, err)
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
	note func()
	done func(error)
}

func (s *notedSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	s.note()
	sig, err := s.Signer.Sign(rand, data)
	s.done(err)
	return sig, err
}

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
