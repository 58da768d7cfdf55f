// Command gpuaas-gpu-probe queries NVIDIA's driver about every GPU of this node. It writes one line of JSON for
// each sample (gpu/report.Sample) and one for each event of the driver (gpu/report.Event).
//
// It is a separate process, since a call into the driver can hang uninterruptibly, crash the process, or exhaust
// its memory: the agent starts it, and continues without it. It judges nothing, stores nothing, opens no
// connection and has no secret. It exits when its stdin is closed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// version is set at link time.
var version = "dev"

const usage = `usage: gpuaas-gpu-probe [--interval D] [--call-deadline D] [--record FILE]

Writes one line of JSON: what NVIDIA's driver answers about every GPU of this node. With --interval it goes on, also
writes events of the driver, and ends when stdin is closed. GPUAAS_NVML_LIBRARY=/path loads another library than the
system's libnvidia-ml.so.1.

exit codes: 0 a sample was written, whatever it says; 2 wrong usage; 3 a call into the driver did not return in time;
4 the driver was unloaded or reloaded

`

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitStuck  = 3
)

// libraryVariable names the library to load.
const libraryVariable = "GPUAAS_NVML_LIBRARY"

// The limits of one sample. A healthy GPU responds to a call within milliseconds, one that is being reset within
// seconds.
const (
	callDeadline = 10 * time.Second
	minInterval  = 100 * time.Millisecond
)

// options are the flags.
type options struct {
	library  string
	interval time.Duration // 0: one sample
	deadline time.Duration // of one call, and of all queries of one sample together
	record   string
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, ownStdout(), os.Stderr)) }

func run(args []string, in io.Reader, out, errs io.Writer) int {
	o := options{library: os.Getenv(libraryVariable)}
	fs := flag.NewFlagSet("gpuaas-gpu-probe", flag.ContinueOnError)
	fs.SetOutput(errs)
	fs.Usage = func() { fmt.Fprint(errs, usage); fs.PrintDefaults() }
	fs.DurationVar(&o.interval, "interval", 0, "time between two samples; 0: one sample")
	fs.DurationVar(&o.deadline, "call-deadline", callDeadline, "how long one call into the driver may take")
	fs.StringVar(&o.record, "record", "", "write every call and its answer to `FILE`, as YAML that DCGM's NVML "+
		"injection library plays")
	showVersion := fs.Bool("version", false, "print the version")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case fs.NArg() > 0:
		fmt.Fprintf(errs, "gpuaas-gpu-probe: unexpected argument %q\n", fs.Arg(0))
		return exitUsage
	case o.deadline <= 0 || (o.interval != 0 && o.interval < minInterval):
		fmt.Fprintf(errs, "gpuaas-gpu-probe: --call-deadline must be positive, --interval 0 or at least %v\n", minInterval)
		return exitUsage
	case *showVersion:
		fmt.Fprintln(out, "gpuaas-gpu-probe", version)
		return exitOK
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if o.interval > 0 {
		ctx = untilClosed(ctx, in)
	}
	return sample(ctx, o, &writer{out: out}, errs)
}

// untilClosed cancels ctx when in is closed: the process that started this one has exited.
func untilClosed(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process: a read of stdin cannot be canceled
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx
}

// writer writes lines of JSON. It is safe for concurrent use.
type writer struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

func (w *writer) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	return nil
}

// unknown returns the sample of a node whose driver could not be queried: it has no GPU.
func unknown(l report.Library) *report.Sample {
	none := report.Skipped(report.NoLibrary)
	l.Driver, l.NVML, l.CUDA = none, none, none
	return &report.Sample{APIVersion: report.APIVersion, Kind: report.KindSample, At: time.Now().UTC(), Library: l,
		Count: none}
}
