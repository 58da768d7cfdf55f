package vantage

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// beside is a folder with keys and some servers, where the ssh program and this package do the same logins.
type beside struct {
	dir   string
	ports map[string]string // of the servers by name
	agent map[string]string // sockets: one with the key, one with another key
}

// newBeside makes the keys and starts the servers. It skips the test without OpenSSH.
func newBeside(t *testing.T) *beside {
	t.Helper()
	tier.NeedsHost(t)
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		t.Skip("needs OpenSSH's sshd")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to own a mount namespace")
	}
	b := &beside{dir: t.TempDir(), ports: map[string]string{}, agent: map[string]string{}}
	b.sh(t, `umask 077
	for k in id other locked ca host host2 fido; do ssh-keygen -q -t ed25519 -N '' -C $k -f $k; done
	ssh-keygen -q -p -P '' -N secret -f locked
	ssh-keygen -q -t rsa -b 2048 -N '' -f rsa; ssh-keygen -q -t rsa -b 2048 -N '' -f hostrsa
	ssh-keygen -q -t ecdsa -N '' -f hostec
	cp host certhost; cp host.pub certhost.pub
	ssh-keygen -q -s ca -h -I host -n 127.0.0.1,gpu-a.lab.test certhost.pub
	cp id certid; cp id.pub certid.pub; ssh-keygen -q -s ca -I me -n root certid.pub; rm -f id-cert.pub
	cp id oldid; cp id.pub oldid.pub; ssh-keygen -q -s ca -I me -n root -V 20200101:20200201 oldid.pub
	cp rsa certrsa; cp rsa.pub certrsa.pub; ssh-keygen -q -s ca -I me -n root certrsa.pub
	ssh-keygen -q -k -f krl host.pub; ssh-keygen -q -k -f krlother other.pub
	printf 'id: host\n' >spec; ssh-keygen -q -k -s ca.pub -f krlid spec
	cp id open; chmod 0644 open; cp id.pub open.pub
	cp host.pub revoked; cp other.pub revokedother; echo garbage >revokedbad
	cat id.pub rsa.pub >authorized; echo nobody >none`)
	b.start(t, "plain", "HostKey host", "AuthorizedKeysFile authorized")
	b.start(t, "many", "HostKey host\nHostKey hostrsa\nHostKey hostec", "AuthorizedKeysFile authorized")
	b.start(t, "rsa", "HostKey hostrsa", "AuthorizedKeysFile authorized")
	b.start(t, "sntrup", "HostKey host", "AuthorizedKeysFile authorized",
		"KexAlgorithms sntrup761x25519-sha512@openssh.com")
	b.start(t, "group18", "HostKey host", "AuthorizedKeysFile authorized", "KexAlgorithms diffie-hellman-group18-sha512")
	b.start(t, "gex", "HostKey host", "AuthorizedKeysFile authorized",
		"KexAlgorithms diffie-hellman-group-exchange-sha256")
	b.start(t, "umac", "HostKey host", "AuthorizedKeysFile authorized", "MACs umac-64@openssh.com", "Ciphers aes128-ctr")
	b.start(t, "cbc", "HostKey host", "AuthorizedKeysFile authorized", "Ciphers aes128-cbc")
	b.start(t, "old", "HostKey hostrsa", "AuthorizedKeysFile authorized", "KexAlgorithms diffie-hellman-group14-sha1",
		"HostKeyAlgorithms ssh-rsa", "PubkeyAcceptedAlgorithms ssh-rsa,ssh-ed25519")
	b.start(t, "cert", "HostKey certhost\nHostCertificate certhost-cert.pub", "AuthorizedKeysFile authorized")
	b.start(t, "userca", "HostKey host", "AuthorizedKeysFile none", "TrustedUserCAKeys ca.pub")
	b.start(t, "bound", "HostKey host", "AuthorizedKeysFile authorized", "AllowUsers root@127.0.0.9")
	b.agent["good"] = serveAgent(t, b.key(t, "id"))
	b.agent["wrong"] = serveAgent(t, b.key(t, "other"))
	return b
}

