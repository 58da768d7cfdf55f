package credstore

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// put makes generations of new sets, and returns the sets.
func put(t *testing.T, s Store, n int64) (sets []Set) {
	t.Helper()
	for i := range n {
		set := newSet(t, i+1)
		_, err := s.Put(set)
		must(t, err)
		sets = append(sets, set)
	}
	return sets
}

// onlyCleans reports whether a change that failed removes what nobody needs: an older generation, and the key of an
// enrollment that is over. It is tried again with the next generation.
func onlyCleans(change string) bool {
	return strings.HasPrefix(change, durable.OpRemove+" ") &&
		(strings.HasSuffix(change, "/"+pendingKey) || strings.Contains(change, generations+"/00000"))
}

// TestEveryErrorIsReported lets each change to the disk fail once, and expects that the operation says so.
// TestCrashAtEveryChange expects it of more operations.
func TestEveryErrorIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(s Store)
		do      func(Store) error
	}{
		"away from useless files, for the second time": {func(s Store) {
			put(t, s, 1)
			for _, path := range []string{s.Path(FileKey), s.Path(FileKey) + ".replaced"} {
				must(t, os.RemoveAll(path))
				must(t, os.WriteFile(path, []byte("x"), 0o600))
			}
		}, func(s Store) error { _, err := s.RollBack(anyPair); return err }},
		"over a folder": {func(s Store) {
			put(t, s, 1)
			must(t, os.Remove(s.Path(FileCert)))
			must(t, os.Mkdir(s.Path(FileCert), 0o700))
		}, func(s Store) error { _, err := s.RollBack(anyPair); return err }},
		"back, with another bundle": {func(s Store) {
			put(t, s, 2)
			must(t, os.WriteFile(s.Path(FileBundle), nil, 0o600))
		}, func(s Store) error { _, err := s.RollBack(anyPair); return err }},
		"a key": {func(Store) {}, func(s Store) error { _, _, err := s.Key(time.Now()); return err }},
	} {
		for n := 0; ; n++ {
			dir := t.TempDir()
			tc.prepare(Store{Dir: dir})
			s, done, failed := failing(dir, n)
			err := tc.do(s)
			if *done <= n { // all of them were tried
				if err != nil || n == 0 {
					t.Errorf("%s, without a failure: %v, %d changes", name, err, n)
				}
				break
			}
			if (err == nil) != onlyCleans(*failed) || (err != nil && !errors.Is(err, syscall.ENOSPC)) {
				t.Errorf("%s, %q fails: %v", name, *failed, err)
			}
		}
	}
}

// failing fails the nth change alone, and tells which that was.
func failing(dir string, n int) (s Store, done *int, failed *string) {
	done, failed = new(int), new(string)
	return Store{Dir: dir, FS: durable.Host{Before: func(op, path string) error {
		if *done++; *done != n+1 {
			return nil
		}
		*failed = op + " " + path
		return syscall.ENOSPC
	}}}, done, failed
}

// TestFoldersThatCannotBeUsed: without a place for the generations nothing is stored, and that is reported.
func TestFoldersThatCannotBeUsed(t *testing.T) {
	for name, do := range map[string]func(Store) error{
		"put":     func(s Store) error { _, err := s.Put(newSet(t, 1)); return err },
		"key":     func(s Store) error { _, _, err := s.Key(time.Now()); return err },
		"back":    func(s Store) error { _, err := s.RollBack(anyPair); return err },
		"forward": func(s Store) error { _, err := s.CompleteEnrollment(anyPair); return err },
		"migrate": func(s Store) error { putPlain(t, s.Dir, newSet(t, 1)); _, err := s.Migrate(); return err },
	} {
		s := Store{Dir: t.TempDir()}
		must(t, os.WriteFile(s.Path(generations), nil, 0o600))
		if err := do(s); err == nil {
			t.Errorf("%s in a file: no error", name)
		}
		s = Store{Dir: t.TempDir()}
		must(t, os.MkdirAll(filepath.Join(s.Dir, generations, fileLock, "x"), 0o700)) // cannot be opened as a file
		if err := do(s); err == nil {
			t.Errorf("%s without a lock: no error", name)
		}
	}
}

// TestReplaceMayFindNothing: a set that is not made switches to nothing.
func TestReplaceMayFindNothing(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	put(t, s, 1)
	no := errors.New("no")
	for _, tc := range []struct {
		is   bool
		err  error
		want string
	}{{false, nil, ""}, {true, no, ""}, {false, no, ""}} {
		name, err := s.Replace(func() (Set, bool, error) { return newSet(t, 2), tc.is, tc.err })
		if name != "" || !errors.Is(err, tc.err) || len(s.Names()) != 1 || serial(t, s.Dir) != 1 {
			t.Errorf("%v, %v: %q, %v, generations %v", tc.is, tc.err, name, err, s.Names())
		}
	}
}

