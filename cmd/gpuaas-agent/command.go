package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent"
	"github.com/gpuaas/gpuaasctl/agent/terminal"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
)

// Exit codes, the same as gpuaasctl's.
const (
	exitOK       = 0
	exitInternal = 1
	exitUsage    = 2
)

const usage = `usage: gpuaas-agent <command> [flags]

  run      [--dir /etc/gpuaas]      be this node's agent; configured by GPUAAS_* in the environment
  diag     [--dir F] [--json]       print this host's diagnostic record
  bundle   apply [--dir F]          take a recovery bundle on stdin: endpoints, trust and token together
  probe    [--unit U] [--env-file F] [--finish]
                                    measure: requests on stdin, facts on stdout, one JSON line each
  version  [--json]                 also --version
`

// system is what a command uses of the environment.
type system struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
}

func host() system {
	return system{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv}
}

func background() context.Context { return context.Background() }

// command runs one subcommand and returns the exit code.
func command(ctx context.Context, args []string, sys system) int {
	if len(args) == 0 {
		fmt.Fprint(sys.err, usage)
		return exitUsage
	}
	if args[0] == "--version" || args[0] == "-version" {
		args[0] = "version"
	}
	commands := map[string]func(context.Context, []string, system) error{
		"run": run, "probe": runProbe, "diag": runDiag, "bundle": runBundle, "version": printVersion,
		terminal.Command: becomeShell,
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		fmt.Fprint(sys.out, usage)
		return exitOK
	}
	cmd, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(sys.err, "gpuaas-agent: unknown command %q\n%s", args[0], usage)
		return exitUsage
	}
	err := cmd(ctx, args[1:], sys)
	switch {
	case errors.Is(err, terminal.ErrNoShell):
		fmt.Fprintln(sys.err, err) // to the tenant's terminal
		return terminal.ExitNoShell
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, new(*usageError)):
		fmt.Fprintln(sys.err, "gpuaas-agent:", err)
		return exitUsage
	}
	fmt.Fprintln(sys.err, "gpuaas-agent:", err)
	return exitInternal
}

// usageError is a mistake of the caller, in arguments or configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// parse parses flags and rejects positional arguments.
func parse(fs *flag.FlagSet, args []string, sys system) error {
	fs.SetOutput(sys.err)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return &usageError{err}
	}
	if fs.NArg() > 0 {
		return &usageError{fmt.Errorf("unexpected argument %q", fs.Arg(0))}
	}
	return nil
}

func run(ctx context.Context, args []string, sys system) error {
	fs := flag.NewFlagSet("gpuaas-agent run", flag.ContinueOnError)
	dir := fs.String("dir", agent.DefaultDir, "folder of cert.pem, key.pem and ca-bundle.crt")
	var kept recordFlags
	kept.declare(fs)
	if err := parse(fs, args, sys); err != nil {
		return err
	}
	cfg, err := agent.FromEnv(sys.env)
	if err != nil {
		return &usageError{fmt.Errorf("configuration: %w", err)}
	}
	slim(sys.env)
	cfg.Dir, cfg.Version = *dir, thisVersion()
	cfg.Log = slog.New(slog.NewTextHandler(sys.err, nil))
	release, err := agent.LockNode(ctx, cfg)
	if err != nil {
		return nil //nolint:nilerr // ended before its turn came
	}
	defer release()
	defer kept.keep(&cfg, cfg.Log)()
	defer shrink()()
	// if another build has to run, OpenBoot has replaced this process by it
	if cfg.Boot, err = agent.OpenBoot(cfg, sys.env); err != nil {
		return err
	}
	if err := agent.Run(ctx, cfg); err != nil || ctx.Err() != nil {
		return err
	}
	return cfg.Boot.Reexec()
}

// gcPercent is the garbage that triggers a collection, in percent of the live heap. The runtime's default of 100
// lets a heap of half a megabyte grow to its floor of 4 MB, which scales with the percentage, and what has grown
// stays resident; with 25 it grows to 1 MB. Collecting so little takes a fraction of a millisecond.
const gcPercent = 25

// slim reduces the footprint of a process that mostly waits: each core that the Go runtime uses has its own
// caches, and waking a second core for short work caused two of five context switches. The usual environment
// variables take precedence.
func slim(env func(string) string) {
	if env("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if env("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if env("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(64 << 20)
	}
}

// shrinkEvery is how often memory is returned to the system. A collection and the page faults that follow take a
// millisecond.
const shrinkEvery = 10 * time.Second

// shrink periodically returns memory that reading the record and handling responses leave behind, until the result
// is called. The runtime would keep it: its scavenger leaves a tenth more than the heap had at the last
// collection, and a collection happens only after half a megabyte of garbage. That was 0.7 MB of resident memory
// at rest.
func shrink() (stop func()) {
	tick, over := time.NewTicker(shrinkEvery), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-tick.C:
				debug.FreeOSMemory()
			case <-over:
				return
			}
		}
	})
	return func() { tick.Stop(); close(over); wg.Wait() }
}

func runProbe(ctx context.Context, args []string, sys system) error {
	fs := flag.NewFlagSet("gpuaas-agent probe", flag.ContinueOnError)
	cfg := probe.Config{Version: thisVersion()}
	fs.StringVar(&cfg.Unit, "unit", "gpuaas-node-agent.service", "the agent's systemd unit")
	fs.StringVar(&cfg.EnvFile, "env-file", "/etc/gpuaas/agent.env", "the agent's environment, for when it does not run")
	fs.BoolVar(&cfg.Finish, "finish", false, "answer what was asked when stdin ends, instead of giving it up")
	fs.IntVar(&cfg.Inside, "in-namespace", 0, "internal: pid of the agent whose namespaces this process is in")
	if err := parse(fs, args, sys); err != nil {
		return err
	}
	cfg.Exec = func(pid int) []string {
		return []string{"probe", "--unit", cfg.Unit, "--env-file", cfg.EnvFile, "--in-namespace", strconv.Itoa(pid)}
	}
	return probe.Serve(ctx, sys.in, sys.out, cfg)
}

// becomeShell is internal: systemd starts it in the unit of a terminal session.
func becomeShell(_ context.Context, args []string, _ system) error {
	if len(args) != 1 {
		return &usageError{errors.New("session is started by the agent")}
	}
	return terminal.Become(args[0])
}

func printVersion(_ context.Context, args []string, sys system) error {
	fs := flag.NewFlagSet("gpuaas-agent version", flag.ContinueOnError)
	asJSON := fs.Bool("json", false, "as one JSON document")
	if err := parse(fs, args, sys); err != nil {
		return err
	}
	if !*asJSON {
		_, err := fmt.Fprintln(sys.out, "gpuaas-agent", thisVersion())
		return err
	}
	return json.NewEncoder(sys.out).Encode(map[string]string{
		"name": "gpuaas-agent", "version": thisVersion(), "go": runtime.Version(),
		"os": runtime.GOOS, "arch": runtime.GOARCH,
	})
}