// sh runs a script in the folder.
func (b *beside) sh(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (b *beside) key(t *testing.T, name string) any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// start runs sshd on a free port with files of the folder.
func (b *beside) start(t *testing.T, name string, conf ...string) {
	t.Helper()
	port := freePort(t, "127.0.0.1")
	text := strings.Join(conf, "\n") + fmt.Sprintf("\nListenAddress 127.0.0.1\nPort %d\n"+
		"UsePAM no\nPidFile none\nUseDNS no\n"+
		"PermitRootLogin yes\nStrictModes no\nMaxStartups 100\nLogLevel VERBOSE\n", port)
	for _, word := range []string{"HostKey ", "HostCertificate ", "AuthorizedKeysFile ", "TrustedUserCAKeys "} {
		text = strings.ReplaceAll(text, word, word+b.dir+"/")
	}
	text = strings.ReplaceAll(text, b.dir+"/none\n", "none\n")
	file := filepath.Join(b.dir, "sshd_"+name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c",
		`mount -t tmpfs tmpfs /run && mkdir -p /run/sshd && exec "$@"`, "sh", "/usr/sbin/sshd", "-D", "-e", "-f", file)
	log := &kept{}
	log.head.Most = 64 << 10
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = log, log, time.Second
	if err := cmd.Start(); err != nil {
		t.Skip("no mount namespace here: ", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, log)
		}
	})
	b.ports[name] = strconv.Itoa(port)
	_ = waitForBanner(t, net.JoinHostPort("127.0.0.1", b.ports[name])).Close()
}

