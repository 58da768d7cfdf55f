//go:build linux

package node

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// HostClock is this machine's. CLOCK_BOOTTIME goes on while a machine sleeps, and nobody can set it.
func HostClock() (Clock, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Clock{}, fmt.Errorf("boot id: %w", err)
	}
	return Clock{
		Boot: strings.TrimSpace(string(boot)),
		Wall: time.Now,
		Now: func() int64 {
			var ts unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
				panic("CLOCK_BOOTTIME: " + err.Error()) // every Linux since 2.6.39 has it
			}
			return ts.Nano()
		},
	}, nil
}
