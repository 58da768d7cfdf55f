// Command gpuaas-agent is the node agent: `run` is the service, `probe` measures for one SSH channel, `version`
// prints the build.
package main

import (
	"os"
	"os/signal"
	"syscall"

	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
)

// version is set by the linker: the version, or a stamp that contains it (see hostprobe.Stamped).
var version = "dev"

// thisVersion returns the version without the stamp's markers.
func thisVersion() string { return hostprobe.Unstamped("gpuaas-agent", version) }

func main() {
	ctx, stop := signal.NotifyContext(background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	code := command(ctx, os.Args[1:], host())
	stop()
	os.Exit(code)
}
