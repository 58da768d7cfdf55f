//go:build linux

package inprocess

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
)

// login is the allocation's user: this process's own ids, with the tests' name, home and shell.
const login = "tenant"

// unitsDir contains one file per unit of the fake systemd, with the output of `systemctl show`. Both the agent and
// the probe find systemctl, getent and id by PATH, so they use the fake ones.
func unitsDir() string { return os.Getenv("INPROCESS_UNITS") }

// makeHost puts the fake host's tools in front of PATH, for this process and its children.
func makeHost() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "inprocess-"); err != nil {
		return "", err
	}
	bin, units, home := filepath.Join(dir, "bin"), filepath.Join(dir, "units"), filepath.Join(dir, "home")
	operator := filepath.Join(dir, "operator") // a home without keys and settings
	for _, d := range []string{bin, units, home, operator} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", err
		}
	}
	entry := func(name string) string {
		return fmt.Sprintf("%s) echo '%s:x:%d:%d::%s:/bin/sh' ;;\n", name, name, os.Getuid(), os.Getgid(), home)
	}
	// show is a cat that starts no process: a walk runs these scripts ten times.
	last := "for last; do :; done\nshow() { while IFS= read -r line; do echo \"$line\"; done <\"$1\"; }\n"
	for tool, text := range map[string]string{
		"systemctl": last + "if [ -f '" + units + "'/\"$last\".mute ]; then\n" +
			"echo 'System has not been booted with systemd as init system (PID 1). Can'\\''t operate.' >&2; exit 1; fi\n" +
			"if [ -f '" + units + "'/\"$last\".sh ]; then . '" + units + "'/\"$last\".sh; exit; fi\n" +
			"if [ -f '" + units + "'/\"$last\" ]; then show '" + units + "'/\"$last\"; else\n" +
			"printf 'LoadState=not-found\\nActiveState=inactive\\nSubState=dead\\nResult=success\\nMainPID=0\\n'; fi\n",
		"getent": "[ \"$1\" != shadow ] || exit 2\n" + last + "if [ -f '" + units + "'/\"user.$last\" ]; then\n" +
			"show '" + units + "'/\"user.$last\"; exit; fi\n" +
			"case $last in\n" + entry(login) + entry("root") + "*) exit 2 ;;\nesac\n",
		"id": fmt.Sprintf("case $1 in -u) echo %d ;; *) echo %d ;; esac\n", os.Getuid(), os.Getgid()),
	} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			return "", err
		}
	}
	for key, value := range map[string]string{"INPROCESS_UNITS": units, "PATH": bin + ":" + os.Getenv("PATH"),
		"SSH_AUTH_SOCK": "", "HOME": operator, "INPROCESS_HOME": os.Getenv("HOME")} {
		if err := os.Setenv(key, value); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// unit is systemd's state of a running unit.
type unit struct {
	name, program, envFile string
	pid                    int
}

// run adds u to the fake systemd, in the given state ("active/running", "inactive/dead").
func (u unit) run(t testing.TB, state string) {
	t.Helper()
	active, sub, _ := strings.Cut(state, "/")
	text := "LoadState=loaded\nActiveState=" + active + "\nSubState=" + sub +
		"\nResult=success\nExecMainCode=0\nExecMainStatus=0\nMainPID=" +
		strconv.Itoa(u.pid) + "\nNRestarts=0\nFragmentPath=/etc/systemd/system/" + u.name +
		"\nDropInPaths=\nControlGroup=/system.slice/" + u.name +
		"\nExecStart={ path=" + u.program + " ; argv[]=" + u.program + " run ; ignore_errors=no }\nEnvironmentFiles=" +
		u.envFile + " (ignore_errors=no)\n"
	path := filepath.Join(unitsDir(), u.name)
	// Renamed into place, since another process may be reading the old file.
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o644), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
}

// loop makes the fake systemd restart u at each query: a new process, which has just been started however late the
// query comes, and ends with the test.
func (u unit) loop(t testing.TB) {
	t.Helper()
	path := filepath.Join(unitsDir(), u.name)
	turns := t.TempDir() // a folder for each query, so that concurrent queries count as two
	life := filepath.Join(turns, "life")
	if err := syscall.Mkfifo(life, 0o600); err != nil {
		t.Fatal(err)
	}
	alive, err := os.OpenFile(life, os.O_RDWR, 0) // a process that reads from it ends when this is closed
	if err != nil {
		t.Fatal(err)
	}
	text := "n=0\nwhile ! mkdir '" + turns + "/'$n 2>/dev/null; do n=$((n+1)); done\n" +
		"env -i A=1 \"$(command -v cat)\" '" + life + "' >/dev/null 2>&1 </dev/null &\npid=$!\n" +
		// before that, a process in the middle of exec has another environment
		"while [ \"$(tr -d '\\0' </proc/$pid/environ)\" != A=1 ]; do sleep 0.01; done\n" +
		"sed -e \"s/^MainPID=.*/MainPID=$pid/\" -e \"s/^NRestarts=.*/NRestarts=$((n+3))/\" '" + path + "'\n"
	if err := os.WriteFile(path+".sh", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = os.Remove(path+".sh"), alive.Close() })
}

// mute makes the fake systemd fail every query about u, as on a host without systemd.
func (u unit) mute(t testing.TB) {
	t.Helper()
	path := filepath.Join(unitsDir(), u.name+".mute")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
}

// compile builds a program of this project with a given version.
func compile(path, program, version string) error {
	return goBuild("-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+version, "-o", path,
		"../../../cmd/"+program)
}

// goBuild runs go build. With the race detector cgo is enabled, which would recompile everything.
func goBuild(argv ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, argv...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "HOME="+os.Getenv("INPROCESS_HOME")) // which has Go's cache
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// agentProgram is the agent's program, built when a test first needs it. It is a fifth of the size of this test
// binary, and has no race detector: a login reads and runs all of it.
var agentProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(unitsDir()), "gpuaas-agent")
	return path, compile(path, "gpuaas-agent", sshtest.Version)
})

// toolProgram is the tool, built once, next to the agent's program.
var toolProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(unitsDir()), "gpuaasctl")
	return path, compile(path, "gpuaasctl", sshtest.Version)
})

// installAgent puts the agent's program into dir, for its `probe`.
func installAgent(t testing.TB, dir string) string {
	t.Helper()
	program, err := agentProgram()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "gpuaas-agent")
	if err := os.Symlink(program, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// mainProcess starts a process with the agent's environment for the probe to read, in place of the agent's main
// process, which is this test process. It ends with the test, or with this process.
func mainProcess(t testing.TB, env []string) int {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.Env = env
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
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	// Wait for its output: before that, a process in the middle of exec has no environment yet.
	if _, err := io.WriteString(in, "ready\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
