package kmsg

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Path of the kernel log, and of the files that identify a boot.
const (
	Path       = "/dev/kmsg"
	bootIDPath = "/proc/sys/kernel/random/boot_id"
	uptimePath = "/proc/uptime"
)

// Device is the kernel log of this machine, for a Reader. A read never blocks.
type Device struct{ fd int }

// Open opens the log. Every opener reads all records that the kernel still has.
func Open(path string) (*Device, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the kernel log %s: %w", path, err)
	}
	return &Device{fd}, nil
}

// Read reads one record. Errors are the kernel's own: a Reader handles EAGAIN and EPIPE.
func (d *Device) Read(p []byte) (int, error) {
	n, err := syscall.Read(d.fd, p)
	return max(n, 0), err
}

// Close closes it.
func (d *Device) Close() error { return syscall.Close(d.fd) }

// BootID is the id of this boot.
func BootID() (string, error) {
	b, err := os.ReadFile(bootIDPath)
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	id := strings.TrimSpace(string(b))
	if id == "" {
		return "", fmt.Errorf("read the boot id: %s is empty", bootIDPath)
	}
	return id, nil
}

// Uptime returns the time since boot, 0 if it cannot be read. In a container it is the machine's.
func Uptime() time.Duration {
	b, err := os.ReadFile(uptimePath)
	if err != nil {
		return 0
	}
	text, _, _ := strings.Cut(string(b), " ")
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || s < 0 || s > 1e9 {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}
