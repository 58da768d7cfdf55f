package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/gpuaas/gpuaasctl/lab/platform"
)

// version is set by the linker.
var version = "dev"

const usage = `usage: gpuaas-platform <command> [--config FILE]

  serve          run the control plane until SIGTERM or SIGINT
  task-pubkeys   print the value of GPUAAS_TASK_SIGNING_PUBKEYS for nodes
  workload       serve the lab's sample workload: --listen ADDRESS --files FOLDER
  version        print the version
`

// defaultConfig is the path of the configuration on a platform machine.
const defaultConfig = "/etc/gpuaas-platform/platform.yaml"

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// run runs one command and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	path := flags.String("config", defaultConfig, "configuration `file`")
	listen := flags.String("listen", "127.0.0.1:8888", "`address` of the sample workload")
	files := flags.String("files", ".", "`folder` that the sample workload serves")
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	switch args[0] {
	case "version", "--version":
		fmt.Fprintln(stdout, version)
		return exitOK
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	case "serve":
		return withConfig(*path, stderr, func(cfg platform.Config) error { return serve(cfg, stderr) })
	case "workload":
		return serveWorkload(*listen, *files, stderr)
	case "task-pubkeys":
		return withConfig(*path, stderr, func(cfg platform.Config) error {
			keys, err := platform.TaskPubkeys(cfg.TaskSigningKey)
			if err == nil {
				fmt.Fprintln(stdout, keys)
			}
			return err
		})
	}
	fmt.Fprintf(stderr, "gpuaas-platform: unknown command %q\n%s", args[0], usage)
	return exitUsage
}

// withConfig loads the configuration and calls do; an invalid configuration is a usage error.
func withConfig(path string, stderr io.Writer, do func(platform.Config) error) int {
	cfg, err := platform.LoadConfig(path)
	if err != nil {
		fmt.Fprintf(stderr, "gpuaas-platform: %v\n", err)
		return exitUsage
	}
	if err := do(cfg); err != nil {
		fmt.Fprintf(stderr, "gpuaas-platform: %v\n", err)
		return exitError
	}
	return exitOK
}

// serve runs the platform until a signal; a second signal ends it immediately.
func serve(cfg platform.Config, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	p, err := platform.New(cfg, platform.Deps{Log: log, Version: version})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, stop)
	log.Info("platform starts", "version", version)
	return p.Run(ctx)
}
