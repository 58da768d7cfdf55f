// Package host reads a machine's state: its processes and mounts from proc, its units from systemd, its users from
// the user database. It is the one reader of these formats for probe, agent, drills and lab.
//
// It changes nothing and judges nothing, and every read has a bound. Another machine's proc, or a test's, is a Proc.
package host

import (
	"os"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

const (
	// Small bounds a file about one process. The longest is status, with 65,536 groups of a process in it.
	Small = 1 << 20
	// Table bounds a list of the kernel's: mounts, sockets, neighbours.
	Table = 32 << 20

	// FirstTenant is the lowest user id that is a person's or a tenant's by every distribution's convention.
	FirstTenant = 1000
)

// Read reads a file of at most most bytes. A longer one is an error, since a truncated list would hide what is
// missing.
func Read(path string, most int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := bounded.Read(f, most)
	return string(text), err
}

// Booted reports whether systemd runs this machine, as sd_booted(3) does.
func Booted() bool {
	fi, err := os.Lstat("/run/systemd/system")
	return err == nil && fi.IsDir()
}
