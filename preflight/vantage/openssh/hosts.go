package openssh

import (
	"bytes"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // hashed names of known_hosts are made with it
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// maxHosts bounds one known_hosts file, in bytes.
const maxHosts = 64 << 20

// minRSA is the shortest RSA key, in bits, that OpenSSH reads at all.
const minRSA = 1024

// Marker is what a line of known_hosts says of its key.
type Marker int

// The markers.
const (
	Plain     Marker = iota // the host's key
	Authority               // @cert-authority: the key signs certificates of the host
	Revoked                 // @revoked: the key is never accepted
)

// Known is one key of known_hosts.
type Known struct {
	Marker Marker
	Key    ssh.PublicKey
	File   string
	Line   int

	hosts string
}

// Hosts are the keys of known_hosts files.
type Hosts struct {
	keys    []Known
	Skipped []string // lines that cannot be read, as file:line: why; at most maxSkipped
	more    int
}

// maxSkipped bounds the lines that are named.
const maxSkipped = 8

// Read adds the lines of a file. A line that cannot be read is skipped, and a missing file is empty.
func (h *Hosts) Read(file string) error {
	b, err := ReadFile(file, false, maxHosts)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return err
	}
	h.Add(file, b)
	return nil
}

// Add adds the lines of a text.
func (h *Hosts) Add(file string, text []byte) {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		s := strings.TrimLeft(strings.TrimRight(string(line), "\r\n"), " \t")
		if s == "" || s[0] == '#' {
			continue
		}
		k, err := parseHost(s)
		if err != nil {
			h.skip(file, n, err.Error())
			continue
		}
		k.File, k.Line = file, n
		h.keys = append(h.keys, k)
	}
}

// Skip notes a file that cannot be read.
func (h *Hosts) Skip(why error) { h.skip("", 0, why.Error()) }

func (h *Hosts) skip(file string, n int, why string) {
	switch {
	case len(h.Skipped) == maxSkipped:
		h.more++
		h.Skipped = append(h.Skipped[:maxSkipped-1], fmt.Sprintf("and %d more lines", h.more+1))
	case h.more > 0:
		h.more++
		h.Skipped[maxSkipped-1] = fmt.Sprintf("and %d more lines", h.more+1)
	case n == 0:
		h.Skipped = append(h.Skipped, why)
	default:
		h.Skipped = append(h.Skipped, fmt.Sprintf("%s:%d: %s", file, n, why))
	}
}

func parseHost(s string) (Known, error) {
	var k Known
	if s[0] == '@' {
		word, rest, cut := cutBlank(s)
		switch {
		case !cut:
			return k, fmt.Errorf("only a marker: %.40q", word)
		case word == "@cert-authority":
			k.Marker = Authority
		case word == "@revoked":
			k.Marker = Revoked
		default:
			return k, fmt.Errorf("an unknown marker: %.40q", word)
		}
		if s = rest; strings.HasPrefix(s, "@") {
			return k, errors.New("two markers")
		}
	}
	hosts, rest, _ := cutBlank(s)
	k.hosts = hosts
	if hosts == "" || rest == "" || rest[0] == '#' {
		return k, errors.New("it ends before a key")
	}
	if strings.HasPrefix(hosts, "|") && len(hashParts(hosts)) != 2 {
		return k, errors.New("bad hash of a host")
	}
	kind, blob, _ := cutBlank(rest)
	blob, _, _ = cutBlank(blob)
	if blob == "" {
		return k, fmt.Errorf("it ends after the type of a key: %.40q", kind)
	}
	key, err := parseKey(kind, blob)
	k.Key = key
	return k, err
}

// parseKey reads a key in base64, which must be of the type written before it.
func parseKey(kind, blob string) (ssh.PublicKey, error) {
	raw, err := base64.StdEncoding.DecodeString(blob)
	if err != nil {
		return nil, fmt.Errorf("no key of type %.40q: its base64 is cut or damaged", kind)
	}
	key, err := ssh.ParsePublicKey(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("no key of type %.40q: %w", kind, err)
	case key.Type() != kind:
		return nil, fmt.Errorf("the key is of type %s, and not %.40q", key.Type(), kind)
	case RSABits(key) != 0 && RSABits(key) < minRSA:
		return nil, fmt.Errorf("an RSA key of %d bits", RSABits(key))
	}
	return key, nil
}

// RSABits returns the length of an RSA key, or of that in a certificate; 0 for other keys.
func RSABits(key ssh.PublicKey) int {
	if c, ok := key.(*ssh.Certificate); ok {
		key = c.Key
	}
	if k, ok := key.(ssh.CryptoPublicKey); ok {
		if r, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok {
			return r.N.BitLen()
		}
	}
	return 0
}

// cutBlank cuts s at its first blank, and skips more of them.
func cutBlank(s string) (before, after string, found bool) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, "", false
	}
	return s[:i], strings.TrimLeft(s[i:], " \t"), true
}

// hashParts returns salt and digest of a hashed name.
func hashParts(s string) (parts [][]byte) {
	s, ok := strings.CutPrefix(s, "|1|")
	if !ok {
		return nil
	}
	for p := range strings.SplitSeq(s, "|") {
		b, err := base64.StdEncoding.DecodeString(p)
		if err != nil || len(b) != sha1.Size {
			return nil
		}
		parts = append(parts, b)
	}
	return parts
}

// names reports whether a line is about a host, which is host or [host]:port.
func (k *Known) names(host string) bool {
	if parts := hashParts(k.hosts); len(parts) == 2 {
		mac := hmac.New(sha1.New, parts[0])
		mac.Write([]byte(host))
		return hmac.Equal(mac.Sum(nil), parts[1])
	}
	return hostList(host, k.hosts)
}

// For returns the keys of the lines about a host, which is host or [host]:port in lower case.
func (h *Hosts) For(host string) (keys []Known) {
	for i := range h.keys {
		if h.keys[i].names(host) {
			keys = append(keys, h.keys[i])
		}
	}
	return keys
}

// Status is what known_hosts says of a key that a host shows.
type Status int

// The states.
const (
	New     Status = iota // no key of the host is known
	OK                    // the key is known
	Changed               // only other keys are known
	Banned                // the key, or the authority that signed it, is revoked
)

// Compare judges a key by the lines about its host, as OpenSSH does. A certificate is judged by the authorities alone.
// found is the line that decides; for Changed, the last other key.
func Compare(lines []Known, key ssh.PublicKey) (status Status, found *Known) {
	cert, isCert := key.(*ssh.Certificate)
	for i := range lines {
		k := &lines[i]
		if k.Marker == Revoked && (Same(k.Key, key) || (isCert && Same(k.Key, cert.SignatureKey))) {
			return Banned, k
		}
	}
	for i := range lines {
		k := &lines[i]
		switch {
		case isCert && k.Marker == Authority && Same(k.Key, cert.SignatureKey),
			!isCert && k.Marker == Plain && k.Key.Type() == key.Type() && Same(k.Key, key):
			return OK, k
		case !isCert && k.Marker == Plain:
			status, found = Changed, k
		}
	}
	return status, found
}

// Same reports whether two public keys are the same, leaving certificates aside.
func Same(a, b ssh.PublicKey) bool {
	return bytes.Equal(PlainKey(a).Marshal(), PlainKey(b).Marshal())
}

// PlainKey returns the key of a certificate, or the key itself.
func PlainKey(key ssh.PublicKey) ssh.PublicKey {
	if c, ok := key.(*ssh.Certificate); ok {
		return c.Key
	}
	return key
}
