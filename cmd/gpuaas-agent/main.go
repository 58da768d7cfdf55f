// Command gpuaas-agent is the node agent: `run` is the service, `probe` measures for one SSH channel, `version` says
// what this is.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	code := command(ctx, os.Args[1:], host())
	stop()
	os.Exit(code)
}
