// Command gpuaas-fault breaks something on a machine for a drill, and reverts it. It is pushed over SSH, started by
// gpuaasctl, by systemd as a watchdog and at boot as a reaper, and is gone when the drill is.
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
