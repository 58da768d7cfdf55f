package vantage

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

func TestUnknownHostKeyThenTrusted(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	cfg := configFor(t, s)
	cfg.SSH.KnownHosts = filepath.Join(t.TempDir(), "ssh", "known_hosts")
	ctx := within(t, 30*time.Second)
	f := loginFact(ctx, open(t, cfg))
	wantFailure(t, f, diag.SSHHostKeyUnknown, "host_key")
	sum := ssh.FingerprintSHA256(s.HostKey.PublicKey())
	for _, want := range []string{sum, "gpuaasctl ssh trust node-1", "does not exist"} {
		if !strings.Contains(f.Detail, want) {
			t.Errorf("detail %q does not say %q", f.Detail, want)
		}
	}
	if f.SSH == nil || f.SSH.HostKeySHA256 != sum {
		t.Errorf("the fact does not name the key: %+v", f.SSH)
	}

	got, line, err := AcceptHostKey(ctx, cfg)
	if err != nil || got != sum {
		t.Fatalf("looking at the key: %q %v", got, err)
	}
	if _, err := os.Stat(cfg.SSH.KnownHosts); err == nil {
		t.Error("looking at the key wrote a file")
	}
	trusted, err := TrustFirstKey(ctx, cfg)
	if err != nil || trusted.Fingerprint != sum || trusted.Line != line || trusted.Already ||
		trusted.File != cfg.SSH.KnownHosts {
		t.Fatalf("%+v %v", trusted, err)
	}
	st, err := os.Stat(cfg.SSH.KnownHosts)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", st, err)
	}
	if f := loginFact(ctx, open(t, cfg)); f.Failure != diag.OK {
		t.Errorf("after trust: %q %s", f.Failure, f.Detail)
	}
	if again, err := TrustFirstKey(ctx, cfg); err != nil || !again.Already {
		t.Errorf("trusting twice: %+v %v", again, err)
	}
	if b, _ := os.ReadFile(cfg.SSH.KnownHosts); strings.Count(string(b), "\n") != 1 {
		t.Errorf("the file holds %q", b)
	}
}

func TestChangedHostKeyIsNeverReplaced(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	cfg := configFor(t, s)
	other := sshtest.NewKey(t).PublicKey()
	text := knownhosts.Line([]string{s.Addr}, other) + "\n"
	cfg.SSH.KnownHosts = writeFile(t, "known_hosts", []byte(text))
	ctx := within(t, 30*time.Second)
	f := loginFact(ctx, open(t, cfg))
	wantFailure(t, f, diag.SSHHostKey, "host_key")
	for _, want := range []string{"CHANGED", ssh.FingerprintSHA256(other), ssh.FingerprintSHA256(s.HostKey.PublicKey()),
		"ssh-keygen"} {
		if !strings.Contains(f.Detail, want) {
			t.Errorf("detail %q does not say %q", f.Detail, want)
		}
	}
	if _, err := TrustFirstKey(ctx, cfg); err == nil {
		t.Error("a changed key was accepted")
	}
	if b, _ := os.ReadFile(cfg.SSH.KnownHosts); string(b) != text {
		t.Errorf("the file was changed to %q", b)
	}
}

func TestRevokedHostKey(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	cfg := configFor(t, s)
	line := knownhosts.Line([]string{s.Addr}, s.HostKey.PublicKey())
	cfg.SSH.KnownHosts = writeFile(t, "known_hosts", []byte(line+"\n@revoked "+line+"\n"))
	f := loginFact(within(t, 30*time.Second), open(t, cfg))
	wantFailure(t, f, diag.SSHHostKey, "host_key")
	if _, err := TrustFirstKey(within(t, 30*time.Second), cfg); err == nil {
		t.Error("a revoked key was accepted")
	}
}

// A server has two keys, and the file has the one that we would not prefer.
func TestTheKnownKeyTypeIsAskedFor(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s := sshtest.Start(t, sshtest.Config{HostKeys: []ssh.Signer{ec, sshtest.NewKey(t)}})
	f := loginFact(within(t, 30*time.Second), open(t, configFor(t, s)))
	if f.Failure != diag.OK || f.SSH.HostKeyType != ssh.KeyAlgoECDSA256 {
		t.Errorf("%q %s %+v", f.Failure, f.Detail, f.SSH)
	}
	gone := sshtest.Start(t, sshtest.Config{})
	cfg := configFor(t, gone)
	cfg.SSH.KnownHosts = writeFile(t, "known_hosts", []byte(knownhosts.Line([]string{gone.Addr}, ec.PublicKey())+"\n"))
	wantFailure(t, loginFact(within(t, 30*time.Second), open(t, cfg)), diag.SSHHostKey, "host_key")
}

func TestAppendKnownHostKeepsWhatIsThere(t *testing.T) {
	file := writeFile(t, "known_hosts", []byte("# no newline"))
	for range 2 {
		if err := appendKnownHost(file, "host ssh-ed25519 AAAA"); err != nil {
			t.Fatal(err)
		}
	}
	if b, _ := os.ReadFile(file); string(b) != "# no newline\nhost ssh-ed25519 AAAA\n" {
		t.Errorf("got %q", b)
	}
}

// TestForeignSSHFilesAreNotUsed: who can write a profile's known_hosts chooses which host key is accepted.
func TestForeignSSHFilesAreNotUsed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	s := sshtest.Start(t, sshtest.Config{Env: newMachine(t).env()})
	for name, spoil := range map[string]func(file string) error{
		"writable by all":    func(file string) error { return os.Chmod(file, 0o666) },
		"in a folder of all": func(file string) error { return os.Chmod(filepath.Dir(file), 0o777) },
		"another user's":     func(file string) error { return os.Chown(file, 65534, -1) },
	} {
		for key, file := range map[string]func(*profile.SSH) *string{
			"known_hosts": func(s *profile.SSH) *string { return &s.KnownHosts },
			"identity":    func(s *profile.SSH) *string { return &s.Identity },
		} {
			t.Run(key+" "+name, func(t *testing.T) {
				cfg := configFor(t, s)
				at := file(&cfg.SSH)
				b, err := os.ReadFile(*at)
				if err != nil {
					t.Fatal(err)
				}
				*at = writeFile(t, key, b)
				if err := CheckFiles(cfg.SSH); err != nil {
					t.Fatal(err)
				}
				if err := spoil(*at); err != nil {
					t.Fatal(err)
				}
				if err := CheckFiles(cfg.SSH); err == nil || !strings.HasPrefix(err.Error(), "ssh."+key+": ") {
					t.Errorf("%v", err)
				}
				if f := loginFact(within(t, time.Minute), open(t, cfg)); f.Failure == diag.OK {
					t.Error("the login used it")
				}
			})
		}
	}
}
