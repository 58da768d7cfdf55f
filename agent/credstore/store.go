// Package credstore keeps a node's credentials: certificate, key and trust bundle, which belong together, as
// generations behind one symlink.
//
//	DIR/generations/000007-3f2a.../{cert.pem,key.pem,ca-bundle.crt,meta.json}
//	DIR/current -> generations/000007-3f2a...
//	DIR/cert.pem -> current/cert.pem, and so on: the plain paths, which everybody reads
//
// A generation is written whole, synced, and never changed again; switching is one rename. So whatever dies in between,
// the plain paths lead to one complete set. An operator may put a file of his own in place of a plain path's symlink:
// what lies at the plain path is what counts, until the next generation takes the place over.
//
// It makes no decision: package agent decides when a generation is made and when an older one comes back. Keys are made
// here and never leave the folder.
package credstore

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Longer than 300 lines: the layout of a generation, its writing and its selection form one argument
// about a crash between any two lines.

// Files of a generation, and of the folder itself.
const (
	FileCert   = "cert.pem"
	FileKey    = "key.pem"
	FileBundle = "ca-bundle.crt"

	fileMeta    = "meta.json"
	current     = "current"
	generations = "generations"
	pendingKey  = "pending-key.pem" // of an enrollment without a response so far
	fileLock    = ".lock"
)

// keep is the number of generations that are kept: the current one, the previous one, and one more for an operator
// to inspect.
const keep = 3

// plain lists the files that have a plain path.
var plain = [...]string{FileCert, FileKey, FileBundle}

// Store is one credentials folder.
type Store struct {
	Dir string
	FS  durable.Host
}

// Meta is a generation's own description, stored next to its files.
type Meta struct {
	Generation  int64     `json:"generation"` // the platform's number of this certificate
	Profile     string    `json:"environment_profile,omitempty"`
	APIURL      string    `json:"api_url,omitempty"`
	TerminalURL string    `json:"terminal_url,omitempty"`
	IssuedAt    time.Time `json:"issued_at"`
	Previous    string    `json:"previous,omitempty"` // name of the previous generation
	Origin      string    `json:"origin"`             // enrolled | migrated | bundle
}

// Set is the content of a generation. An empty Bundle means that none is known.
type Set struct {
	Cert, Key, Bundle []byte
	Meta              Meta
}

// lock excludes other programs that change the generations, until unlock. The lock file has mode 0600, so that no user
// of the node can hold it, whatever the mode of the folder is.
func (s Store) lock() (unlock func(), err error) {
	return durable.Lock(filepath.Join(s.Dir, generations, fileLock))
}

// Path is the plain path of a file.
func (s Store) Path(name string) string { return filepath.Join(s.Dir, name) }

func (s Store) generation(name string) string { return filepath.Join(s.Dir, generations, name) }

// Pair reads the certificate and its key from the plain paths.
func (s Store) Pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(s.Path(FileCert), s.Path(FileKey))
	if err != nil {
		return nil, fmt.Errorf("read the node's certificate: %w", err)
	}
	return &pair, nil
}

// Roots reads a trust bundle.
func Roots(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the trust bundle: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read the trust bundle: %s holds no certificate", path)
	}
	return pool, nil
}

// Current returns the name and the meta of the current generation; false if it cannot be read.
func (s Store) Current() (string, Meta, bool) {
	link, err := os.Readlink(s.Path(current))
	if err != nil {
		return "", Meta{}, false
	}
	name := filepath.Base(link)
	m, err := s.meta(name)
	return name, m, err == nil
}

func (s Store) meta(name string) (m Meta, err error) {
	text, err := os.ReadFile(filepath.Join(s.generation(name), fileMeta))
	if err != nil {
		return Meta{}, err
	}
	err = json.Unmarshal(text, &m)
	return m, err
}

// Names lists the generations, oldest first.
func (s Store) Names() []string {
	entries, err := os.ReadDir(filepath.Join(s.Dir, generations))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := names[i], names[j]
		return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b)) < 0
	})
	return names
}

// number is a generation's place in the sequence of this folder.
func number(name string) int {
	text, _, _ := strings.Cut(name, "-")
	n, _ := strconv.Atoi(text)
	return n
}

// Linked reports whether a plain path is this store's symlink, rather than an operator's own file.
func (s Store) Linked(name string) bool {
	link, err := os.Readlink(s.Path(name))
	return err == nil && link == filepath.Join(current, name)
}

