package credstore

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// repeatFor is how long a key is reused after an enrollment without a response: as long as the platform accepts
// the same token with the same key as a repetition. After that, each generation has a fresh key.
const repeatFor = 2 * time.Minute

// Key returns the key for the next certificate. It is generated here and stored before use, so that a repetition
// after a lost response uses the same key. The text is the key's file in the new generation. Callers only sign
// with the key, so that a key in a TPM could replace it.
func (s Store) Key(now time.Time) (crypto.Signer, []byte, error) {
	path := filepath.Join(s.Dir, generations, pendingKey)
	if err := s.FS.MakeDir(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, fmt.Errorf("keep a key: %w", err)
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if fi, err := os.Stat(path); err == nil && now.Sub(fi.ModTime()).Abs() < repeatFor {
		if text, err := os.ReadFile(path); err == nil {
			if key := parseKey(text); key != nil {
				return key, text, nil
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := durable.New(s.FS, path, 0o600, durable.Bytes(text)); err != nil {
		return nil, nil, fmt.Errorf("keep a key: %w", err)
	}
	return key, text, s.FS.SyncDir(filepath.Dir(path))
}

func parseKey(text []byte) *ecdsa.PrivateKey {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	ec, _ := key.(*ecdsa.PrivateKey)
	return ec
}
