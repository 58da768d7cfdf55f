//go:build linux && cgo

package main

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownStdout reserves stdout for this program's lines and redirects what a library prints to stderr, since it would
// corrupt the samples.
func ownStdout() *os.File {
	fd, err := unix.FcntlInt(uintptr(syscall.Stdout), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return os.Stdout
	}
	if err := unix.Dup3(syscall.Stderr, syscall.Stdout, 0); err != nil {
		_ = unix.Close(fd) // nothing was written to it
		return os.Stdout
	}
	return os.NewFile(uintptr(fd), "stdout")
}

// maxData bounds the private writable memory that this process may map, touched or not: a library that leaks ends
// only its own process. At rest it is 115 MiB, of which Go's heap is 64 and each thread's stack 8; the driver has
// the rest. The address space is not bounded: Go and the driver reserve gigabytes of it.
const maxData = 512 << 20

// limitMemory applies to memory that is mapped afterwards.
func limitMemory() error {
	limit := unix.Rlimit{Cur: maxData, Max: maxData}
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &had); err == nil && had.Max < maxData {
		return nil // a lower limit is already set
	}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}
