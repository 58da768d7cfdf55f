//go:build linux

package lab

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Files in the lab's secrets folder. The folder is created by one rename when complete; only files of single
// machines are added later.
const (
	fileEdgeCA       = "edge-ca.crt"        // signs the public edge's certificate; trusted by an operator's browser
	fileNodeCA       = "node-ca.crt"        // signs the certificates of the node-facing listeners
	fileSigningCA    = "signing-ca.crt"     // signs the nodes' certificates; also trusted by the node ingress
	fileSigningKey   = "signing-ca.key"     //
	fileNodeBundle   = "node-ca-bundle.crt" // trusted by nodes: node CA and edge CA
	fileEdgeCert     = "edge.crt"
	fileEdgeKey      = "edge.key"
	fileNodeAPICert  = "node-api.crt"
	fileNodeAPIKey   = "node-api.key"
	fileTerminalCert = "node-terminal.crt"
	fileTerminalKey  = "node-terminal.key"
	fileTaskKey      = "task-signing.key"
	fileToken        = "operator.token"
	fileIngress      = "ingress.secret" // authenticates the node ingress to the platform
	fileRedis        = "redis.password"
	fileSSHKey       = "id_ed25519"
	fileSSHPub       = "id_ed25519.pub"
	fileKnownHosts   = "known_hosts"
)

func (l *Lab) secret(name string) string { return filepath.Join(l.opts.StateDir, "secrets", name) }

// makeSecrets creates missing certificates, keys and tokens: all of them, or those of new nodes.
func (l *Lab) makeSecrets() (string, error) {
	dir := l.secret("")
	note := "keys and certificates kept"
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		note = "new keys and certificates"
		if err := newSecrets(dir); err != nil {
			return "", err
		}
	}
	for _, name := range [...]string{fileIngress, fileRedis} { // missing in labs of an older build
		if err := ensureFile(l.secret(name), newToken); err != nil {
			return "", err
		}
	}
	for _, m := range l.Machines() {
		if err := ensureFile(l.secret("host-"+m.Name+".key"), newSSHKey); err != nil {
			return "", err
		}
		if !m.IsNode() {
			continue
		}
		if err := ensureFile(l.secret("enroll-"+m.Name+".token"), newToken); err != nil {
			return "", err
		}
	}
	return note, l.writeKnownHosts()
}

// newSecrets creates a temporary folder and renames it, so that an incomplete one is never used.
func newSecrets(dir string) error {
	tmp := filepath.Clean(dir) + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return err
	}
	files, err := secretFiles(time.Now())
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(tmp, name), data, 0o600); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(filepath.Clean(dir)))
}

// secretFiles creates the content of every file of the folder.
func secretFiles(now time.Time) (map[string][]byte, error) {
	files, err := certificateFiles(now)
	if err != nil {
		return nil, err
	}
	_, taskKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	if files[fileTaskKey], err = pkcs8PEM(taskKey); err != nil {
		return nil, err
	}
	if files[fileToken], err = newToken(); err != nil {
		return nil, err
	}
	if files[fileSSHKey], err = newSSHKey(); err != nil {
		return nil, err
	}
	files[fileSSHPub], err = publicLine(files[fileSSHKey])
	return files, err
}

func certificateFiles(now time.Time) (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(p pair, cert, key string) error {
		k, err := pkcs8PEM(p.key)
		files[cert], files[key] = p.certPEM(), k
		return err
	}
	edge, err1 := newCA("GPUaaS lab edge CA", now)
	node, err2 := newCA("GPUaaS lab node endpoint CA", now)
	signing, err3 := newCA("GPUaaS lab node signing CA", now)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	edgeServer, err1 := newServer(edge, now, apiHost, termHost, "*."+appsDomain)
	nodeAPI, err2 := newServer(node, now, nodeAPIHost)
	terminal, err3 := newServer(node, now, termHost)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	files[fileEdgeCA], files[fileNodeCA] = edge.certPEM(), node.certPEM()
	files[fileNodeBundle] = append(node.certPEM(), edge.certPEM()...)
	err := errors.Join(
		add(signing, fileSigningCA, fileSigningKey), add(edgeServer, fileEdgeCert, fileEdgeKey),
		add(nodeAPI, fileNodeAPICert, fileNodeAPIKey), add(terminal, fileTerminalCert, fileTerminalKey))
	return files, err
}

// ensureFile writes the result of make, readable only by the owner, unless the file exists.
func ensureFile(path string, make func() ([]byte, error)) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	data, err := make()
	if err != nil {
		return err
	}
	return writeFile(path, data, 0o600)
}

// newToken returns 32 random bytes in hex.
func newToken() ([]byte, error) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return []byte(hex.EncodeToString(b) + "\n"), nil
}

// newSSHKey returns an ed25519 key in OpenSSH's format.
func newSSHKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}

// publicLine returns the authorized_keys line of an OpenSSH private key.
func publicLine(private []byte) ([]byte, error) {
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return nil, err
	}
	return ssh.MarshalAuthorizedKey(signer.PublicKey()), nil
}

// writeKnownHosts writes every machine's host key, by address and by name.
func (l *Lab) writeKnownHosts() error {
	var b bytes.Buffer
	for _, m := range l.Machines() {
		key, err := os.ReadFile(l.secret("host-" + m.Name + ".key"))
		if err != nil {
			return err
		}
		line, err := publicLine(key)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s,%s %s", m.Address(), m.Name, line)
	}
	return writeFile(l.secret(fileKnownHosts), b.Bytes(), 0o600)
}

// taskPubkeys is the value of the agents' GPUAAS_TASK_SIGNING_PUBKEYS: the key's id, a colon, the key.
func taskPubkeys(keyPEM []byte) (string, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return "", errors.New("no key in the task signing file")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", err
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return "", fmt.Errorf("the task signing key is a %T, want ed25519", key)
	}
	public := private.Public().(ed25519.PublicKey)
	return fmt.Sprintf("%.4x:%s", sha256.Sum256(public), base64.StdEncoding.EncodeToString(public)), nil
}
