package probetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// WriteFile writes a file that only its owner may read.
func WriteFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Fakes is the first folder in PATH, so that systemctl and getent are scripts of the test: test machines have no
// systemd, and their users must not be modified.
type Fakes struct{ Dir string }

// NewFakes makes the folder the first in PATH until the test ends.
func NewFakes(t *testing.T) Fakes {
	t.Helper()
	f := Fakes{t.TempDir()}
	t.Setenv("PATH", f.Dir+":"+os.Getenv("PATH"))
	return f
}

// Script makes a program of this name, and returns its path.
func (f Fakes) Script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(f.Dir, name)
	// Renamed into place: running a script that another test's child still holds open for writing is ETXTBSY.
	if err := os.WriteFile(path+".new", []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Unit makes systemctl report one unit with these properties; every other unit is not found.
func (f Fakes) Unit(t *testing.T, name string, props ...string) {
	t.Helper()
	f.Script(t, "systemctl", fmt.Sprintf(`for last; do :; done
test "$1" = show || exit 64
if test "$last" = %q; then cat <<'END'
%s
END
else echo LoadState=not-found; echo ActiveState=inactive; echo MainPID=0; fi`, name, strings.Join(props, "\n")))
}

// RunningUnit returns the properties of a healthy unit with this main process.
func RunningUnit(pid int, more ...string) []string {
	return append([]string{"LoadState=loaded", "ActiveState=active", "SubState=running", "Result=success",
		"ExecMainCode=0", "ExecMainStatus=0", "NRestarts=2", fmt.Sprintf("MainPID=%d", pid),
		"FragmentPath=/etc/systemd/system/x.service", "DropInPaths=/run/a.conf /run/b.conf"}, more...)
}

// Passwd makes getent know one user.
func (f Fakes) Passwd(t *testing.T, entry string) {
	t.Helper()
	name, _, _ := strings.Cut(entry, ":")
	f.Script(t, "getent", fmt.Sprintf(`test "$1 $2" = "passwd --" || exit 64
test "$3" = %q || exit 2
echo %q`, name, entry))
}

// Sleeper starts a child that does nothing until the test ends.
func Sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	tier.NeedsHost(t)
	cmd := exec.Command("cat")
	StartAnswering(t, cmd)
	return cmd
}

// StartAnswering starts a command that becomes cat, and waits for its answer: the kernel has then finished exec. Before
// that, a process may already have its new name, but an empty environment and temporarily open files.
func StartAnswering(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := in.Write([]byte("ready\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

// AwaitState waits until the kernel reports this state for pid.
func AwaitState(t *testing.T, pid int, state string) {
	t.Helper()
	wait.For(t, "the process is in state "+state, func() bool {
		s, err := host.This.Stat(pid)
		return err == nil && s.State == state
	})
}

// RemoveGroup removes a control group whose processes have ended; the kernel may need a moment to notice.
func RemoveGroup(t *testing.T, group string) {
	t.Helper()
	var err error
	if !wait.Until(t, func() bool { err = os.Remove(group); return err == nil }) {
		t.Error(err)
	}
}

// WaitingIn starts a child by argv that runs setup and then waits until the test ends, and returns its PID.
func WaitingIn(t *testing.T, argv []string, setup string, env ...string) int {
	t.Helper()
	tier.NeedsHost(t)
	cmd := exec.Command(argv[0], append(argv[1:], "sh", "-c", setup+"; exec cat")...)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, env...)
	cmd.Stderr = os.Stderr
	StartAnswering(t, cmd)
	return cmd.Process.Pid
}

// States makes systemctl report these states one after the other, and then the last one for ever.
func (f Fakes) States(t *testing.T, states ...[]string) {
	t.Helper()
	_ = os.Remove(filepath.Join(f.Dir, "systemctl.n"))
	body := `for last; do :; done
n=$(cat "$0.n" 2>/dev/null || echo 0); echo $((n+1)) >"$0.n"
case $n in
`
	for i, props := range states {
		pattern := fmt.Sprint(i)
		if i == len(states)-1 {
			pattern = "*"
		}
		body += pattern + ") cat <<'END'\n" + strings.Join(props, "\n") + "\nEND\n;;\n"
	}
	f.Script(t, "systemctl", body+"esac")
}

// Journal makes journalctl report restarts of the unit x.service, this many seconds ago.
func (f Fakes) Journal(t *testing.T, ago ...int) {
	t.Helper()
	body :=
		`case "$*" in *_PID=1*MESSAGE_ID=5eb03494b6584870a536b337290809b3*UNIT=x.service*--since=@*) ;; *) exit 64 ;; esac
`
	for _, s := range ago {
		at := time.Now().Add(-time.Duration(s) * time.Second).UnixMicro()
		body += fmt.Sprintf("echo '{\"__REALTIME_TIMESTAMP\":\"%d\",\"UNIT\":\"x.service\"}'\n", at)
	}
	f.Script(t, "journalctl", body)
}

// TempFile returns a new file with this text.
func TempFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}
