package terminal

import (
	"time"

	netprobe "github.com/gpuaas/gpuaasctl/preflight/probe/net"
)

// maxSaid bounds what is read of an exited shell's output: its last lines show the reason.
const maxSaid = 64 << 10

// lastLines quotes the last lines of a shell that has exited; first is the output that was read already.
func (s *shell) lastLines(first []byte) string {
	_ = s.master.SetReadDeadline(time.Now().Add(drain))
	shown, buf := first, make([]byte, 4096)
	for len(shown) < maxSaid {
		n, err := s.master.Read(buf) // a PTY ends with EIO
		if shown = append(shown, buf[:n]...); err != nil {
			break
		}
	}
	if words := netprobe.LastWords(shown); words != "" {
		return ": " + words
	}
	return ""
}
