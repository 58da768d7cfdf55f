package recorder

import "golang.org/x/sys/unix"

// boottime is CLOCK_BOOTTIME in nanoseconds: it goes on while the machine sleeps, and cannot be set.
func boottime() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
