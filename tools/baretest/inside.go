//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideMark is the first argument of this program if it must make a tree its root.
const insideMark = "inside"

// systemPath is PATH in the tree, after Go's own folder.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// fromHost are the only variables that are passed into the tree: those that decide how the Makefile compiles, so that
// Go's cache can be used, how much is tested, and those with which this host reaches Go modules and packages.
var fromHost = [...]string{
	"GOFLAGS", "CGO_ENABLED", "GPUAASCTL_TESTS",
	"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE",
	"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
}

// command prepares argv in the tree's clone: with the tree as its root, in new mount and PID namespaces. Of this host
// it sees Go's folders, /dev, /sys and the network.
func (t *tree) command(ctx context.Context, out io.Writer, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{insideMark, t.dir}, argv...)...)
	cmd.Env = []string{
		"HOME=/root", "PATH=" + filepath.Join(t.goRoot, "bin") + ":" + systemPath, "GOTOOLCHAIN=local",
		"GOROOT=" + t.goRoot, "GOCACHE=" + t.goCache, "GOMODCACHE=" + t.goMods,
	}
	for _, name := range fromHost {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	return cmd
}

// inside is process 1 of the namespaces: it changes the root, starts argv, and reaps orphaned processes. It returns
// argv's exit status.
func inside(root string, argv []string) int {
	if err := enter(root); err != nil {
		fmt.Fprintf(os.Stderr, "enter the bare Debian: %v\n", err)
		return 2
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	pid, err := syscall.ForkExec(program, argv,
		&syscall.ProcAttr{Dir: cloneDir, Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		fmt.Fprintf(os.Stderr, "start %s: %v\n", strings.Join(argv, " "), err)
		return 2
	}
	for {
		var status syscall.WaitStatus
		switch got, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintf(os.Stderr, "wait for %s: %v\n", strings.Join(argv, " "), err)
			return 2
		case got == pid && status.Exited():
			return status.ExitStatus()
		case got == pid:
			return 1
		}
	}
}

// enter makes root this process's root folder.
func enter(root string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", root, err)
	}
	binds := []struct {
		dir   string
		write bool
	}{
		{"/dev", true}, {"/sys", true},
		{os.Getenv("GOROOT"), false}, {os.Getenv("GOMODCACHE"), false}, {os.Getenv("GOCACHE"), true},
	}
	for _, b := range binds {
		if err := bind(b.dir, root+b.dir, b.write); err != nil {
			return fmt.Errorf("mount %s: %w", b.dir, err)
		}
	}
	for dir, kind := range map[string]string{"/proc": "proc", "/run": "tmpfs", "/dev/shm": "tmpfs"} {
		if err := unix.Mount(kind, root+dir, kind, unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make %s the root: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach this host's files: %w", err)
	}
	return os.Chdir("/")
}

// bind mounts dir of this host in the tree. Folders with mounts below, such as /dev, keep them.
func bind(dir, at string, write bool) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	deep := uintptr(0)
	if slices.Contains([]string{"/dev", "/sys"}, dir) {
		deep = unix.MS_REC
	}
	if err := unix.Mount(dir, at, "", unix.MS_BIND|deep, ""); err != nil || write {
		return err
	}
	return unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}
