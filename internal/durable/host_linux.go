package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData calls fdatasync: times are not worth a second write, and a size that grew is synced by it too.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
