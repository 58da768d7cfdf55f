package terminal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// Command is the agent's subcommand that becomes a tenant's shell. systemd starts it in a session's unit.
const Command = "session"

// ExitNoShell is its exit status if the shell cannot be executed; no shell exits with it.
const ExitNoShell = 253

// ErrNoShell wraps the error that kept Become from executing the shell.
var ErrNoShell = errors.New("start the shell")

// become describes the user of the shell and the agent whose mounts it gets.
type become struct {
	User, Home, Shell string
	UID, GID          uint32
	Groups            []uint32
	Agent             int // process id; 0: the mounts of this process
}

// Become turns this process into the login shell that Open requested: in the agent's mount namespace, with the
// user's ids and groups, a minimal environment, in the user's home. It returns only on failure.
func Become(text string) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("%w: read who is to have it: %w", ErrNoShell, err)
	}
	var b become
	if err := bounded.Unmarshal(raw, &b, bounded.Small()); err != nil {
		return fmt.Errorf("%w: read who is to have it: %w", ErrNoShell, err)
	}
	return fmt.Errorf("%w: %w", ErrNoShell, b.exec())
}

func (b become) exec() error {
	runtime.LockOSThread() // the thread that enters the namespace has to execute the shell
	if b.Agent != 0 {
		if err := enterMounts(b.Agent); err != nil {
			return fmt.Errorf("enter the agent's mounts: %w", err)
		}
	}
	if os.Geteuid() == 0 {
		if err := b.drop(); err != nil {
			return fmt.Errorf("become user %d: %w", b.UID, err)
		}
	} else if int(b.UID) != os.Geteuid() {
		return fmt.Errorf("become user %d: %w", b.UID, unix.EPERM)
	}
	if err := os.Chdir(b.Home); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, unix.ENOTDIR) {
		err = os.Chdir("/") // as login does if there is no home
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	u := user{User: host.User{Name: b.User, Home: b.Home, Shell: b.Shell}}
	return fmt.Errorf("%s: %w", b.Shell, syscall.Exec(b.Shell, []string{"-" + filepath.Base(b.Shell)}, environment(u)))
}

// drop hands the terminal to the user and drops all privileges.
func (b become) drop() error {
	if err := os.Stdin.Chown(int(b.UID), -1); err != nil {
		return err
	}
	groups := make([]int, len(b.Groups))
	for i, g := range b.Groups {
		groups[i] = int(g)
	}
	return errors.Join(syscall.Setgroups(groups), syscall.Setresgid(int(b.GID), int(b.GID), int(b.GID)),
		syscall.Setresuid(int(b.UID), int(b.UID), int(b.UID)))
}

// enterMounts moves this thread into a process's mount namespace.
func enterMounts(pid int) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	return unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS)
}
