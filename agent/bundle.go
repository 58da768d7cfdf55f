package agent

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/credstore"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
)

// maxBundle bounds the document in bytes; a normal one holds a few certificates and a token.
const maxBundle = 1 << 20

// ErrBundle reports a bundle that must not be applied to this node. Nothing was changed.
var ErrBundle = errors.New("this bundle cannot be applied here")

// Applied lists what an applied bundle changed, without secrets.
type Applied struct {
	Changes     []string `json:"changes"` // sentences
	Undo        string   `json:"undo"`    // folder with the previous files
	Correlation string   `json:"correlation_id"`
}

// ApplyBundle replaces endpoints, trust and token of the node whose folder cfg names, all from one audited
// document. It checks everything before it changes anything, and keeps the previous files. The agent records the
// change at its next start; the caller has to restart it.
func ApplyBundle(in io.Reader, cfg Config, now time.Time) (Applied, error) {
	cfg = cfg.withFolders()
	text, err := os.ReadFile(cfg.EnvFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Applied{}, fmt.Errorf("read the agent's environment: %w", err)
	}
	old := hostprobe.ParseEnvFile(string(text))
	b, err := readBundle(in, old, now)
	if err != nil {
		return Applied{}, err
	}
	return (&application{cfg: cfg, old: old, bundle: b, creds: credentialsIn(cfg.Dir), now: now,
		ledger: ledgerFile{dir: cfg.StateDir}}).run()
}

// readBundle decodes and checks a bundle against the node that the environment file names. Its errors hold no secret.
func readBundle(in io.Reader, env map[string]string, now time.Time) (wire.Bundle, error) {
	var b wire.Bundle
	text, err := io.ReadAll(io.LimitReader(in, maxBundle+1))
	if err != nil {
		return b, fmt.Errorf("read the bundle: %w", err)
	}
	if len(text) > maxBundle || bounded.Unmarshal(text, &b, bounded.Answer()) != nil {
		return b, fmt.Errorf("%w: it is not one JSON document of a bundle", ErrBundle)
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrBundle}, args...)...))
	}
	if node := env[KeyNodeID]; node != "" && b.NodeID != node {
		refuse("it is for node %q; this is %s", b.NodeID, node)
	}
	if b.NodeID == "" {
		refuse("it names no node")
	}
	token := tokenFacts(diag.NewSecret(b.Token))
	if o := token.refusal(Clocks{Own: now}, b.NodeID, cmp.Or(b.Profile, env[KeyProfile]), false); !o.OK() {
		refuse("%s", o.Detail)
	}
	for _, u := range [...]struct {
		key, value string
		required   bool
	}{{"api_url", b.APIURL, true}, {"terminal_url", b.TerminalURL, true}, {"recovery_api_url", b.RecoveryURL, false}} {
		if p, err := url.Parse(u.value); (u.required || u.value != "") &&
			(err != nil || p.Scheme != "https" || p.Host == "") {
			refuse("%s is not an https URL", u.key)
		}
	}
	for _, c := range [...]struct {
		key, value string
		required   bool
	}{{"ca_bundle", b.CABundle, true}, {"recovery_ca_bundle", b.RecoveryCA, false}} {
		if (c.required || c.value != "") && len(parseCerts([]byte(c.value))) == 0 {
			refuse("%s holds no certificate", c.key)
		}
	}
	if keys, err := wire.ParseVerifiers(b.TaskKeys); err != nil || len(keys) == 0 {
		refuse("task_signing_pubkeys holds no key that can be read")
	}
	return b, errors.Join(errs...)
}

// application is the state of one ApplyBundle call.
type application struct {
	cfg    Config
	old    map[string]string // the environment file as it was
	bundle wire.Bundle
	creds  credentials
	ledger ledgerFile
	now    time.Time
}

func (a *application) run() (Applied, error) {
	set := a.environment()
	for key, v := range set {
		if !fitsEnv(v) {
			return Applied{}, fmt.Errorf("%w: the value of %s does not fit an environment file", ErrBundle, key)
		}
	}
	done := Applied{Correlation: a.bundle.CorrelationID, Changes: a.changes(set)}
	// Trust first, endpoints and token last: after a crash in between the agent can still reach the platform, and
	// the same bundle can be applied again.
	for _, step := range [...]func() error{
		func() (err error) { done.Undo, err = a.keepUndo(); return err },
		a.trust,
		func() error {
			if a.bundle.RecoveryCA == "" {
				return nil
			}
			return durable.Replace(set[KeyRecoveryCA], []byte(a.bundle.RecoveryCA), 0o644)
		},
		func() error { return setEnv(a.cfg.EnvFile, set) },
		func() error { return a.recordApplied(done) },
	} {
		// one reserve per step: a step that is done is not repeated
		if _, err := withReserve(a.cfg.Reserve, step); err != nil {
			return done, err
		}
	}
	return done, nil
}

// environment returns the settings that the environment file must contain.
func (a *application) environment() map[string]string {
	b := a.bundle
	set := map[string]string{KeyNodeID: b.NodeID, KeyAPIURL: b.APIURL, KeyTerminalURL: b.TerminalURL, KeyToken: b.Token,
		KeyTaskPubkeys: b.TaskKeys}
	for key, v := range map[string]string{KeyProfile: b.Profile, KeyRecoveryURL: b.RecoveryURL} {
		if v != "" {
			set[key] = v
		}
	}
	if b.RecoveryCA != "" {
		set[KeyRecoveryCA] = a.old[KeyRecoveryCA]
		// never one file for both, or they would drift together
		if p := set[KeyRecoveryCA]; p == "" || p == a.creds.Path(fileBundle) {
			set[KeyRecoveryCA] = filepath.Join(a.cfg.Dir, "recovery-ca.crt")
		}
	}
	return set
}

