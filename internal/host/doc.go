// Package host reads a machine's state: its processes and mounts from proc, its units from systemd, its users from the
// user database. Probe, agent, drills and lab all use it, so that these formats are parsed only here.
//
// It changes nothing and judges nothing, and every read has a limit. A Proc may also be a test's folder.
package host

import (
	"os"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

const (
	// Small bounds a file about one process. The longest is status, for a process with 65,536 groups.
	Small = 1 << 20
	// Table bounds a table of the kernel: mounts, sockets, neighbours.
	Table = 32 << 20

	// FirstTenant is the lowest user id of a person or a tenant by every distribution's convention.
	FirstTenant = 1000
)

// Read reads a file of at most most bytes. A longer one is an error, since a truncated list would be taken for
// complete.
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
