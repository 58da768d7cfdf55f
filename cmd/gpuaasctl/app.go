package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/gpuaas/gpuaasctl/internal/clean"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// app is the edge of the process: what every command reads from and writes to. stdout carries one document; notes,
// progress and questions go to stderr.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    func(string) string
}

// run executes one command line and returns the process's exit code.
func run(args []string) int {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Getenv}
	ctx, stop := interruptible()
	defer stop()
	return a.execute(ctx, args)
}

// interruptible is cancelled by the first SIGINT or SIGTERM, or by the end of the terminal where nohup does not keep it
// off, so that a walk can still say what it saw; the second one ends the process at once.
func interruptible() (context.Context, context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// execute runs the command tree over args. This is the one place where an error becomes an exit code.
func (a *app) execute(ctx context.Context, args []string) int {
	defer a.cleaned()()
	root, begun := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !*begun { // nothing but the command line itself can have been wrong
		err = &usageError{err: err, command: helpPath(root, args)}
	}
	sayError(a.stderr, err)
	return codeOf(err)
}

// helpPath is the command whose --help shows what args could have been.
func helpPath(root *cobra.Command, args []string) string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd == nil {
		return root.CommandPath()
	}
	return cmd.CommandPath()
}

// cleaned puts a cleaning writer before stdout and stderr: whatever a command shows, nothing in it is obeyed by a terminal
// but our own colours. end writes what they have kept, and removes them. The live table has the terminal itself, and cleans
// what it shows cell by cell; a program of "lab ssh" or "lab exec" has it, too (see raw).
func (a *app) cleaned() (end func()) {
	stdout, stderr := a.stdout, a.stderr
	out := &clean.Writer{To: stdout, Colour: a.colour(stdout)}
	errs := &clean.Writer{To: stderr, Colour: a.colour(stderr)}
	a.stdout, a.stderr = out, errs
	return func() {
		_, _ = out.Flush(), errs.Flush() // what cannot be written now could not be before
		a.stdout, a.stderr = stdout, stderr
	}
}

// raw is what is beneath a cleaning writer, for a program that has the streams to itself.
func raw(w io.Writer) io.Writer {
	if u, ok := w.(interface{ Unwrap() io.Writer }); ok {
		return u.Unwrap()
	}
	return w
}

// fileOf is a stream as a file; nil where it is none.
func fileOf(stream any) *os.File {
	if w, ok := stream.(io.Writer); ok {
		stream = raw(w)
	}
	f, _ := stream.(*os.File)
	return f
}

// isTerminal reports whether w is a terminal that a person looks at.
func isTerminal(w any) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// width is the number of columns of w; 0 where it is no terminal.
func width(w any) int {
	f := fileOf(w)
	if f == nil {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// colour reports whether output to w may be coloured: a terminal, and NO_COLOR not set (to anything but nothing).
func (a *app) colour(w any) bool {
	return isTerminal(w) && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"
}
