package vantage

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
	"github.com/gpuaas/gpuaasctl/profile"
)

// certSuffix is that of a user's certificate beside its key file.
const certSuffix = "-cert.pub"

// readIdentity reads a private key file. It returns pub even if the key itself cannot be read or used (it is encrypted,
// in an agent, or readable by others), to find the key in an agent.
func readIdentity(file string) (pub ssh.PublicKey, signer ssh.Signer, err error) {
	if b, readErr := profile.ReadOwn(file + ".pub"); readErr == nil {
		pub, _, _, _, _ = ssh.ParseAuthorizedKey(b)
	}
	b, err := profile.ReadOwn(file)
	if err != nil {
		return pub, nil, fmt.Errorf("reading identity: %w", err)
	}
	if own := publicOf(b); own != nil {
		pub = own
	}
	if only, _, _, _, err := ssh.ParseAuthorizedKey(b); err == nil {
		return only, nil, fmt.Errorf("identity %s is a public key and no SSH agent holds it", file)
	}
	signer, err = ssh.ParsePrivateKey(b)
	if err == nil {
		pub = signer.PublicKey()
	}
	var locked *ssh.PassphraseMissingError
	switch mode := readable(file); {
	case mode != "":
		return pub, nil, fmt.Errorf("identity %s is not used, as by OpenSSH: %s; run: chmod 600 %s", file, mode,
			Quote([]string{file}))
	case err == nil:
		return pub, signer, nil
	case errors.As(err, &locked):
		return pub, nil, fmt.Errorf("identity %s is encrypted and no SSH agent holds it: run ssh-add %s", file,
			Quote([]string{file}))
	case pub != nil && strings.HasPrefix(pub.Type(), "sk-"):
		return pub, nil, fmt.Errorf("identity %s is of a FIDO token (%s), with which only an SSH agent signs: "+
			"run ssh-add %s", file, pub.Type(), Quote([]string{file}))
	}
	return pub, nil, fmt.Errorf("identity %s cannot be read: %w", file, err)
}

// readable says why OpenSSH finds a private key badly kept: others than its owner may read it. It asks so much of a
// user's own files alone.
func readable(file string) string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if mode := info.Mode().Perm(); ok && int(sys.Uid) == os.Getuid() && mode&0o077 != 0 {
		return fmt.Sprintf("its mode %04o gives others rights", mode)
	}
	return ""
}

// publicOf returns the public key in OpenSSH's format of private keys, where it is not encrypted; nil in others.
func publicOf(b []byte) ssh.PublicKey {
	block, _ := pem.Decode(b)
	if block == nil {
		return nil
	}
	const magic = "openssh-key-v1\x00"
	var w struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public               []byte
		Rest                 []byte `ssh:"rest"`
	}
	rest, is := strings.CutPrefix(string(block.Bytes), magic)
	if !is || ssh.Unmarshal([]byte(rest), &w) != nil {
		return nil
	}
	pub, err := ssh.ParsePublicKey(w.Public)
	if err != nil {
		return nil
	}
	return pub
}

// identityKey is a key file, and how to sign with it.
type identityKey struct {
	file   string
	pub    ssh.PublicKey // nil if it is not known
	signer ssh.Signer    // nil if there is no way
	kind   string        // agent or key
	err    error         // why it does not sign
}

// readIdentities reads t's key files, and finds them in the agent.
func (c *credentials) readIdentities(t *target, held []ssh.Signer) (keys []identityKey) {
	for _, file := range t.identities {
		if t.profileKey {
			if err := checkOwner(file); err != nil {
				c.missing = append(c.missing, "reading identity: "+err.Error())
				continue
			}
		}
		k := identityKey{file: file, kind: "key"}
		k.pub, k.signer, k.err = readIdentity(file)
		if k.pub != nil {
			if s := findKey(held, k.pub); s != nil {
				k.signer, k.kind, k.err = s, "agent", nil
			}
		}
		keys = append(keys, k)
	}
	return keys
}

// addCertificates adds user certificates: those that are named, else those beside the key files. Each signs with its
// key in a file or in the agent.
func (c *credentials) addCertificates(t *target, keys []identityKey, held []ssh.Signer) {
	files := t.certs
	if len(files) == 0 {
		for _, k := range keys {
			files = append(files, k.file+certSuffix)
		}
	}
	for _, file := range files {
		b, err := profile.ReadOwn(file)
		if errors.Is(err, fs.ErrNotExist) && len(t.certs) == 0 {
			continue
		}
		if err := c.addCertificate(file, b, err, keys, held); err != nil {
			c.missing = append(c.missing, "certificate "+file+": "+err.Error())
		}
	}
}

func (c *credentials) addCertificate(file string, b []byte, err error, keys []identityKey, held []ssh.Signer) error {
	if err != nil {
		return err
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		return err
	}
	cert, ok := pub.(*ssh.Certificate)
	if !ok || cert.CertType != ssh.UserCert {
		return errors.New("it is not a user's certificate")
	}
	if s := findKey(held, cert); s != nil {
		c.add(s, "agent")
		return nil
	}
	signer, kind := findKey(held, cert.Key), "agent"
	if signer == nil {
		i := slices.IndexFunc(keys, func(k identityKey) bool { return k.signer != nil && openssh.Same(k.pub, cert.Key) })
		if i < 0 {
			return errors.New("there is no private key for it")
		}
		signer, kind = keys[i].signer, keys[i].kind
	}
	with, err := ssh.NewCertSigner(cert, signer)
	if err != nil {
		return err
	}
	c.add(with, kind)
	return nil
}

// noKeys says why ssh_config allows no public keys; "" if it does.
func (t *target) noKeys() string {
	if v := t.value("pubkeyauthentication"); v != nil {
		if word := strings.ToLower(v.First()); word == "no" || word == "false" {
			return v.String()
		}
	}
	if v := t.value("preferredauthentications"); v != nil &&
		!slices.Contains(strings.Split(v.First(), ","), "publickey") {
		return v.String()
	}
	return ""
}

// agentSocket returns the socket of the SSH agent for t, as IdentityAgent has it; "": none.
func (t *target) agentSocket(c *NodeConfig) (string, error) {
	v := t.value("identityagent")
	if v == nil || c.AgentSocket != "" {
		return c.agentSocket(), nil
	}
	name := v.First()
	switch {
	case strings.EqualFold(name, "none"):
		return "", nil
	case name == "SSH_AUTH_SOCK":
		return os.Getenv(name), nil
	case strings.HasPrefix(name, "$") && !strings.HasPrefix(name, "${"):
		return os.Getenv(name[1:]), nil
	}
	return t.config.Path(v, name)
}
