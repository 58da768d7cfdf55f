//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// rebootStatus is the exit status of systemd-nspawn if its machine requested a reboot.
const rebootStatus = 133

// unitOf is the transient unit that holds a machine's supervisor on a systemd host.
func unitOf(m Machine) string { return m.container() + ".service" }

// superviseArgs returns the arguments of this program's hidden command for m.
func (l *Lab) superviseArgs(m Machine) []string {
	return []string{"lab", "supervise", m.Name, "--state", l.opts.StateDir}
}

// startSupervisor starts the detached process that supervises m. It survives this process and its session.
func (l *Lab) startSupervisor(ctx context.Context, m Machine, lock *os.File) error {
	argv := append([]string{l.opts.Program}, l.superviseArgs(m)...)
	if host.Booted() {
		lock.Close()
		// An earlier unit may still be stopping, and its name is taken until it has stopped.
		_, _ = command(ctx, "systemctl", "stop", unitOf(m))
		_, _ = command(ctx, "systemctl", "reset-failed", unitOf(m))
		_, err := command(ctx, append([]string{"systemd-run", "--quiet", "--collect", "--unit=" + unitOf(m),
			"-p", "Delegate=yes", "-p", "KillMode=mixed", "-p", "TimeoutStopSec=5",
			"-p", "StandardOutput=append:" + l.place(m).console(), "-p", "StandardError=inherit", "--"}, argv...)...)
		return err
	}
	console, err := os.OpenFile(l.place(m).console(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer console.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", console, console
	cmd.ExtraFiles = []*os.File{lock} // becomes lockFD
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the supervisor of %s: %w", m.Name, err)
	}
	return cmd.Process.Release()
}

// Supervise runs one machine until it powers off, and restarts it after each reboot. It is the body of the hidden
// command `gpuaasctl lab supervise MACHINE`, which is a separate process in the machine's cgroup.
func Supervise(ctx context.Context, stateDir, name string) error {
	l, m, err := openMachine(stateDir, name)
	if err != nil {
		return err
	}
	release, err := l.keepLock(m)
	if err != nil {
		return err
	}
	defer release()
	g, err := l.enter(m, loopGroup)
	if err != nil {
		return err
	}
	for {
		if err := errors.Join(g.kill(ctx, machineGroup), clearExport(m)); err != nil {
			return err
		}
		status, err := l.spawn(ctx, m)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "-- %s ended with status %d --\n", m.Name, status)
		if status != rebootStatus {
			return nil
		}
	}
}

// spawn runs the machine once and returns the exit status of systemd-nspawn.
func (l *Lab) spawn(ctx context.Context, m Machine) (int, error) {
	up, err := host.This.Uptime()
	if err != nil {
		return 0, err
	}
	// Both clocks start at the machine's own boot, as on a real one: deadlines in CLOCK_BOOTTIME must detect a
	// reboot.
	offset := strconv.FormatInt(-int64(up.Seconds()), 10)
	// This program, even if its file was replaced by another build in the meantime.
	exe := fmt.Sprintf("/proc/%d/exe", os.Getpid())
	argv := append([]string{"-T", "--fork", "--boottime", offset, "--monotonic", offset, "--", exe}, l.superviseArgs(m)...)
	argv = append(argv, "--spawn")
	cmd := exec.CommandContext(ctx, "unshare", argv...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return exitCode(cmd.Run())
}

// Spawn replaces this process by systemd-nspawn, in the machine's cgroup and the lab's network namespace. It
// returns only on an error. It runs as the child of `unshare`, inside the new time namespace.
func Spawn(stateDir, name string) error {
	l, m, err := openMachine(stateDir, name)
	if err != nil {
		return err
	}
	if _, err := l.enter(m, machineGroup); err != nil {
		return err
	}
	runtime.LockOSThread() // the namespace is per thread, and exec keeps the calling thread's
	ns, err := os.Open(netnsPath())
	if err != nil {
		return err
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	path, err := exec.LookPath("systemd-nspawn")
	if err != nil {
		return err
	}
	env := []string{"PATH=" + defaultPath, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1", "LANG=C.UTF-8"}
	return unix.Exec(path, nspawnArgv(m, l.place(m).root()), env)
}

// openMachine is a machine of the lab whose state is in a folder.
func openMachine(stateDir, name string) (*Lab, Machine, error) {
	l, err := Open(Options{StateDir: stateDir})
	if err != nil {
		return nil, Machine{}, err
	}
	m, err := l.Machine(name)
	return l, m, err
}

// defaultPath is the PATH of commands that run on machines.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// nspawnArgv returns the machine's command line. Its systemd may load BPF programs, without which IPAddressDeny
// has no effect.
func nspawnArgv(m Machine, root string) []string {
	return []string{"systemd-nspawn", "--quiet", "--boot",
		"--machine=" + m.container(), "--hostname=" + m.Name, "--directory=" + root,
		"--network-bridge=" + bridgeName, "--capability=CAP_NET_ADMIN,CAP_NET_RAW,CAP_BPF", "--system-call-filter=bpf",
		"--register=no", "--keep-unit", "--link-journal=no", "--resolv-conf=off", "--timezone=off", "--console=pipe"}
}

// Leader returns the pid of a machine's PID 1 as the host sees it, or ErrNotRunning.
func (l *Lab) Leader(machine string) (int, error) {
	m, err := l.Machine(machine)
	if err != nil {
		return 0, err
	}
	if pid := l.leader(m); pid != 0 {
		return pid, nil
	}
	return 0, fmt.Errorf("%s: %w", machine, ErrNotRunning)
}

// leader returns the pid of the machine's PID 1 as the host sees it; 0 if the machine is not running.
func (l *Lab) leader(m Machine) int {
	g, err := l.groupOf(m)
	if err != nil {
		return 0
	}
	for _, pid := range g.pids(machineGroup + "/payload/init.scope") {
		if s, _ := host.This.Status(pid); s.InnerPID() == 1 {
			return pid
		}
	}
	return 0
}

// running reports whether m has a supervisor: it boots, runs, or reboots.
func (l *Lab) running(m Machine) bool {
	return durable.Locked(l.place(m).lock())
}
