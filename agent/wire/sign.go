package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Verifiers is the agent's set of task-signing public keys by key id, from GPUAAS_TASK_SIGNING_PUBKEYS.
type Verifiers map[string]ed25519.PublicKey

// ErrUnverifiable is returned for a task whose key is unknown or whose signature is wrong.
var ErrUnverifiable = errors.New("task signature does not verify")

// ParseVerifiers parses "keyid:base64,keyid:base64".
func ParseVerifiers(s string) (Verifiers, error) {
	v := Verifiers{}
	for i, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		id, b64, ok := strings.Cut(part, ":")
		key, err := base64.StdEncoding.DecodeString(b64)
		if !ok || err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("task signing key %d: want keyid:base64 of %d bytes", i+1, ed25519.PublicKeySize)
		}
		v[id] = ed25519.PublicKey(key)
	}
	return v, nil
}

// SigningBytes returns the bytes that a task's signature covers: every field except the signature, each with its
// length, so that no two tasks have the same encoding. Times are in milliseconds.
func (t *Task) SigningBytes() []byte {
	var b []byte
	field := func(v []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	field([]byte("gpuaas-task-v1"))
	for _, s := range []string{t.ID, t.NodeID, t.Type, t.CorrelationID, t.KeyID} {
		field([]byte(s))
	}
	field(t.Payload)
	for _, at := range []time.Time{t.QueuedAt, t.ExpiresAt} {
		field(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())))
	}
	return b
}

// Sign sets KeyID and Signature.
func (t *Task) Sign(keyID string, key ed25519.PrivateKey) {
	t.KeyID = keyID
	t.Signature = ed25519.Sign(key, t.SigningBytes())
}

// Verify returns ErrUnverifiable unless one of the known keys signed t.
func (v Verifiers) Verify(t *Task) error {
	key, ok := v[t.KeyID]
	if !ok {
		return fmt.Errorf("%w: no key %q", ErrUnverifiable, t.KeyID)
	}
	if !ed25519.Verify(key, t.SigningBytes(), t.Signature) {
		return fmt.Errorf("%w: key %q", ErrUnverifiable, t.KeyID)
	}
	return nil
}
