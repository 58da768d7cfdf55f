package probe

import (
	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
)

// staUnsync is STA_UNSYNC of adjtimex(2): nobody disciplines the clock.
const staUnsync = 0x40

// kernelClock adds what only the kernel knows; what it does not tell (a container may not ask) stays absent.
func kernelClock(c *diag.ClockFacts) {
	c.BootID = bootID()
	if up, err := hostUptime(); err == nil {
		secs := int64(up)
		c.UptimeS = &secs
	}
	var t unix.Timex // Modes 0: only read
	if state, err := unix.Adjtimex(&t); err == nil {
		synced := state != unix.TIME_ERROR && t.Status&staUnsync == 0
		c.Synchronized = &synced
	}
}
