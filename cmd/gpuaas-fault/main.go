// Command gpuaas-fault injects a drill's faults on a machine, and reverts them. It is pushed over SSH; gpuaasctl
// starts it, and so does systemd, as a watchdog and, at boot, as a reaper. It is removed at the end of the drill.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	code := command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
