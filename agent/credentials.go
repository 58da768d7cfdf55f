package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Files of the credentials folder.
const (
	fileCert       = "cert.pem"
	fileKey        = "key.pem"
	fileBundle     = "ca-bundle.crt"
	fileGeneration = "generation" // decimal; counts the certificates that the platform issued to this node
)

// credentials are the node's files. They are read again whenever they are needed: somebody may replace them.
type credentials struct{ dir string }

func (c credentials) path(name string) string { return filepath.Join(c.dir, name) }

// pair reads the certificate and its key.
func (c credentials) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.path(fileCert), c.path(fileKey))
	if err != nil {
		return nil, fmt.Errorf("read the node's certificate: %w", err)
	}
	return &pair, nil
}

// roots reads the trust bundle.
func (c credentials) roots() (*x509.CertPool, error) {
	text, err := os.ReadFile(c.path(fileBundle))
	if err != nil {
		return nil, fmt.Errorf("read the trust bundle: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read the trust bundle: %s holds no certificate", c.path(fileBundle))
	}
	return pool, nil
}

// check is the local look before anything is asked of the platform.
func (c credentials) check() Outcome {
	_, err := c.pair()
	switch {
	case err == nil:
		return Outcome{}
	case errors.Is(err, fs.ErrNotExist):
		return Outcome{Reason: diag.RecCertMissing, Failure: diag.FileMissing, Detail: err.Error()}
	case errors.Is(err, fs.ErrPermission):
		return Outcome{Reason: diag.RecCertMissing, Failure: diag.FileUnreadable, Detail: err.Error()}
	case strings.Contains(err.Error(), "does not match"): // crypto/tls: "private key does not match public key"
		return Outcome{Reason: diag.RecCertKeyMismatch, Failure: diag.FileMismatch, Detail: err.Error()}
	}
	return Outcome{Reason: diag.RecCertKeyMismatch, Failure: diag.FileUnparseable, Detail: err.Error()}
}

// dates says whether the certificate on disk is inside its dates; no reason when it is or cannot be read.
func (c credentials) dates(now time.Time) diag.RecordReason {
	pair, err := c.pair()
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist):
		return diag.RecCertMissing
	case err != nil:
		return diag.RecCertKeyMismatch
	case now.Before(pair.Leaf.NotBefore): // looked at first: TLS calls both "expired"
		return diag.RecCertNotYetValid
	case now.After(pair.Leaf.NotAfter):
		return diag.RecCertExpired
	}
	return ""
}

// serial is the certificate's serial number in lower-case hex, empty when there is none.
func (c credentials) serial() string {
	pair, err := c.pair()
	if err != nil {
		return ""
	}
	return pair.Leaf.SerialNumber.Text(16)
}

func (c credentials) generation() int64 {
	text, err := os.ReadFile(c.path(fileGeneration))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// fingerprint changes when one of the files was replaced or rewritten. A bind over one of them counts, too.
func (c credentials) fingerprint() string {
	var b strings.Builder
	for _, name := range []string{fileCert, fileKey, fileBundle} {
		if fi, err := os.Stat(c.path(name)); err == nil {
			fmt.Fprintf(&b, "%v %d %d;", inode(fi), fi.Size(), fi.ModTime().UnixNano())
		} else {
			b.WriteString("-;")
		}
	}
	return b.String()
}

// ensureKey returns the key that a first certificate is asked for, made here and kept before it is used: when the
// answer is lost, the next attempt asks for the same key.
func (c credentials) ensureKey() (*ecdsa.PrivateKey, error) {
	if text, err := os.ReadFile(c.path(fileKey)); err == nil {
		if block, _ := pem.Decode(text); block != nil {
			if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
				if ec, ok := key.(*ecdsa.PrivateKey); ok {
					return ec, nil
				}
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return key, writeFile(c.path(fileKey), text, 0o600)
}

// store writes what an enrollment gave. The certificate comes last: without it the enrollment has not happened.
func (c credentials) store(cert, bundle string, generation int64) error {
	if bundle != "" {
		if err := writeFile(c.path(fileBundle), []byte(bundle), 0o644); err != nil {
			return err
		}
	}
	if err := writeFile(c.path(fileGeneration), strconv.AppendInt(nil, generation, 10), 0o644); err != nil {
		return err
	}
	return writeFile(c.path(fileCert), []byte(cert), 0o644)
}

// writeFile replaces path by text so that a crash at any point leaves the old file or the new one: temporary file in
// the same folder, fsync, rename, fsync of the folder.
func writeFile(path string, text []byte, mode fs.FileMode) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	if err := tmp.Chmod(mode); err != nil {
		return err
	}
	if _, err := tmp.Write(text); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
