package vantage

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// sshd is OpenSSH's server, run for a test on address, in a mount namespace with its own /run (noexec, as on the lab's
// machines) and an empty home.
type sshd struct {
	cfg NodeConfig
	cmd *exec.Cmd
	log *bytes.Buffer
}

// startSSHD runs sshd on host, on a free port. It skips the test without sshd or without root.
func startSSHD(t testing.TB, host string, extra ...string) *sshd {
	t.Helper()
	tier.NeedsHost(t)
	program := "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		t.Skip("needs OpenSSH's sshd")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to own a mount namespace")
	}
	dir := t.TempDir()
	hostKey, hostPub := newKeyPair(t)
	block, err := ssh.MarshalPrivateKey(hostKey, "")
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(dir, "host_key")
	id, pub := identity(t)
	port := freePort(t, host)
	conf := strings.Join(extra, "\n") + fmt.Sprintf( // the first value counts
		"\nListenAddress %s\nPort %d\nHostKey %s\nAuthorizedKeysFile %s\nUsePAM no\nPermitRootLogin yes\nStrictModes "+
			"no\nPidFile none\nUseDNS no\n",
		host, port, keyFile, filepath.Join(dir, "authorized"))
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	users = append(users, "\nnoshell:x:0:0::/root:/bin/nosuch\n"...)
	for name, b := range map[string][]byte{"host_key": pem.EncodeToMemory(block), "passwd": users,
		"authorized": ssh.MarshalAuthorizedKey(pub), "sshd_config": []byte(conf)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := &sshd{log: &bytes.Buffer{}}
	d.cmd = exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c",
		`mount --bind "$0" /etc/passwd && mount -t tmpfs -o noexec tmpfs /run && mount -t tmpfs tmpfs /root &&
		mkdir -p /run/sshd && exec "$@"`, filepath.Join(dir, "passwd"), program, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	d.cmd.WaitDelay = time.Second
	if err := d.cmd.Start(); err != nil {
		t.Skip("no mount namespace here: ", err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		if t.Failed() {
			t.Logf("sshd said: %s", d.log)
		}
	})
	d.cfg = NodeConfig{
		ID: "node-1", Host: host, ConfigFile: "none", AgentSocket: "none", ConnectTimeout: 30 * time.Second,
		HelloTimeout: 30 * time.Second,
		SSH: profile.SSH{User: "root", Port: port, Identity: id, KnownHosts: writeFile(t, "known_hosts",
			[]byte(knownhosts.Line([]string{net.JoinHostPort(host, strconv.Itoa(port))}, hostPub)+"\n"))},
		HelperDirs: ours(t), Agent: profile.Agent{Binary: sshtest.Helper(t), Unit: "none.service", EnvFile: "/nonexistent"},
	}
	_ = waitForBanner(t, net.JoinHostPort(host, strconv.Itoa(port))).Close()
	return d
}

// freePort returns a free port below the ephemeral range, so the kernel gives it to no other test before sshd binds it.
func freePort(t testing.TB, host string) int {
	t.Helper()
	tier.NeedsHost(t)
	for {
		port := 15_000 + rand.IntN(15_000)
		if ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			_ = ln.Close()
			return port
		} else if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// waitForBanner returns a connection on which the server has begun its banner.
func waitForBanner(t testing.TB, address string) net.Conn {
	t.Helper()
	tier.NeedsHost(t)
	var conn net.Conn
	wait.For(t, "sshd begins its banner", func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		word := make([]byte, 4)
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
		if _, err := io.ReadFull(c, word); err != nil || string(word) != "SSH-" {
			_ = c.Close()
			return false
		}
		conn = c
		return true
	})
	return conn
}

func TestOpenSSH(t *testing.T) {
	d := startSSHD(t, "127.0.0.1")
	n := open(t, d.cfg)
	facts := n.Probe(within(t, 2*time.Minute),
		[]diag.Request{{Op: diag.OpSSH}, {Op: diag.OpClock}, {Op: diag.OpDisk, Target: "/"}})
	for _, f := range facts {
		if f.Failure != diag.OK {
			t.Errorf("%s: %q at %s: %s", f.Request.Op, f.Failure, f.Phase, f.Detail)
		}
	}
	t.Logf("%+v", *facts[0].SSH)
}

func TestOpenSSHPush(t *testing.T) {
	d := startSSHD(t, "127.0.0.1")
	d.cfg.Agent.Binary, d.cfg.HelperDirs = "/nonexistent", ours(t)
	n := open(t, d.cfg)
	ctx := within(t, 2*time.Minute)
	f := loginFact(ctx, n)
	if f.Failure != diag.OK || f.SSH.Helper != "pushed" || f.SSH.HelperPath[:len(pushDir)] != pushDir {
		t.Fatalf("%q at %s: %s %+v", f.Failure, f.Phase, f.Detail, f.SSH)
	}
	if err := n.Remove(ctx); err != nil {
		t.Error(err)
	}
}

func TestOpenSSHRefuses(t *testing.T) {
	d := startSSHD(t, "127.0.0.1", "MaxStartups 1:100:1")
	// An unfinished login takes the only slot.
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(d.cfg.SSH.Port))
	c := waitForBanner(t, address)
	defer c.Close()
	wantFailure(t, loginFact(within(t, 2*time.Minute), open(t, d.cfg)), diag.SSHPenalty, "banner")
	_ = c.Close()

	d.cfg.SSH.Identity, _ = identity(t)
	ctx := within(t, 2*time.Minute)
	f := loginFact(ctx, open(t, d.cfg))
	for f.Failure == diag.SSHPenalty { // until the server notices that the slot is free
		f = loginFact(ctx, open(t, d.cfg))
	}
	wantFailure(t, f, diag.SSHAuth, "auth")
}

// TestOpenSSHRefusesTheUser: sshd refuses a user with a good key as it refuses a bad key; and it may accept a key that
// alone is not enough.
func TestOpenSSHRefusesTheUser(t *testing.T) {
	const refused, accepted = "or it does not admit the user", "the server accepts the key"
	for name, c := range map[string]struct{ user, conf, text string }{
		"no shell":         {"noshell", "", refused},
		"not allowed":      {"root", "AllowUsers nobody", refused},
		"root not allowed": {"root", "PermitRootLogin no", accepted},
		"two factors":      {"root", "AuthenticationMethods publickey,password", accepted},
		"a prompt as well": {"root", "AuthenticationMethods publickey,keyboard-interactive", accepted},
	} {
		t.Run(name, func(t *testing.T) {
			d := startSSHD(t, "127.0.0.1", c.conf)
			d.cfg.SSH.User = c.user
			f := loginFact(within(t, 2*time.Minute), open(t, d.cfg))
			wantFailure(t, f, diag.SSHAuth, "auth")
			if !strings.Contains(f.Detail, c.text) || (f.SSH.AuthMethod != "") != (c.text == accepted) {
				t.Errorf("detail %q, method %q", f.Detail, f.SSH.AuthMethod)
			}
		})
	}
}