// Put makes a generation of a set, switches to it, and returns its name. After a crash at any point, the plain
// paths lead to the old set or to the new one, and never to a mixture of two usable ones.
func (s Store) Put(set Set) (string, error) {
	return s.Replace(func() (Set, bool, error) { return set, true, nil })
}

// Replace is Put for a set that depends on the current one: it holds the lock while next runs. next returns false
// if there is nothing to switch to.
func (s Store) Replace(next func() (Set, bool, error)) (string, error) {
	if err := s.FS.MakeDir(filepath.Join(s.Dir, generations), 0o755); err != nil {
		return "", err
	}
	unlock, err := s.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	set, is, err := next()
	if err != nil || !is {
		return "", err
	}
	if !s.linked() {
		if _, err := s.adopt("replaced"); err != nil {
			return "", err
		}
	}
	name, err := s.add(set)
	if err != nil {
		return "", fmt.Errorf("keep a credential generation: %w", err)
	}
	_ = s.remove(filepath.Join(s.Dir, generations, pendingKey)) // else it grows old
	return name, nil
}

// add writes a generation, switches to it, and removes the oldest ones.
func (s Store) add(set Set) (string, error) {
	names := s.Names()
	next := 1
	if len(names) > 0 {
		next = number(names[len(names)-1]) + 1
	}
	set.Meta.Previous, _, _ = s.Current()
	name := fmt.Sprintf("%06d-%s", next, contentName(set))
	if err := s.write(name, set); err != nil {
		return "", err
	}
	if err := s.activate(name); err != nil {
		return "", err
	}
	for i, old := range names { // a failed removal is retried with the next generation
		if i <= len(names)-keep && old != set.Meta.Previous {
			_ = s.FS.RemoveAll(s.generation(old))
		}
	}
	return name, nil
}

// linked reports whether all plain paths are this store's symlinks.
func (s Store) linked() bool {
	return !slices.ContainsFunc(plain[:], func(name string) bool { return !s.Linked(name) })
}

