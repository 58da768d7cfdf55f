package host

import (
	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// staUnsync is STA_UNSYNC of adjtimex(2): the clock is not disciplined.
const staUnsync = 0x40

// kernelClock adds values that only the kernel has; a value that cannot be read (as in a container) stays absent.
func kernelClock(c *diag.ClockFacts) {
	c.BootID = host.This.BootID()
	if up, err := host.This.Uptime(); err == nil {
		c.UptimeS = new(int64(up.Seconds()))
	}
	var t unix.Timex // Modes 0: only read
	if state, err := unix.Adjtimex(&t); err == nil {
		c.Synchronized = new(state != unix.TIME_ERROR && t.Status&staUnsync == 0)
	}
}
