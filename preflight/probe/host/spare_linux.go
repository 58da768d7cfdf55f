package host

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnSpareThread calls f on a thread that ends with it, but never on the process's main thread, whose namespaces
// /proc/self shows.
func OnSpareThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return
	}
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}