// contentName derives a set's name from its content. The key is not included: its public half is in the
// certificate.
func contentName(set Set) string {
	h := sha256.New()
	for _, part := range [][]byte{set.Cert, set.Bundle} {
		fmt.Fprintf(h, "%d\n", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// write writes the generation to a temporary folder, syncs it, and renames it.
func (s Store) write(name string, set Set) (err error) {
	base := filepath.Join(s.Dir, generations)
	if err := s.FS.MakeDir(base, 0o755); err != nil {
		return err
	}
	aside := filepath.Join(base, ".new")
	if err := s.FS.RemoveAll(aside); err != nil {
		return err
	}
	if err := s.FS.MakeDir(aside, 0o755); err != nil {
		return err
	}
	meta, err := json.MarshalIndent(set.Meta, "", "  ")
	if err != nil {
		return fmt.Errorf("write a credential generation: %w", err)
	}
	for _, f := range [...]struct {
		name string
		text []byte
		mode fs.FileMode
	}{
		{FileKey, set.Key, 0o600}, {FileCert, set.Cert, 0o644}, {FileBundle, set.Bundle, 0o644},
		{fileMeta, append(meta, '\n'), 0o644},
	} {
		if f.name == FileBundle && len(f.text) == 0 {
			continue
		}
		if err := durable.New(s.FS, filepath.Join(aside, f.name), f.mode, durable.Bytes(f.text)); err != nil {
			return err
		}
	}
	if err := s.FS.SyncDir(aside); err != nil {
		return err
	}
	if err := s.FS.Rename(aside, s.generation(name)); err != nil {
		return err
	}
	return s.FS.SyncDir(base)
}

// activate switches to a generation that is complete on disk. It turns plain paths that are not links yet into
// links one by one; a file that an operator placed there is kept under another name.
func (s Store) activate(name string) error {
	if err := s.link(filepath.Join(generations, name), s.Path(current)); err != nil {
		return err
	}
	for _, file := range plain {
		if s.Linked(file) {
			continue
		}
		text := filepath.Join(s.generation(name), file)
		if _, err := os.Stat(text); err != nil {
			continue // a set without a bundle keeps the existing one
		}
		if err := s.keepAside(s.Path(file), text); err != nil {
			return err
		}
		if err := s.link(filepath.Join(current, file), s.Path(file)); err != nil {
			return err
		}
	}
	return nil
}

// Migrate makes a first generation of plain files that are a usable pair, so that every later change is a switch.
// It reports whether it made one. The plain paths have the same content at every moment.
func (s Store) Migrate() (bool, error) {
	if _, err := os.Lstat(s.Path(current)); err == nil {
		return false, nil
	}
	if _, err := s.Pair(); err != nil {
		return false, nil //nolint:nilerr // nothing that is worth keeping: the self-check gives the reason
	}
	if err := s.FS.MakeDir(filepath.Join(s.Dir, generations), 0o755); err != nil {
		return false, err
	}
	unlock, err := s.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	return s.adopt("migrated")
}

// adopt makes a generation of the files at the plain paths, if they are a usable pair.
func (s Store) adopt(origin string) (bool, error) {
	if _, err := s.Pair(); err != nil {
		return false, nil //nolint:nilerr // nothing that is worth keeping: the self-check gives the reason
	}
	var set Set
	var err1, err2 error
	set.Cert, err1 = os.ReadFile(s.Path(FileCert))
	set.Key, err2 = os.ReadFile(s.Path(FileKey))
	if err := errors.Join(err1, err2); err != nil {
		return false, fmt.Errorf("adopt the node's credentials: %w", err)
	}
	set.Bundle, _ = os.ReadFile(s.Path(FileBundle))
	if _, meta, ok := s.Current(); ok {
		set.Meta = meta
	} else if text, err := os.ReadFile(s.Path("generation")); err == nil { // where older agents counted
		set.Meta.Generation, _ = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	if fi, err := os.Stat(s.Path(FileCert)); err == nil {
		set.Meta.IssuedAt = fi.ModTime().UTC()
	}
	set.Meta.Origin = origin
	if _, err := s.add(set); err != nil {
		return false, fmt.Errorf("adopt the node's credentials: %w", err)
	}
	return true, nil
}

// CompleteEnrollment finishes an enrollment that was interrupted between storing the new generation and switching to
// it: its pending key still exists. A newer generation without a pending key was abandoned on purpose. It returns the
// generation's name, "" if there is nothing to complete.
func (s Store) CompleteEnrollment(good func(tls.Certificate) bool) (string, error) {
	unlock, err := s.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	names := s.Names()
	now, _ := os.Readlink(s.Path(current))
	if len(names) == 0 || number(names[len(names)-1]) <= number(filepath.Base(now)) {
		return "", nil
	}
	name := names[len(names)-1]
	set := s.load(name)
	waiting, err := os.ReadFile(filepath.Join(s.Dir, generations, pendingKey))
	if err != nil || !bytes.Equal(waiting, set.Key) || !set.usable(good) {
		return "", nil //nolint:nilerr // no key waits
	}
	return name, s.activate(name)
}

// RollBack switches to the newest good generation, which may be the current one if a plain path was lost. It replaces
// a damaged trust bundle with the newest intact one. It returns the generation's name, "" if none is good.
func (s Store) RollBack(good func(tls.Certificate) bool) (string, error) {
	unlock, err := s.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	names := s.Names()
	slices.Reverse(names)
	var bundle []byte
	for _, name := range names {
		if set := s.load(name); bundle == nil && trust(set.Bundle) {
			bundle = set.Bundle
		}
	}
	for _, name := range names {
		set := s.load(name)
		switch {
		case !set.usable(good):
		case !trust(set.Bundle) && bundle != nil:
			set.Bundle, set.Meta.Origin = bundle, "repaired"
			return s.add(set)
		default:
			return name, s.activate(name)
		}
	}
	return "", nil
}

// load reads a generation; unreadable files are empty in the set.
func (s Store) load(name string) (set Set) {
	dir := s.generation(name)
	set.Cert, _ = os.ReadFile(filepath.Join(dir, FileCert))
	set.Key, _ = os.ReadFile(filepath.Join(dir, FileKey))
	set.Bundle, _ = os.ReadFile(filepath.Join(dir, FileBundle))
	set.Meta, _ = s.meta(name)
	return set
}

func (set Set) usable(good func(tls.Certificate) bool) bool {
	pair, err := tls.X509KeyPair(set.Cert, set.Key)
	return err == nil && good(pair)
}

func trust(bundle []byte) bool { return x509.NewCertPool().AppendCertsFromPEM(bundle) }

// RollbackTarget names the generation that RollBack would go to.
func (s Store) RollbackTarget(good func(tls.Certificate) bool) string {
	names := s.Names()
	slices.Reverse(names)
	for _, name := range names {
		if set := s.load(name); set.usable(good) {
			return name
		}
	}
	return ""
}
