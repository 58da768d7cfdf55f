package agent

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/credstore"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Files of the credentials folder.
const (
	fileCert   = credstore.FileCert
	fileKey    = credstore.FileKey
	fileBundle = credstore.FileBundle
)

// credentials are the node's files. They are read again at each use, since an operator may replace them.
type credentials struct{ credstore.Store }

func credentialsIn(dir string) credentials { return credentials{credstore.Store{Dir: dir}} }

// check returns why the pair cannot be used, the zero Outcome if it can.
func (c credentials) check() Outcome {
	_, err := c.Pair()
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

// trust returns why the bundle cannot be used, the zero Outcome if it can. A removed bundle is missing; a dangling
// link is damaged.
func (c credentials) trust() Outcome {
	_, err := credstore.Roots(c.Path(fileBundle))
	_, gone := os.Lstat(c.Path(fileBundle))
	switch {
	case err == nil:
		return Outcome{}
	case gone != nil:
		return Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.FileMissing, Detail: err.Error()}
	}
	return Outcome{Reason: diag.RecServerTLSUntrusted, Failure: diag.FileUnparseable, Detail: err.Error()}
}

// dates returns why the certificate on disk cannot be valid now: missing, unusable, or outside its validity
// period. It returns no reason if it is valid.
func (c credentials) dates(now time.Time) diag.RecordReason {
	pair, err := c.Pair()
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist):
		return diag.RecCertMissing
	case err != nil:
		return diag.RecCertKeyMismatch
	}
	return (&Material{NotBefore: pair.Leaf.NotBefore, NotAfter: pair.Leaf.NotAfter}).dated(now)
}

// good returns a check of whether a pair is valid for this node now.
func good(node string, now time.Time) func(tls.Certificate) bool {
	return func(pair tls.Certificate) bool {
		return slices.Contains(names(pair.Leaf), node) && now.Before(pair.Leaf.NotAfter)
	}
}

// names returns the identities in a certificate.
func names(leaf *x509.Certificate) []string {
	out := leaf.DNSNames
	if cn := leaf.Subject.CommonName; cn != "" {
		out = append([]string{cn}, out...)
	}
	return out
}

// selfCheck inspects the credentials, the tokens and the trust of a node. It makes no request and changes nothing.
func selfCheck(cfg Config, creds credentials, token diag.Secret) Material {
	m := Material{Files: fingerprint(cfg, creds), Problem: creds.check(), Trust: creds.trust(), Token: tokenFacts(token),
		Bundle: digest(creds.Path(fileBundle)), Recovery: digest(cfg.RecoveryCA)}
	_, meta, managed := creds.Current()
	m.Generation, m.Profile, m.HandedOut = meta.Generation, meta.Profile, meta.APIURL
	m.Apart = (cfg.RecoveryURL != nil && cfg.RecoveryURL.String() != cfg.APIURL.String()) ||
		(m.Recovery != "" && m.Recovery != m.Bundle)
	_, missing := os.Lstat(creds.Path(fileCert))
	m.Never = !managed && len(creds.Names()) == 0 && errors.Is(missing, fs.ErrNotExist)
	if !m.Problem.OK() || !m.Trust.OK() {
		m.Spare = creds.RollbackTarget(good(cfg.NodeID, time.Now()))
	}
	pair, err := creds.Pair()
	if err != nil {
		return m
	}
	m.Names, m.NotBefore, m.NotAfter = names(pair.Leaf), pair.Leaf.NotBefore, pair.Leaf.NotAfter
	m.Serial = pair.Leaf.SerialNumber.Text(16)
	m.Issuer, m.IssuerProblem = issuer(pair, creds.Path(fileBundle))
	return m
}

// issuer returns the fingerprint of the CA that signed the pair's certificate, from the chain file or the trust
// bundle, and the problem with that chain, if any.
func issuer(pair *tls.Certificate, bundle string) (fingerprint, problem string) {
	var candidates []*x509.Certificate
	for _, der := range pair.Certificate[1:] {
		if ca, err := x509.ParseCertificate(der); err == nil {
			candidates = append(candidates, ca)
		}
	}
	beside := len(candidates)
	if text, err := os.ReadFile(bundle); err == nil {
		candidates = append(candidates, parseCerts(text)...)
	}
	for _, ca := range candidates {
		if pair.Leaf.CheckSignatureFrom(ca) == nil {
			return fmt.Sprintf("%x", sha256.Sum256(ca.Raw)), ""
		}
	}
	if beside > 0 {
		return "", fmt.Sprintf("the certificate names the issuer %q; beside it lies %q, which did not sign it",
			pair.Leaf.Issuer.CommonName, candidates[0].Subject.CommonName)
	}
	return "", ""
}

func parseCerts(text []byte) (out []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// digest identifies a file's content; "" if it cannot be read.
func digest(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%.8x", sha256.Sum256(text))
}

// fingerprint changes when any file that a self-check inspects is replaced, rewritten or covered by a bind mount.
func fingerprint(cfg Config, creds credentials) string {
	var b strings.Builder
	for _, path := range [...]string{creds.Path(fileCert), creds.Path(fileKey), creds.Path(fileBundle), cfg.EnvFile,
		cfg.RecoveryCA} {
		b.WriteString(stamp(path))
	}
	return b.String()
}

// stamp changes when a file is replaced or rewritten.
func stamp(path string) string {
	fi, err := os.Stat(path)
	if err != nil {
		return "-;"
	}
	return fmt.Sprintf("%v %d %d;", inode(fi), fi.Size(), fi.ModTime().UnixNano())
}