// TestWhichAreGenerations: folders, in the order of their numbers; the current one is where the link leads.
func TestWhichAreGenerations(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if s.Names() != nil || s.RollbackTarget(anyPair) != "" {
		t.Error("generations in an empty folder")
	}
	for _, dir := range []string{"000010-a", "000002-b", "000002-a", ".new"} {
		must(t, os.MkdirAll(s.generation(dir), 0o700))
	}
	must(t, os.WriteFile(s.generation("000003-file"), nil, 0o600))
	if got, want := s.Names(), []string{"000002-a", "000002-b", "000010-a"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if name, _, ok := s.Current(); ok || name != "" {
		t.Errorf("no link: %q, %v", name, ok)
	}
	must(t, os.Symlink(filepath.Join(generations, "000002-a"), s.Path(current)))
	for _, text := range []string{"", "torn", `{"generation":7}`} {
		want := strings.HasPrefix(text, "{")
		if text != "" {
			must(t, os.WriteFile(filepath.Join(s.generation("000002-a"), fileMeta), []byte(text), 0o600))
		}
		if name, meta, ok := s.Current(); ok != want || name != "000002-a" || (meta.Generation == 7) != want {
			t.Errorf("%q: %s, %+v, %v", text, name, meta, ok)
		}
	}
	for target, want := range map[string]bool{filepath.Join(current, FileCert): true, FileKey: false,
		filepath.Join(current, FileKey): false} {
		_ = os.Remove(s.Path(FileCert))
		must(t, os.Symlink(target, s.Path(FileCert)))
		if got := s.Linked(FileCert); got != want {
			t.Errorf("linked to %s: %v", target, got)
		}
	}
	if s.Linked(FileKey) {
		t.Error("a file that is not there is linked")
	}
}

// TestPendingKeys: a key is used again for as long as the platform takes it for a repetition, whichever way the clock
// went, if it can be read.
func TestPendingKeys(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	now := time.Now().Truncate(time.Second)
	path := filepath.Join(s.Dir, generations, pendingKey)
	_, edwards, err := ed25519.GenerateKey(nil)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(edwards)
	must(t, err)
	for name, tc := range map[string]struct {
		age  time.Duration
		text []byte
		same bool
	}{
		"new": {0, nil, true}, "almost old": {2*time.Minute - 1, nil, true}, "old": {2 * time.Minute, nil, false},
		"from the future": {1 - 2*time.Minute, nil, true}, "from a far future": {-2 * time.Minute, nil, false},
		"torn": {0, []byte("x"), false}, "no key": {0, pem.EncodeToMemory(&pem.Block{Type: "X", Bytes: []byte("x")}), false},
		"another kind of key": {0, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), false},
	} {
		_ = os.Remove(path)
		first, text, err := s.Key(now)
		must(t, err)
		if tc.text != nil {
			must(t, os.WriteFile(path, tc.text, 0o600))
		}
		must(t, os.Chtimes(path, now, now))
		again, textAgain, err := s.Key(now.Add(tc.age))
		must(t, err)
		same := first.Public().(*ecdsa.PublicKey).Equal(again.Public())
		if same != tc.same || (string(text) == string(textAgain)) != tc.same {
			t.Errorf("%s: the same key %v, want %v", name, same, tc.same)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
}

// TestWhatIsKept: the previous generation stays, however old it is; a set without a bundle keeps the existing one, and
// files that lie at plain paths get another name only if they are others.
func TestWhatIsKept(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	put(t, s, 3)
	oldest := s.Names()[0]
	must(t, s.activate(oldest))
	_, err := s.Put(newSet(t, 4))
	must(t, err)
	if names := s.Names(); len(names) != 4 || names[0] != oldest {
		t.Errorf("%v, want %s among them", names, oldest)
	}
	if _, err := s.Put(newSet(t, 5)); err != nil || len(s.Names()) != 3 {
		t.Errorf("%v, %v", s.Names(), err)
	}

	s = Store{Dir: t.TempDir()}
	first, bare := newSet(t, 1), newSet(t, 2)
	must(t, os.WriteFile(s.Path(FileBundle), first.Bundle, 0o600)) // as a bootstrap leaves it, without a certificate
	bare.Bundle = nil
	_, err = s.Put(bare)
	must(t, err)
	if text, err := os.ReadFile(s.Path(FileBundle)); err != nil || string(text) != string(first.Bundle) {
		t.Errorf("the bundle: %q, %v", text, err)
	}
	name, _, _ := s.Current()
	if _, err := os.Stat(filepath.Join(s.generation(name), FileBundle)); err == nil || len(s.Names()) != 1 {
		t.Errorf("a generation has a bundle that it did not get: %v", s.Names())
	}

	s = Store{Dir: t.TempDir()}
	putPlain(t, s.Dir, first)
	_, err = s.Put(newSet(t, 3))
	must(t, err)
	if _, meta, _ := s.Current(); meta.Previous == "" || len(s.Names()) != 2 {
		t.Errorf("the plain files became no generation: %v", s.Names())
	}
	for _, file := range []string{FileCert, FileKey, FileBundle} {
		if _, err := os.Lstat(s.Path(file) + ".replaced"); err == nil {
			t.Errorf("%s is kept twice", file)
		}
	}
}

// TestMigration: plain files that are a pair become a generation, once, with what is known of them.
func TestMigration(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if did, err := s.Migrate(); did || err != nil {
		t.Errorf("an empty folder: %v, %v", did, err)
	}
	putPlain(t, s.Dir, newSet(t, 1))
	must(t, os.WriteFile(s.Path("generation"), []byte("41\n"), 0o600))
	when := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	must(t, os.Chtimes(s.Path(FileCert), when, when))
	did, err := s.Migrate()
	_, meta, ok := s.Current()
	if !did || err != nil || !ok || meta != (Meta{Generation: 41, IssuedAt: when, Origin: "migrated"}) {
		t.Errorf("%v, %v, %+v", did, err, meta)
	}
	if did, err := s.Migrate(); did || err != nil || len(s.Names()) != 1 {
		t.Errorf("twice: %v, %v, %v", did, err, s.Names())
	}
	mine := newSet(t, 9)
	putPlain(t, s.Dir, mine)
	_, err = s.Put(newSet(t, 2))
	must(t, err)
	adopted, err := s.meta(s.Names()[1])
	if err != nil || adopted.Generation != 41 || adopted.Origin != "replaced" || len(s.Names()) != 3 {
		t.Errorf("an operator's own files: %+v, %v, %v", adopted, s.Names(), err)
	}
}

// TestForwardNeedsAll: a newer generation, whose key is pending, and which is good.
func TestForwardNeedsAll(t *testing.T) {
	never := func(tls.Certificate) bool { return false }
	for name, tc := range map[string]struct {
		change func(s Store, sets []Set)
		good   func(tls.Certificate) bool
		want   bool
	}{
		"all":                   {func(Store, []Set) {}, anyPair, true},
		"it is current already": {func(s Store, _ []Set) { must(t, s.activate(s.Names()[1])) }, anyPair, false},
		"another key": {func(s Store, sets []Set) {
			must(t, os.WriteFile(filepath.Join(s.Dir, generations, pendingKey), sets[0].Key, 0o600))
		}, anyPair, false},
		"no key": {func(s Store, _ []Set) { must(t, os.Remove(filepath.Join(s.Dir, generations, pendingKey))) },
			anyPair, false},
		"not for this node": {func(Store, []Set) {}, never, false},
		"damaged": {func(s Store, _ []Set) {
			must(t, os.WriteFile(filepath.Join(s.generation(s.Names()[1]), FileCert), nil, 0o600))
		}, anyPair, false},
		"no link yet": {func(s Store, _ []Set) { must(t, os.Remove(s.Path(current))) }, anyPair, true},
	} {
		s := Store{Dir: t.TempDir()}
		sets := put(t, s, 2)
		must(t, s.activate(s.Names()[0]))
		must(t, os.WriteFile(filepath.Join(s.Dir, generations, pendingKey), sets[1].Key, 0o600))
		tc.change(s, sets)
		got, err := s.CompleteEnrollment(tc.good)
		if err != nil || (got == s.Names()[1]) != tc.want || (got != "") != tc.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestSpareIsWhereBackGoes: the newest generation that is good.
func TestSpareIsWhereBackGoes(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	put(t, s, 3)
	names := s.Names()
	for most, want := range map[int64]string{3: names[2], 2: names[1], 1: names[0], 0: ""} {
		good := func(pair tls.Certificate) bool { return pair.Leaf.SerialNumber.Int64() <= most }
		if got := s.RollbackTarget(good); got != want {
			t.Errorf("good up to %d: %q, want %q", most, got, want)
		}
		if got, err := s.RollBack(good); got != want || err != nil {
			t.Errorf("back, good up to %d: %q, %v, want %q", most, got, err, want)
		}
	}
	must(t, os.WriteFile(filepath.Join(s.generation(names[2]), FileCert), []byte("x"), 0o600))
	if got := s.RollbackTarget(anyPair); got != names[1] {
		t.Errorf("the newest is damaged: %q", got)
	}
	for _, name := range names { // no bundle anywhere
		must(t, os.Remove(filepath.Join(s.generation(name), FileBundle)))
	}
	if got, err := s.RollBack(anyPair); got != names[1] || err != nil || len(s.Names()) != 3 {
		t.Errorf("nothing to repair a bundle with: %q, %v, %v", got, err, s.Names())
	}
}

// TestRoots: a bundle is a file with a certificate.
func TestRoots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b")
	if _, err := Roots(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	if pool, err := Roots(path); err == nil || pool != nil {
		t.Errorf("no certificate: %v", err)
	}
	must(t, os.WriteFile(path, newSet(t, 1).Bundle, 0o600))
	if pool, err := Roots(path); err != nil || pool == nil {
		t.Errorf("a certificate: %v", err)
	}
}