// changes lists the differences: hosts, names and fingerprints.
func (a *application) changes(set map[string]string) []string {
	var out []string
	for key, v := range set {
		switch old := a.old[key]; {
		case old == v:
		case key == KeyToken:
			c, _ := wire.ParseToken(v)
			// Do not name the key: the record scrubs everything after the key's name and a colon.
			out = append(out, fmt.Sprintf("a new enrollment token for node %s, good until %s", c.NodeID,
				formatTime(c.ExpiresAt)))
		case key == KeyTaskPubkeys:
			out = append(out, fmt.Sprintf("%s: %s (was %s)", key, keyIDs(v), keyIDs(old)))
		default:
			out = append(out, fmt.Sprintf("%s: %s (was %s)", key, v, cmp.Or(old, "none")))
		}
	}
	sort.Strings(out)
	for _, f := range [...]struct{ what, path, text string }{
		{"trust bundle", a.creds.Path(fileBundle), a.bundle.CABundle},
		{"recovery trust bundle", a.old[KeyRecoveryCA], a.bundle.RecoveryCA},
	} {
		old, _ := os.ReadFile(f.path)
		if f.text != "" && !bytes.Equal(old, []byte(f.text)) {
			out = append(out, fmt.Sprintf("%s: %s (was %s)", f.what, fingerprints([]byte(f.text)), fingerprints(old)))
		}
	}
	return out
}

// keyIDs names the keys of a list without the keys.
func keyIDs(list string) string {
	var ids []string
	for part := range strings.SplitSeq(list, ",") {
		if id, _, ok := strings.Cut(strings.TrimSpace(part), ":"); ok {
			ids = append(ids, id)
		}
	}
	return cmp.Or(strings.Join(ids, ", "), "none")
}

// fingerprints names the certificates of a PEM text.
func fingerprints(text []byte) string {
	var out []string
	for _, c := range parseCerts(text) {
		out = append(out, fmt.Sprintf("%s sha256 %.8x", c.Subject.CommonName, sha256.Sum256(c.Raw)))
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// keepUndos is how many undo copies are kept: each may hold a token that is still good.
const keepUndos = 3

// keepUndo copies the files that are about to be replaced into a new folder, and removes the oldest copies.
func (a *application) keepUndo() (string, error) {
	dir := filepath.Join(a.cfg.StateDir, "undo", a.now.UTC().Format("20060102T150405.000Z"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep an undo copy: %w", err)
	}
	for name, path := range map[string]string{"agent.env": a.cfg.EnvFile, fileBundle: a.creds.Path(fileBundle),
		"recovery-ca.crt": a.old[KeyRecoveryCA]} {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = durable.Replace(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return "", fmt.Errorf("keep an undo copy: %w", err)
		}
	}
	all, _ := os.ReadDir(filepath.Dir(dir)) // by time
	for ; len(all) > keepUndos; all = all[1:] {
		if old := filepath.Join(filepath.Dir(dir), all[0].Name()); old != dir { // a clock may have gone back
			_ = os.RemoveAll(old) // the next bundle tries again
		}
	}
	return dir, nil
}

// trust creates a generation with the current certificate and the new trust bundle. Without a certificate it
// writes the bundle as a plain file, as a bootstrap does.
func (a *application) trust() error {
	if o := a.creds.check(); !o.OK() {
		path := a.creds.Path(fileBundle)
		if a.creds.Linked(fileBundle) {
			if to, err := filepath.EvalSymlinks(path); err == nil {
				path = to
			}
		}
		return durable.Replace(path, []byte(a.bundle.CABundle), 0o644)
	}
	_, err := a.creds.Replace(a.generation) // a running agent may be enrolling at this moment
	return err
}

// generation returns the next generation, with the current certificate; false if there is none to switch to.
func (a *application) generation() (credstore.Set, bool, error) {
	cert, err1 := os.ReadFile(a.creds.Path(fileCert))
	key, err2 := os.ReadFile(a.creds.Path(fileKey))
	if err := errors.Join(err1, err2); err != nil {
		return credstore.Set{}, false, fmt.Errorf("read the node's certificate: %w", err)
	}
	_, meta, _ := a.creds.Current()
	was := meta
	meta.Origin, meta.APIURL, meta.TerminalURL = "bundle", a.bundle.APIURL, a.bundle.TerminalURL
	meta.Profile = cmp.Or(a.bundle.Profile, meta.Profile)
	bundle, _ := os.ReadFile(a.creds.Path(fileBundle))
	was.Origin = "bundle"
	same := was == meta && bytes.Equal(bundle, []byte(a.bundle.CABundle))
	return credstore.Set{Cert: cert, Key: key, Bundle: []byte(a.bundle.CABundle), Meta: meta}, !same, nil
}

// recordApplied leaves a line for the agent to record when it starts.
func (a *application) recordApplied(done Applied) error {
	return a.ledger.storeNote(Decision{Reason: diag.RecRecoveryBundle, About: "identity", What: "update",
		Correlation: done.Correlation, Detail: strings.Join(done.Changes, "; "), Facts: map[string]string{"undo": done.Undo}})
}
