package credstore

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newSet is a usable set; its bundle is the certificate itself.
func newSet(t testing.TB, serial int64) Set {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "n"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return Set{Cert: cert, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), Bundle: cert,
		Meta: Meta{Generation: serial, Origin: "enrolled"}}
}

func putPlain(t testing.TB, dir string, set Set) {
	t.Helper()
	must(t, durable.Replace(filepath.Join(dir, FileCert), set.Cert, 0o644))
	must(t, durable.Replace(filepath.Join(dir, FileKey), set.Key, 0o600))
	must(t, durable.Replace(filepath.Join(dir, FileBundle), set.Bundle, 0o644))
}

func anyPair(tls.Certificate) bool { return true }

// serial reads the certificate's serial at the plain paths; 0 if they are not a usable set.
func serial(t testing.TB, dir string) int64 {
	t.Helper()
	s := Store{Dir: dir}
	pair, err := s.Pair()
	if err != nil {
		return 0
	}
	bundle, err := os.ReadFile(s.Path(FileBundle))
	must(t, err)
	cert, err := os.ReadFile(s.Path(FileCert))
	must(t, err)
	if !bytes.Equal(bundle, cert) {
		t.Errorf("the certificate is of one set and the bundle of another")
	}
	return pair.Leaf.SerialNumber.Int64()
}

var errPowerOff = errors.New("the machine is gone")

// crashing fails the nth change and everything after it.
func crashing(dir string, n int) (Store, *int) {
	done := new(int)
	return Store{Dir: dir, FS: durable.Host{Before: func(string, string) error {
		if *done++; *done > n {
			return errPowerOff
		}
		return nil
	}}}, done
}

// TestCrashAtEveryChange interrupts each operation before each of its changes to the disk, by a crash and by a
// single error, and expects a usable set at the plain paths, and the final one after the next start.
func TestCrashAtEveryChange(t *testing.T) {
	first, second, mine := newSet(t, 1), newSet(t, 2), newSet(t, 9)
	for name, tc := range map[string]struct {
		prepare func(dir string)
		do      func(Store) error
		allowed []int64 // serials at the plain paths after the cut
		after   int64   // once it was done without a cut
	}{
		"migrate": {
			prepare: func(dir string) { putPlain(t, dir, first) },
			do:      func(s Store) error { _, err := s.Migrate(); return err },
			allowed: []int64{1}, after: 1,
		},
		"switch": {
			prepare: func(dir string) { _, err := Store{Dir: dir}.Put(first); must(t, err) },
			do:      func(s Store) error { _, err := s.Put(second); return err },
			allowed: []int64{1, 2}, after: 2,
		},
		"switch away from an operator's own files": {
			prepare: func(dir string) {
				_, err := Store{Dir: dir}.Put(first)
				must(t, err)
				putPlain(t, dir, mine)
			},
			do:      func(s Store) error { _, err := s.Put(second); return err },
			allowed: []int64{9, 2}, after: 2,
		},
		"the first of all": {
			prepare: func(dir string) { must(t, durable.Replace(filepath.Join(dir, FileBundle), first.Bundle, 0o644)) },
			do:      func(s Store) error { _, err := s.Put(first); return err },
			allowed: []int64{0, 1}, after: 1,
		},
		"back to the one before": {
			prepare: func(dir string) {
				s := Store{Dir: dir}
				_, err := s.Put(first)
				must(t, err)
				_, err = s.Put(second)
				must(t, err)
				must(t, os.WriteFile(s.Path(FileKey), nil, 0o600))
			},
			do:      func(s Store) error { _, err := s.RollBack(anyPair); return err },
			allowed: []int64{0, 1}, after: 1,
		},
	} {
		for _, how := range []string{"crash", "full disk"} {
			t.Run(name+", "+how, func(t *testing.T) {
				for n := 0; ; n++ {
					dir := t.TempDir()
					tc.prepare(dir)
					s, done := crashing(dir, n)
					failed := new(string)
					if how == "full disk" {
						s, done, failed = failing(dir, n)
					}
					result := tc.do(s)
					got := serial(t, dir)
					if !contains(tc.allowed, got) {
						t.Fatalf("cut before change %d: the plain paths lead to %d", n, got)
					}
					if *done <= n { // it was not cut
						if result != nil || got != tc.after {
							t.Fatalf("uncut: %v, serial %d", result, got)
						}
						return
					}
					if how == "full disk" && (result == nil) != onlyCleans(*failed) {
						t.Errorf("change %d, %q fails: %v", n, *failed, result)
					}
					restart(t, dir, tc.do, tc.after)
				}
			})
		}
	}
}

// restart does what the agent does at its next start, and then repeats the interrupted operation.
func restart(t *testing.T, dir string, do func(Store) error, after int64) {
	t.Helper()
	s := Store{Dir: dir}
	if _, err := s.CompleteEnrollment(anyPair); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pair(); err != nil {
		if _, err := s.RollBack(anyPair); err != nil {
			t.Fatal(err)
		}
	}
	must(t, do(s))
	if got := serial(t, dir); got != after {
		t.Fatalf("after a restart: %d, want %d", got, after)
	}
}

func contains(list []int64, v int64) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

func TestGenerationsAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: dir}
	for i := range int64(6) {
		_, err := s.Put(newSet(t, i+1))
		must(t, err)
	}
	if names := s.Names(); len(names) != keep || serial(t, dir) != 6 {
		t.Errorf("%v, serial %d", names, serial(t, dir))
	}
	name, meta, ok := s.Current()
	if !ok || meta.Generation != 6 || meta.Previous == "" || number(meta.Previous) != number(name)-1 {
		t.Errorf("%s %+v", name, meta)
	}
	if fi, err := os.Stat(s.Path(FileKey)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("key: %v %v", fi, err)
	}
}

