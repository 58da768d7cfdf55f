//go:build linux

package node

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// inNamespace runs f, and the programs that f starts, in the mount namespace of a process.
func inNamespace(pid int, f func() error) error {
	ns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
	if err != nil {
		return err
	}
	defer ns.Close()
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // without it, setns gives EINVAL
			return wrap("unshare", ns.Name(), err)
		}
		return wrap("setns", ns.Name(), unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS))
	}, f)
}

// inEmptyNetwork runs f, and the programs that f starts, in a new network namespace, which ends with them.
func inEmptyNetwork(f func() error) error {
	return onThread(func() error { return wrap("unshare", "network", unix.Unshare(unix.CLONE_NEWNET)) }, f)
}

// onThread runs enter and then f on a thread of their own, which ends with them: a thread that has been elsewhere is good
// for nothing else. It is never the main thread, which does not end before the process does: /proc/self would tell of where
// it has been.
func onThread(enter, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		if unix.Gettid() == os.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onThread(enter, f) // on another thread, since this one is taken
			return
		}
		err := enter()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}