// fill replaces DIR, the ports of servers (PORT:name), their known keys and the sockets of agents in a text.
func (b *beside) fill(t *testing.T, text string) string {
	t.Helper()
	pairs := []string{"DIR", b.dir}
	for name, port := range b.ports {
		pairs = append(pairs, "PORT:"+name+";", port)
	}
	for name, socket := range b.agent {
		pairs = append(pairs, "AGENT:"+name, socket)
	}
	for _, key := range []string{"id", "other", "ca", "host", "host2", "hostrsa", "hostec"} {
		text2, err := os.ReadFile(filepath.Join(b.dir, key+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(text2))
		pairs = append(pairs, "KEY:"+key+";", fields[0]+" "+fields[1])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// setup is one way to be configured.
type setup struct {
	server string            // default plain
	config string            // of Host node, without its name
	raw    string            // the whole ssh_config instead
	known  string            // known_hosts; default: the key of the server
	files  map[string]string // further files, with the mode 0755 if they begin with #!
	env    []string          // NAME=value
	host   string            // default node
	works  bool              // what both do
}

// TestBesideOpenSSH: where the ssh program logs in, so does this package, or it names what it does not use; where ssh
// refuses, so does this package.
func TestBesideOpenSSH(t *testing.T) {
	tier.NeedsHost(t)
	b := newBeside(t)
	for name, s := range setups {
		t.Run(name, func(t *testing.T) {
			cfg := b.arrange(t, s)
			cmd := exec.CommandContext(within(t, time.Minute), "ssh", "-F", cfg.ConfigFile,
				"-o", "BatchMode=yes", cfg.Host, "true")
			words, err := cmd.CombinedOutput()
			theirs := err == nil
			f := loginFact(within(t, time.Minute), open(t, cfg))
			ours := f.Failure == diag.OK
			switch {
			case theirs != s.works:
				t.Errorf("ssh logs in: %t, want %t: %s", theirs, s.works, words)
			case ours && !theirs:
				t.Errorf("a login that ssh refuses: %s", words)
			case theirs && !ours && !strings.Contains(f.Detail, "not used here") &&
				!strings.Contains(f.Detail, "this program has none"):
				t.Errorf("ssh logs in, and we do not: %s at %s: %s", f.Failure, f.Phase, f.Detail)
			}
			t.Logf("ssh %t, ours %t: %s %v", theirs, ours, f.Detail, f.SSH.NotUsed)
		})
	}
}

// arrange writes the files of a set-up.
func (b *beside) arrange(t *testing.T, s setup) NodeConfig {
	t.Helper()
	dir := t.TempDir()
	if s.server == "" {
		s.server = "plain"
	}
	if s.host == "" {
		s.host = "node"
	}
	if s.known == "" {
		s.known = "[127.0.0.1]:PORT:" + s.server + "; KEY:" + map[string]string{"rsa": "hostrsa", "old": "hostrsa"}[s.server]
		if strings.HasSuffix(s.known, "KEY:") {
			s.known += "host"
		}
		s.known += ";\n"
	}
	text := s.raw
	if text == "" {
		text = "Host node\n" + s.config + "\n  HostName 127.0.0.1\n  Port PORT:" + s.server + ";\n"
	}
	if !strings.Contains(text, "IdentityFile") || s.raw == "" {
		text += "\nHost *\n  IdentityFile DIR/id\n"
	}
	text += "\nHost *\n  IdentityAgent none\n  UserKnownHostsFile HERE/known\n" +
		"  GlobalKnownHostsFile none\n"
	put := func(name, text string) {
		mode := os.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		text = b.fill(t, strings.ReplaceAll(text, "HERE", dir))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("known", s.known)
	put("config", text)
	for name, text := range s.files {
		put(name, text)
	}
	for _, e := range s.env {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, b.fill(t, strings.ReplaceAll(value, "HERE", dir)))
	}
	return NodeConfig{ID: "node", Host: s.host, ConfigFile: filepath.Join(dir, "config"), Bare: true,
		ConnectTimeout: 30 * time.Second, AgentTimeout: 30 * time.Second}
}

// TestKnownHostsBesideOpenSSH: of known_hosts files made of random lines, those that accept the host are the same.
func TestKnownHostsBesideOpenSSH(t *testing.T) {
	tier.NeedsHost(t)
	b := newBeside(t)
	lines := []string{"[127.0.0.1]:PORT:cert; KEY:host;", "[127.0.0.1]:PORT:cert; KEY:host2;",
		"[127.0.0.1]:PORT:cert; KEY:hostrsa;", "127.0.0.1 KEY:host;", "127.0.0.1 KEY:host2;", "@revoked * KEY:host;",
		"@revoked * KEY:host2;", "@revoked [127.0.0.1]:PORT:cert; KEY:ca;", "@cert-authority * KEY:ca;",
		"@cert-authority 127.0.0.1 KEY:ca;", "@cert-authority * KEY:other;", "@cert-authority", "<<<<<<< HEAD", "* KEY:host;",
		"*,![127.0.0.1]:* KEY:host;", "[127.0.0.?]:* KEY:host;", "@foreign * KEY:host;", "@revoked @cert-authority * KEY:ca;",
		"[127.0.0.1]:PORT:cert; ssh-rsa AAAA", "[127.0.0.1]:PORT:cert;", "|1|bad|bad KEY:host;", " \t * KEY:host;",
		"[127.0.0.1]:PORT:cert;,other KEY:host; a comment # more", "#* KEY:host;", "* ssh-rsa " + "AAAAC3NzaC1lZDI1NTE5AAAA"}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range besideRounds {
		var known strings.Builder
		for range 1 + seed%4 {
			seed = seed*6364136223846793005 + 1442695040888963407
			known.WriteString(lines[(seed>>33)%uint64(len(lines))] + "\n")
		}
		cfg := b.arrange(t, setup{server: "cert", known: known.String()})
		theirs := exec.CommandContext(within(t, time.Minute), "ssh", "-F", cfg.ConfigFile, "-o", "BatchMode=yes", "node",
			"true").Run() == nil
		n := NewNode(cfg)
		f := loginFact(within(t, time.Minute), n)
		_ = n.Close()
		if ours := f.Failure == diag.OK; ours != theirs {
			t.Errorf("%d: ssh accepts the host: %t, we: %t (%s), by\n%s", i, theirs, ours, f.Detail, known.String())
		}
	}
}

// besideRounds is how many files TestKnownHostsBesideOpenSSH tries.
const besideRounds = 40
