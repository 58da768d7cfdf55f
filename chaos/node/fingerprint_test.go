//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// insideMark marks a test that runs in separate namespaces.
const insideMark = "GPUAAS_FINGERPRINT_INSIDE"

// plants leave one thing behind, each in another place. key must be in the difference that is found.
func plants() []struct {
	class step.Class
	key   string
	plant func() error
} {
	run := func(argv ...string) func() error {
		return func() error { _, err := must(context.Background(), "", argv...); return err }
	}
	write := func(p, text string) func() error { return func() error { return os.WriteFile(p, []byte(text), 0o644) } }
	return []struct {
		class step.Class
		key   string
		plant func() error
	}{
		{step.ClassNft, "inet left", run("nft", "add", "table", "inet", "left")},
		{step.ClassNft, "inet here chain c", run("nft", "add", "rule", "inet", "here", "c", "tcp", "dport", "1", "drop")},
		{step.ClassNft, "inet here set s", run("nft", "add", "element", "inet", "here", "s", "{ 192.0.2.1 }")},
		{step.ClassNet, "addr lo inet 192.0.2.7/32", run("ip", "addr", "add", "192.0.2.7/32", "dev", "lo")},
		{step.ClassNet, "route blackhole 198.51.100.0/24", run("ip", "route", "add", "blackhole", "198.51.100.0/24")},
		{step.ClassNet, "rule 77: from all to 192.0.2.0/24",
			run("ip", "rule", "add", "pref", "77", "to", "192.0.2.0/24", "lookup", "77")},
		{step.ClassNet, "link lo", run("ip", "link", "set", "lo", "mtu", "1400")},
		{step.ClassFile, "/etc/hosts", write("/etc/hosts", "127.0.0.1 elsewhere\n")},
		{step.ClassFile, "/etc/gpuaas/mode", func() error { return os.Chmod("/etc/gpuaas/mode", 0o644) }},
		{step.ClassFile, "/etc/gpuaas/owner", func() error { return os.Chown("/etc/gpuaas/owner", 1, 1) }},
		{step.ClassFile, "/etc/gpuaas/times", func() error {
			return unix.Utimes("/etc/gpuaas/times", []unix.Timeval{{Sec: 1}, {Sec: 1}})
		}},
		{step.ClassFile, "/etc/gpuaas/copy", func() error { // identical in every respect, except that it is a copy
			return errors.Join(run("cp", "-a", "/etc/gpuaas/copy", "/etc/gpuaas/c")(),
				os.Rename("/etc/gpuaas/c", "/etc/gpuaas/copy"))
		}},
		{step.ClassFile, "/etc/gpuaas/attr", func() error {
			return unix.Setxattr("/etc/gpuaas/attr", "trusted.left", []byte("x"), 0)
		}},
		{step.ClassFile, "/etc/gpuaas/gone", func() error { return os.Remove("/etc/gpuaas/gone") }},
		{step.ClassFile, "/run/systemd/system.control/x.service.d/left.conf", func() error {
			return errors.Join(os.MkdirAll("/run/systemd/system.control/x.service.d", 0o755),
				write("/run/systemd/system.control/x.service.d/left.conf", "[Service]\n")())
		}},
		{step.ClassFile, "/etc/systemd/system/masked.service", func() error {
			return os.Symlink("/dev/null", "/etc/systemd/system/masked.service")
		}},
		{step.ClassMount, "host /etc/passwd", func() error {
			return unix.Mount("/etc/group", "/etc/passwd", "", unix.MS_BIND, "")
		}},
		{step.ClassAccount, "group left", func() error { return appendTo("/etc/group", "left:x:4242:\n") }},
		{step.ClassAccount, "shadow root", write("/etc/shadow", "root:!:1::::::\n")},
		{step.ClassSocket, "tcp 127.0.0.1:4711",
			listen(unix.SOCK_STREAM, &unix.SockaddrInet4{Port: 4711, Addr: [4]byte{127, 0, 0, 1}})},
		{step.ClassSocket, "tcp6 [::1]:4711",
			listen(unix.SOCK_STREAM, &unix.SockaddrInet6{Port: 4711, Addr: [16]byte{15: 1}})},
		{step.ClassSocket, "udp 127.0.0.1:4712",
			listen(unix.SOCK_DGRAM, &unix.SockaddrInet4{Port: 4712, Addr: [4]byte{127, 0, 0, 1}})},
		{step.ClassSocket, "unix /etc/left.sock", listen(unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "/etc/left.sock"})},
		{step.ClassDisk, "/mnt bytes", func() error { return os.WriteFile("/mnt/left", make([]byte, 80<<20), 0o600) }},
		{step.ClassDisk, "/mnt inodes", func() error {
			for i := range 5000 {
				if err := os.WriteFile(fmt.Sprintf("/mnt/%d", i), nil, 0o600); err != nil {
					return err
				}
			}
			return nil
		}},
		{step.ClassProcess, "sleep", func() error {
			cmd := exec.Command("sleep", "60")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			err := errors.Join(cmd.Start(), cmd.Process.Signal(syscall.SIGSTOP))
			wait.Within(func() bool { s, _ := host.This.Stat(cmd.Process.Pid); return s.Stopped() })
			return err
		}},
		{step.ClassOwn, "/etc/.gpuaasctl-r-s-0", write("/etc/.gpuaasctl-r-s-0", "parked")},
		{step.ClassOwn, "/run/gpuaasctl/gpuaas-fault-0123456789abcdef", func() error {
			return errors.Join(os.MkdirAll(step.RunDir, 0o755),
				write(step.RunDir+"/gpuaas-agent-0123456789abcdef", "a walk's")(),
				write(step.RunDir+"/gpuaas-fault-0123456789abcdef", "forgotten")())
		}},
		{step.ClassOwn, "/run/gpuaasctl-r-s-0", write("/run/gpuaasctl-r-s-0", "laid over something")},
		{step.ClassOwn, "/dev/shm/gpuaasctl-r-s", write("/dev/shm/gpuaasctl-r-s", "a program for another machine")},
		{step.ClassOwn, "mount /etc/hosts, as process",
			elsewhere(func() error { return unix.Mount("/run/gpuaasctl-r-s-0", "/etc/hosts", "", unix.MS_BIND, "") })},
		{step.ClassOwn, "mount /mnt, as process",
			elsewhere(func() error { return unix.Mount("gpuaasctl-r-s-1", "/mnt", "tmpfs", 0, "") })},
		{step.ClassOwn, "mount /etc/passwd, as process", elsewhere(func() error {
			const source = step.StateDir + "/r/source-s-0"
			return errors.Join(unix.Mount("state", "/var/lib", "tmpfs", 0, ""), os.MkdirAll(filepath.Dir(source), 0o700),
				write(source, "x")(), unix.Mount(source, "/etc/passwd", "", unix.MS_BIND, ""))
		})},
		{step.ClassOwn, "table inet gpuaasctl_r_s_0", run("nft", "add", "table", "inet", "gpuaasctl_r_s_0")},
		{step.ClassOwn, "/etc/systemd/system/gpuaasctl-reaper-r.service",
			write("/etc/systemd/system/gpuaasctl-reaper-r.service", "[Unit]\n")},
	}
}