func TestBack(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(s Store) error
		want   int64
	}{
		"an empty certificate":      {func(s Store) error { return os.WriteFile(s.Path(FileCert), nil, 0o644) }, 2},
		"a key cut short":           {func(s Store) error { return os.Truncate(s.Path(FileKey), 40) }, 2},
		"a lost link is not a loss": {func(s Store) error { return os.Remove(s.Path(FileKey)) }, 3},
		"the whole generation": {func(s Store) error { n, _, _ := s.Current(); return os.RemoveAll(s.generation(n)) },
			2},
		"a lost switch":           {func(s Store) error { return os.Remove(s.Path(current)) }, 3},
		"somebody's useless file": {func(s Store) error { return durable.Replace(s.Path(FileKey), []byte("x"), 0o600) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := Store{Dir: t.TempDir()}
			for i := range int64(3) {
				_, err := s.Put(newSet(t, i+1))
				must(t, err)
			}
			must(t, tc.damage(s))
			if _, err := s.Pair(); err == nil {
				t.Fatal("it is not damaged")
			}
			_, err := s.RollBack(anyPair)
			must(t, err)
			if got := serial(t, s.Dir); got != tc.want {
				t.Errorf("serial %d, want %d", got, tc.want)
			}
		})
	}
	s := Store{Dir: t.TempDir()}
	_, err := s.Put(newSet(t, 1))
	must(t, err)
	if name, err := s.RollBack(func(tls.Certificate) bool { return false }); name != "" || err != nil {
		t.Errorf("%q %v", name, err)
	}
}

func TestBackRepairsTheBundleOnly(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	_, err := s.Put(newSet(t, 1))
	must(t, err)
	_, err = s.Put(newSet(t, 2))
	must(t, err)
	must(t, os.WriteFile(s.Path(FileBundle), nil, 0o644))
	_, err = s.RollBack(anyPair)
	must(t, err)
	pair, err := s.Pair()
	must(t, err)
	if _, err := Roots(s.Path(FileBundle)); err != nil || pair.Leaf.SerialNumber.Int64() != 2 {
		t.Errorf("serial %v, bundle %v", pair.Leaf.SerialNumber, err)
	}
}

func TestOperatorsFileStaysBeside(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	_, err := s.Put(newSet(t, 1))
	must(t, err)
	must(t, durable.Replace(s.Path(FileKey), []byte("half a rotation"), 0o600))
	_, err = s.RollBack(anyPair)
	must(t, err)
	if text, _ := os.ReadFile(s.Path(FileKey) + ".replaced"); string(text) != "half a rotation" {
		t.Errorf("%q", text)
	}
}

func TestKey(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	now := time.Now()
	same := func(a, b crypto.Signer) bool { return a.Public().(*ecdsa.PublicKey).Equal(b.Public()) }
	first, text, err := s.Key(now)
	must(t, err)
	again, _, err := s.Key(now.Add(time.Minute))
	must(t, err)
	later, _, err := s.Key(now.Add(2 * repeatFor)) // its age counts from its creation
	must(t, err)
	if !same(first, again) || same(first, later) || len(text) == 0 {
		t.Error(fmt.Sprint("a lost answer must find the same key, a later generation another: ", same(first, again),
			same(first, later)))
	}
	_, err = s.Put(newSet(t, 1))
	must(t, err)
	if fresh, _, err := s.Key(now); err != nil || same(fresh, later) {
		t.Errorf("the key of a generation was handed out again: %v", err)
	}
}

func TestForward(t *testing.T) {
	for name, waits := range map[string]bool{"an enrollment was cut off": true, "somebody went back by hand": false} {
		t.Run(name, func(t *testing.T) {
			s := Store{Dir: t.TempDir()}
			_, err := s.Put(newSet(t, 1))
			must(t, err)
			older, _, _ := s.Current()
			second := newSet(t, 2)
			_, err = s.Put(second)
			must(t, err)
			must(t, s.activate(older))
			want := int64(1)
			if waits {
				must(t, os.WriteFile(filepath.Join(s.Dir, generations, pendingKey), second.Key, 0o600))
				want = 2
			}
			_, err = s.CompleteEnrollment(anyPair)
			must(t, err)
			if got := serial(t, s.Dir); got != want {
				t.Errorf("serial %d, want %d", got, want)
			}
		})
	}
}

// TestADirectoryInTheWay: a directory at a plain path, such as a mount point, is moved aside, and costs no
// certificate.
func TestADirectoryInTheWay(t *testing.T) {
	for _, name := range []string{FileCert, current} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := Store{Dir: dir}
			if _, err := s.Put(newSet(t, 1)); err != nil {
				t.Fatal(err)
			}
			for n := range int64(2) { // twice: the first directory that was moved aside blocks no path
				must(t, os.Remove(s.Path(name)))
				must(t, os.MkdirAll(filepath.Join(s.Path(name), "x"), 0o755))
				if _, err := s.RollBack(anyPair); err != nil || serial(t, dir) != n+1 {
					t.Errorf("back: %v, serial %d", err, serial(t, dir))
				}
				must(t, os.Remove(s.Path(name)))
				must(t, os.Mkdir(s.Path(name), 0o755))
				if _, err := s.Put(newSet(t, n+2)); err != nil || serial(t, dir) != n+2 {
					t.Errorf("put: %v, serial %d", err, serial(t, dir))
				}
			}
		})
	}
}
