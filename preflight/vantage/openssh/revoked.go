package openssh

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // lists of revoked keys have such digests
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"golang.org/x/crypto/ssh"
)

// maxRevoked bounds a file of revoked keys, in bytes.
const maxRevoked = 64 << 20

const krlMagic = "SSHKRL\n\x00"

// IsRevoked reports whether a file of RevokedHostKeys has a key, or the authority that signed it: a key revocation list
// (ssh-keygen -k), or a text with one public key on each line. A file that cannot be read, or has anything that is not
// understood, is an error: then no key may be accepted.
func IsRevoked(file string, key ssh.PublicKey) (bool, error) {
	b, err := ReadFile(file, false, maxRevoked)
	if err != nil {
		return false, err
	}
	if rest, is := bytes.CutPrefix(b, []byte(krlMagic)); is {
		keys := []ssh.PublicKey{key}
		if c, ok := key.(*ssh.Certificate); ok {
			keys = append(keys, c.SignatureKey)
		}
		for _, k := range keys {
			found, err := (&krl{}).has(rest, k)
			if err != nil {
				return false, fmt.Errorf("reading the key revocation list %s: %w", file, err)
			}
			if found {
				return true, nil
			}
		}
		return false, nil
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		kind, rest, _ := cutBlank(line)
		blob, _, _ := cutBlank(rest)
		k, err := parseKey(kind, blob)
		if err != nil {
			return false, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		c, isCert := key.(*ssh.Certificate)
		if Same(k, key) || (isCert && Same(k, c.SignatureKey)) {
			return true, nil
		}
	}
	return false, nil
}

// krl is a reader of OpenSSH's PROTOCOL.krl.
type krl struct{ err error }

var errKRL = errors.New("it is cut or damaged")

// Sections of a list, and of its section about certificates.
const (
	krlCertificates, krlKeys, krlSHA1, krlSignature, krlSHA256 = 1, 2, 3, 4, 5

	krlSerials, krlRange, krlBitmap, krlID, krlExtension, krlOther = 0x20, 0x21, 0x22, 0x23, 0x39, 255
)

func (r *krl) bytes(b *[]byte, n uint64) []byte {
	if r.err != nil || uint64(len(*b)) < n {
		r.err, *b = errKRL, nil
		return make([]byte, min(n, 8))
	}
	out := (*b)[:n]
	*b = (*b)[n:]
	return out
}

func (r *krl) number(b *[]byte) uint64 { return binary.BigEndian.Uint64(r.bytes(b, 8)) }
func (r *krl) text(b *[]byte) []byte {
	return r.bytes(b, uint64(binary.BigEndian.Uint32(r.bytes(b, 4))))
}

// has reports whether the list after its magic has a key.
func (r *krl) has(b []byte, key ssh.PublicKey) (found bool, err error) {
	if v := binary.BigEndian.Uint32(r.bytes(&b, 4)); r.err == nil && v != 1 {
		return false, fmt.Errorf("its format is %d, and not 1", v)
	}
	r.bytes(&b, 24)
	r.text(&b)
	r.text(&b)
	plain := PlainKey(key).Marshal()
	for r.err == nil && len(b) > 0 {
		kind := r.bytes(&b, 1)[0]
		section := r.text(&b)
		switch kind {
		case krlCertificates:
			found = r.certificates(section, key) || found
		case krlKeys:
			found = r.anyOf(section, plain) || found
		case krlSHA1:
			sum := sha1.Sum(plain) //nolint:gosec // as above
			found = r.anyOf(section, sum[:]) || found
		case krlSHA256:
			sum := sha256.Sum256(plain)
			found = r.anyOf(section, sum[:]) || found
		case krlSignature:
			r.text(&b) // of a key that nobody names here; OpenSSH does not read it either
		case krlOther:
			r.extension(section)
		default:
			return false, fmt.Errorf("it has an unknown section %d", kind)
		}
	}
	return found, r.err
}

func (r *krl) anyOf(section, want []byte) (found bool) {
	for r.err == nil && len(section) > 0 {
		found = bytes.Equal(r.text(&section), want) || found
	}
	return found
}

func (r *krl) extension(section []byte) {
	name := r.text(&section)
	if critical := r.bytes(&section, 1); r.err == nil && critical[0] != 0 {
		r.err = fmt.Errorf("it has an unknown critical extension %.40q", name)
	}
}

// certificates reports whether a section revokes the certificate. Serial 0 is that of every certificate without one.
func (r *krl) certificates(section []byte, key ssh.PublicKey) (found bool) {
	authority := r.text(&section)
	r.text(&section)
	cert, ours := key.(*ssh.Certificate)
	ours = ours && (len(authority) == 0 || bytes.Equal(authority, cert.SignatureKey.Marshal()))
	if !ours {
		cert = &ssh.Certificate{}
	}
	serial := func(is bool) { found = found || (ours && cert.Serial != 0 && is) }
	for r.err == nil && len(section) > 0 {
		kind := r.bytes(&section, 1)[0]
		part := r.text(&section)
		switch kind {
		case krlSerials:
			for r.err == nil && len(part) > 0 {
				serial(r.number(&part) == cert.Serial)
			}
		case krlRange:
			low, high := r.number(&part), r.number(&part)
			serial(low <= cert.Serial && cert.Serial <= high)
		case krlBitmap:
			first := r.number(&part)
			bits := new(big.Int).SetBytes(r.text(&part))
			serial(cert.Serial >= first && cert.Serial-first < uint64(bits.BitLen()) &&
				bits.Bit(int(cert.Serial-first)) == 1)
		case krlID:
			for r.err == nil && len(part) > 0 {
				id := r.text(&part)
				found = (ours && string(id) == cert.KeyId) || found
			}
		case krlExtension:
			r.extension(part)
		default:
			r.err = fmt.Errorf("it has an unknown section %#x about certificates", kind)
		}
	}
	return found
}
