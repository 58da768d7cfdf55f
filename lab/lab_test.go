//go:build linux

package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// TestMain lets this binary play what the lab starts: the supervisor of a machine, and an Up that a test kills.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "lab" {
		os.Exit(labMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func labMain(args []string) int {
	var err error
	switch {
	case args[0] == "supervise" && slices.Contains(args, "--spawn"):
		err = Spawn(args[3], args[1])
	case args[0] == "supervise":
		err = Supervise(context.Background(), args[3], args[1])
	case args[0] == "up":
		_, err = Up(context.Background(), Options{StateDir: args[1], Profile: args[2], Libexec: args[3], Progress: os.Stderr})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// suite skips unless the host can run machines, and returns the options of a lab for the test.
func suite(t *testing.T) Options {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	if os.Getenv("GPUAASCTL_LAB_TESTS") == "" {
		t.Skip("skipped: needs GPUAASCTL_LAB_TESTS=1, since it makes machines on this host")
	}
	if err := noOtherLab(); err != nil {
		t.Fatal(err)
	}
	libexec := os.Getenv("GPUAASCTL_BIN")
	if libexec == "" {
		libexec = filepath.Join("..", "bin")
	}
	libexec, err := filepath.Abs(libexec)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return Options{
		StateDir: filepath.Join(dir, "state", "lab"), Profile: filepath.Join(dir, "config", "profiles", "lab.yaml"),
		Libexec: libexec, Progress: t.Output(),
	}
}

// up brings the lab up and ensures that it is removed, whatever happens to the test.
func up(t *testing.T, opts Options) *Lab {
	t.Helper()
	t.Cleanup(func() {
		if err := Down(context.Background(), opts, false); err != nil {
			t.Error(err)
		}
	})
	l, err := Up(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestUpAndDownLeaveNothing(t *testing.T) {
	opts := suite(t)
	w := &watch{opts: opts}
	before := w.look(t)
	l, err := Up(t.Context(), opts)
	if err != nil {
		t.Error(err)
	} else {
		out, err := l.Exec(t.Context(), nodeName(1), "hostname")
		if err != nil || out != nodeName(1)+"\n" {
			t.Errorf("hostname: %q, %v", out, err)
		}
	}
	w.note()
	if during := w.look(t); len(w.processes()) < 10 || slices.Equal(during, before) {
		t.Error("the comparison sees no difference while a lab is up: it proves nothing")
	}
	if err := Down(t.Context(), opts, false); err != nil {
		t.Fatal(err)
	}
	diff(t, before, w.look(t))
	if entries, err := os.ReadDir(filepath.Dir(filepath.Dir(opts.StateDir))); err != nil || len(entries) != 0 {
		t.Errorf("files are left: %v, %v", entries, err)
	}
	if err := Down(t.Context(), opts, false); err != nil {
		t.Errorf("down of nothing: %v", err)
	}
	diff(t, before, w.look(t))
}

func TestUpResumesAfterKill(t *testing.T) {
	tier.NeedsHost(t)
	opts := suite(t)
	w := &watch{opts: opts}
	before := w.look(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The first delays hit the creation of keys, network and disks, the later ones the boot of the machines.
	for i, ms := range []int{5, 10, 15, 20, 25, 30, 40, 50, 70, 100, 150, 250, 400, 600, 800} {
		cmd := exec.Command(exe, "lab", "up", opts.StateDir, opts.Profile, opts.Libexec)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(ms) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		// A program that it had started continues alone, and finishes.
		wait.For(t, "the programs that it had started end", func() bool { return syscall.Kill(-cmd.Process.Pid, 0) != nil })
		if i%3 == 2 { // sometimes a Down of what the kill left; otherwise the next Up continues with it
			w.note()
			if err := Down(t.Context(), opts, false); err != nil {
				t.Fatalf("down after a kill at %d ms: %v", ms, err)
			}
			diff(t, before, w.look(t))
		}
	}
	l := up(t, opts)
	for _, m := range l.Machines() {
		if n := supervisors(l, m); n != 1 {
			t.Errorf("%s has %d supervisors", m.Name, n)
		}
		if out, err := l.Exec(t.Context(), m.Name, "systemctl", "is-active", "ssh"); err != nil {
			t.Errorf("%s: %q, %v", m.Name, out, err)
		}
	}
}

func TestDownOfAnotherBuild(t *testing.T) {
	opts := suite(t)
	opts.Nodes = 1
	w := &watch{opts: opts}
	before := w.look(t)
	up(t, opts)
	w.note()
	path := filepath.Join(opts.StateDir, "lab.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(text, []byte(`"version": 2`), []byte(`"version": 3, "surprise": true`), 1)
	if bytes.Equal(other, text) {
		t.Fatalf("no version in %s", text)
	}
	if err := os.WriteFile(path, other, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "gpuaasctl lab down") {
		t.Errorf("up over another build's lab: %v", err)
	}
	if err := Down(t.Context(), opts, false); err != nil {
		t.Fatal(err)
	}
	diff(t, before, w.look(t))
}

func TestMachines(t *testing.T) {
	opts := suite(t)
	l := up(t, opts)
	node := nodeName(1)
	t.Run("up again changes nothing", func(t *testing.T) {
		before := boots(t, l)
		again, err := Up(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if after := boots(t, again); !slices.Equal(before, after) {
			t.Errorf("boot ids %v, before %v", after, before)
		}
	})
	t.Run("run is noexec", func(t *testing.T) {
		_, err := l.Exec(t.Context(), node, "sh", "-c", "cp /bin/true /run/t && /run/t")
		if err == nil || !strings.Contains(err.Error(), "Permission denied") {
			t.Errorf("a program ran from /run: %v", err)
		}
	})
	t.Run("the clock is the host's", func(t *testing.T) {
		_, err := l.Exec(t.Context(), node, "sh", "-c", "date -s @$(date +%s)")
		if err == nil || !strings.Contains(err.Error(), "Operation not permitted") {
			t.Errorf("a machine set the host's clock: %v", err)
		}
	})
	t.Run("a full disk is real", func(t *testing.T) {
		_, err := l.Exec(t.Context(), node, "dd", "if=/dev/zero", "of=/fill", "bs=1M")
		if err == nil || !strings.Contains(err.Error(), "No space left on device") {
			t.Errorf("filling the disk: %v", err)
		}
		if _, err := l.Exec(t.Context(), node, "rm", "/fill"); err != nil {
			t.Error(err)
		}
	})
	t.Run("ops has sudo over ssh", func(t *testing.T) {
		argv, err := l.SSHArgv(node, "sudo", "-n", "id", "-u")
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range argv {
			argv[i] = strings.Replace(a, "root@", "ops@", 1)
		}
		if out, err := command(t.Context(), argv...); err != nil || out != "0\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
	t.Run("names are served", func(t *testing.T) {
		for name, want := range map[string]string{apiHost: edgeAddress, nodeAPIHost: nodeAddress,
			"alloc-01." + appsDomain: edgeAddress, nodeName(2): "10.231.77.102"} {
			if out, err := l.Exec(t.Context(), node, "getent", "ahostsv4", name); err != nil ||
				!strings.HasPrefix(out, want+" ") {
				t.Errorf("%s: %q, %v", name, out, err)
			}
		}
		if _, err := l.Exec(t.Context(), node, "getent", "hosts", "elsewhere.example"); err == nil {
			t.Error("a name from outside the lab was served")
		}
	})
	t.Run("machines freeze apart", func(t *testing.T) { testFreeze(t, l) })
	t.Run("reboot is a real one", func(t *testing.T) { testReboot(t, l, node) })
	t.Run("an orphan is taken over", func(t *testing.T) { testOrphan(t, l, opts, node) })
	t.Run("node ingress refuses as nginx does", func(t *testing.T) { testIngress(t, l, node) })
}

// bootID is the file with a machine's boot id, which every reboot changes.
const bootID = "/proc/sys/kernel/random/boot_id"

func fileOf(t *testing.T, l *Lab, machine, path string) string {
	t.Helper()
	text, err := l.Exec(t.Context(), machine, "cat", path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func boots(t *testing.T, l *Lab) []string {
	t.Helper()
	var ids []string
	for _, m := range l.Machines() {
		ids = append(ids, fileOf(t, l, m.Name, bootID))
	}
	return ids
}

// testFreeze freezes a unit on one node: the unit of the same name on the other node must keep running.
func testFreeze(t *testing.T, l *Lab) {
	if _, err := l.Exec(t.Context(), nodeName(1), "systemctl", "freeze", "ssh"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := l.Exec(t.Context(), nodeName(1), "systemctl", "thaw", "ssh"); err != nil {
			t.Error(err)
		}
	}()
	other, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := dialSSH(other, l.Machines()[2]); err != nil {
		t.Errorf("the other node's sshd: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := dialSSH(ctx, l.Machines()[1]); err == nil {
		t.Error("a frozen sshd answered")
	}
}

func testReboot(t *testing.T, l *Lab, node string) {
	before, machineID := fileOf(t, l, node, bootID), fileOf(t, l, node, "/etc/machine-id")
	if _, err := l.Exec(t.Context(), node, "sh", "-c", "printf stays >/etc/marker"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Exec(t.Context(), node, "nft", "add", "table", "inet", "marker"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.Reboot(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if after := fileOf(t, l, node, bootID); after == before {
		t.Errorf("boot id %s as before", after)
	}
	if marker := fileOf(t, l, node, "/etc/marker"); marker != "stays" {
		t.Errorf("the disk did not survive: %q", marker)
	}
	if id := fileOf(t, l, node, "/etc/machine-id"); id != machineID {
		t.Errorf("machine id %q, before %q", id, machineID)
	}
	if out, err := l.Exec(t.Context(), node, "nft", "list", "tables"); err != nil || out != "" {
		t.Errorf("packet filter survived: %q, %v", out, err)
	}
	out, err := l.Exec(t.Context(), node, "cat", "/proc/uptime")
	up, _, _ := strings.Cut(out, " ")
	since := time.Since(began) + time.Second // a machine's clock begins at a whole second of the host's
	if secs, perr := strconv.ParseFloat(up, 64); err != nil || perr != nil || secs > since.Seconds() {
		t.Errorf("uptime %q after a reboot %s ago (%v)", out, time.Since(began), err)
	}
}

// testOrphan kills a machine's supervisor, then its systemd-nspawn: either leaves the machine running on its own.
// Up must take over both times.
func testOrphan(t *testing.T, l *Lab, opts Options, node string) {
	m, err := l.Machine(node)
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.groupOf(m)
	if err != nil {
		t.Fatal(err)
	}
	old := l.leader(m)
	if err := g.kill(t.Context(), loopGroup); err != nil {
		t.Fatal(err)
	}
	if l.leader(m) != old {
		t.Fatal("the machine died with its supervisor: there is no orphan to take over")
	}
	if _, err := Up(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	second := l.leader(m)
	if second == 0 || second == old {
		t.Errorf("leader %d, before %d", second, old)
	}
	nspawn := g.pids(machineGroup + "/supervisor") // its own word for where systemd-nspawn itself is
	if len(nspawn) != 1 {
		t.Fatalf("processes %v, want one systemd-nspawn", nspawn)
	}
	if err := syscall.Kill(nspawn[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := poll(t.Context(), func(context.Context) error {
		if l.running(m) {
			return fmt.Errorf("the supervisor goes on")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if third := l.leader(m); third == 0 || third == second {
		t.Errorf("leader %d, before %d", third, second)
	}
	if marker := fileOf(t, l, node, "/etc/marker"); marker != "stays" {
		t.Errorf("the disk did not survive: %q", marker)
	}
}

// testIngress asks the node ingress without a certificate and with one that it does not trust, with curl.
func testIngress(t *testing.T, l *Lab, node string) {
	curl := func(args ...string) string {
		argv := append([]string{"curl", "-sS", "--max-time", "5", "--cacert", "/etc/gpuaas/ca-bundle.crt"}, args...)
		out, err := l.Exec(t.Context(), node, argv...)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	url := nodeAPIURL + "/internal/v1/nodes/" + node + "/tasks/wait"
	if body := curl(url); !strings.Contains(body, "<center>No required SSL certificate was sent</center>") {
		t.Errorf("without a certificate: %q", body)
	}
	_, err := l.Exec(t.Context(), node, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
		"ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "/tmp/k.pem", "-out", "/tmp/c.pem", "-subj", "/CN="+node,
		"-days", "1")
	if err != nil {
		t.Fatal(err)
	}
	if body := curl("--cert", "/tmp/c.pem", "--key", "/tmp/k.pem", url); !strings.Contains(body,
		"<center>The SSL certificate error</center>") {
		t.Errorf("with a foreign certificate: %q", body)
	}
	code := curl("-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", nodeAPIURL+"/internal/v1/enroll")
	if code == "400" {
		body := curl("-X", "POST", nodeAPIURL+"/internal/v1/enroll")
		if strings.Contains(body, "SSL certificate") {
			t.Errorf("enrollment asks for a certificate: %q", body)
		}
	}
}