// elsewhere runs f in the mount namespace of a process, like that of a unit.
func elsewhere(do func() error) func() error {
	return func() error {
		cmd := exec.Command("sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // it ends with the test's process namespace
		if err := cmd.Start(); err != nil {
			return err
		}
		return inNamespace(cmd.Process.Pid, do)
	}
}

// listen creates a persistent socket without the Go runtime.
func listen(kind int, at unix.Sockaddr) func() error {
	return func() error {
		family := unix.AF_INET
		switch at.(type) {
		case *unix.SockaddrInet6:
			family = unix.AF_INET6
		case *unix.SockaddrUnix:
			family = unix.AF_UNIX
		}
		fd, err := unix.Socket(family, kind, 0)
		if err == nil {
			err = unix.Bind(fd, at)
		}
		if err == nil && kind == unix.SOCK_STREAM {
			err = unix.Listen(fd, 1)
		}
		return err
	}
}

func appendTo(p, text string) error {
	f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// TestPlantedResidue leaves something behind in every class, one after the other; the comparison must find exactly
// that. It runs in separate namespaces, over copies of /etc and /run; units are planted on lab machines.
func TestPlantedResidue(t *testing.T) {
	tier.NeedsHost(t)
	needNft(t)
	if !inside(t) {
		return
	}
	before := takeStaged(t)
	for class, why := range before.Unmeasured {
		if class != step.ClassUnit {
			t.Fatalf("%s is unmeasured: %s", class, why)
		}
	}
	if same := Diff(before, takeStaged(t), step.Scope{}, nil); len(step.Unexplained(same)) != 0 {
		t.Fatalf("twice the same machine: %v", same)
	}
	planted := map[step.Class]bool{}
	for _, p := range plants() {
		planted[p.class] = true
		if err := p.plant(); err != nil {
			t.Fatalf("plant %s %s: %v", p.class, p.key, err)
		}
		now := takeStaged(t)
		all := Diff(before, now, step.Scope{}, nil)
		found := false
		for _, r := range all {
			found = found || (r.Class == p.class && strings.Contains(r.Key, p.key))
			if r.Class != p.class && r.Class != step.ClassOwn && p.class != step.ClassOwn && r.Class != step.ClassAccount {
				t.Errorf("%s %s was planted, and %s was found as well", p.class, p.key, r)
			}
		}
		if !found {
			t.Errorf("%s %s was planted, and not found in %v", p.class, p.key, all)
		}
		if p.class == step.ClassOwn && strings.Contains(fmt.Sprint(all), "gpuaas-agent-") {
			t.Errorf("a walk's helper is no residue: %v", all)
		}
		before = now
	}
	for _, c := range step.Classes() {
		if !planted[c] && c != step.ClassUnit {
			t.Errorf("nothing was planted in class %s", c)
		}
	}
	t.Logf("%d plants in %d classes found", len(plants()), len(planted))
}

// inside reports whether this test runs in separate namespaces, over small copies of /etc and /run. If it does
// not, inside runs the test again in such namespaces, with these arguments, and takes over its result: a test that
// was skipped there has proved nothing.
func inside(t *testing.T, args ...string) bool {
	t.Helper()
	tier.NeedsHost(t)
	if os.Getenv(insideMark) != "" {
		if err := stage(); err != nil {
			t.Skipf("skipped: cannot make copies of /etc and /run here: %v", err)
		}
		return true
	}
	needNft(t) // stage filters packets, and configures a link
	if _, err := os.Stat(find("ip")); err != nil {
		t.Skip("skipped: needs ip")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, append(args, "-test.run=^"+t.Name()+"$", "-test.v")...)
	cmd.Env = append(os.Environ(), insideMark+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if why := unshown(t.Name(), string(out)); why != "" {
		lacking(t, why)
	}
	return false
}

// lacking skips a test on a machine that does not allow what the test does. In the lab suite the machine must
// allow it.
func lacking(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("GPUAASCTL_LAB_TESTS") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// unshown returns why a successful run of a single test has proved nothing; "" if the test passed.
func unshown(name, out string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "--- PASS: "+name+" ") {
			return ""
		}
	}
	for line := range strings.Lines(out) {
		if _, why, ok := strings.Cut(line, "skipped: "); ok {
			return "skipped: " + strings.TrimSpace(why)
		}
	}
	return "skipped: it was not run"
}

// TestUnshown: a test that was skipped in its namespaces is distinguished from one that passed.
func TestUnshown(t *testing.T) {
	for out, want := range map[string]string{
		"=== RUN   TestX\n--- PASS: TestX " +
			"(0.00s)\nPASS\n": "",
		"=== RUN   TestX\n    x_test.go:1: skipped: needs nft\n--- SKIP: TestX " +
			"(0.00s)\nPASS\n": "skipped: needs nft",
		"=== RUN   TestX\n    --- PASS: TestX/part (0.00s)\n    x_test.go:1: skipped: no\n--- SKIP: TestX " +
			"(0.00s)\nPASS\n": "skipped: no",
		"testing: warning: no tests to run\nPASS\n": "skipped: it was not run",
	} {
		if got := unshown("TestX", out); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}

// staged lists the folders over which stage mounts file systems.
func staged() []string { return []string{"/etc", "/run", "/mnt", "/dev/shm"} }

// takeStaged takes the fingerprint without the free space of this host's own file systems: other programs write to
// them, and a compiler exceeds the tolerance.
func takeStaged(t *testing.T) Fingerprint {
	t.Helper()
	f, err := ReadFingerprint(t.Context(), step.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(f.Items[step.ClassDisk], func(key, _ string) bool {
		point, _, _ := strings.Cut(key, " ")
		return !slices.Contains(staged(), point)
	})
	return f
}

// stage mounts small copies over the folders that are planted into.
func stage() error {
	ctx := context.Background()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	errs := []error{unix.Mount("proc", "/proc", "proc", 0, "")}
	for _, dir := range staged() {
		errs = append(errs, unix.Mount("stage", dir, "tmpfs", 0, "size=200m,nr_inodes=20000"))
	}
	for _, dir := range [...]string{"/etc/gpuaas", "/etc/systemd/system"} {
		errs = append(errs, os.MkdirAll(dir, 0o755))
	}
	for p, text := range map[string]string{
		"/etc/hosts": "127.0.0.1 localhost\n", "/etc/passwd": "root:x:0:0::/root:/bin/sh\n", "/etc/group": "root:x:0:\n",
		"/etc/shadow": "root:*:1::::::\n", "/etc/gpuaas/mode": "", "/etc/gpuaas/owner": "", "/etc/gpuaas/times": "",
		"/etc/gpuaas/copy": "x", "/etc/gpuaas/attr": "", "/etc/gpuaas/gone": "",
	} {
		errs = append(errs, os.WriteFile(p, []byte(text), 0o600))
	}
	_, err := must(ctx, "table inet here { chain c { }\n set s { type ipv4_addr; }\n}\n", "nft", "-f", "-")
	_, err2 := must(ctx, "", "ip", "link", "set", "lo", "up")
	return errors.Join(append(errs, err, err2)...)
}

// TestDiff: an allowed difference is reported with its reason, a value within the tolerance is no difference, and
// a class that can no longer be measured is one.
func TestDiff(t *testing.T) {
	item := func(class step.Class, key, value string) Fingerprint {
		return Fingerprint{Items: map[step.Class]map[string]string{class: {key: value}}}
	}
	none := Fingerprint{}
	allow := []step.Allow{{Class: step.ClassFile, Key: "/etc/gpuaas/generations/*/cert.pem", Why: "renewed"}}
	for name, tc := range map[string]struct {
		a, b Fingerprint
		want int
	}{
		"same":            {item(step.ClassFile, "/a", "x"), item(step.ClassFile, "/a", "x"), 0},
		"appeared":        {none, item(step.ClassFile, "/a", "x"), 1},
		"gone":            {item(step.ClassFile, "/a", "x"), none, 1},
		"allowed":         {none, item(step.ClassFile, "/etc/gpuaas/generations/7/cert.pem", "x"), 0},
		"not allowed":     {none, item(step.ClassFile, "/etc/gpuaas/generations/7/key.pem", "x"), 1},
		"another class":   {none, item(step.ClassOwn, "/etc/gpuaas/generations/7/cert.pem", "x"), 1},
		"near":            {item(step.ClassDisk, "/ bytes", "100000000"), item(step.ClassDisk, "/ bytes", "99000000"), 0},
		"far":             {item(step.ClassDisk, "/ bytes", "500000000"), item(step.ClassDisk, "/ bytes", "99000000"), 1},
		"file system new": {none, item(step.ClassDisk, "/x bytes", "1"), 1},
		"near, no number": {item(step.ClassNet, "x", "1"), item(step.ClassNet, "x", "2"), 1},
		"unmeasured": {item(step.ClassNft, "x", "1"),
			Fingerprint{Unmeasured: map[step.Class]string{step.ClassNft: "no nft"}}, 1},
		"never measured": {Fingerprint{Unmeasured: map[step.Class]string{step.ClassNft: "no nft"}},
			Fingerprint{Unmeasured: map[step.Class]string{step.ClassNft: "no nft"}}, 0},
	} {
		if got := len(step.Unexplained(Diff(tc.a, tc.b, step.Scope{}, allow))); got != tc.want {
			t.Errorf("%s: %d differences, want %d", name, got, tc.want)
		}
	}
}

// TestSteady: text that changes by itself is not part of an item, and an operator's addition is.
func TestSteady(t *testing.T) {
	for _, c := range []struct{ kind, line, want string }{
		// after duplicate address detection
		{"route6", "local fe80::34da:a8ff:fec5:eebb dev host0 table local proto kernel metric 0 pref medium", ""},
		{"route", "broadcast 10.1.0.255 dev host0 table local proto kernel scope link src 10.1.0.1 ", ""},
		{"route", "local 192.0.2.0/24 dev lo table local scope host", "local 192.0.2.0/24 dev lo table local scope host"},
		{"route", "10.1.0.0/24 dev host0 proto kernel scope link src 10.1.0.1",
			"10.1.0.0/24 dev host0 proto kernel scope link src 10.1.0.1"},
		{"route6", "default via fe80::1 dev host0 proto ra metric 1024 expires 1792sec hoplimit 64",
			"default via fe80::1 dev host0 proto ra metric 1024"},
		{"addr", `2: host0    inet6 fe80::1/64 scope link tentative \       valid_lft forever preferred_lft forever`,
			"host0 inet6 fe80::1/64 scope link"},
	} {
		if got := strings.Join(steady(c.kind, c.line), " "); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.kind, c.line, got, c.want)
		}
	}
}
