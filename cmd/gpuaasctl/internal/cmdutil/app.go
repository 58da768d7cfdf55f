package cmdutil

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

// App has the process's streams and environment, which every command uses. stdout gets one document; notes, progress
// and questions go to stderr.
type App struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    func(string) string
	Quiet  bool   // --quiet: only documents, questions and errors
	Color  string // --color: ColorAuto, ColorAlways or ColorNever; "" is ColorAuto
	Built  string // the version set by the build; "" or "dev" if it set none
	// Helpers are the programs of this build that run beside it or on nodes.
	Helpers owned.Build
	// Hops is the chain of every walk and replay; nil: the built-in one.
	Hops *hop.Chain

	// Instead replaces the work of every command (see Run), so that a test sees the options of a command line.
	Instead func(cmd *cobra.Command, options any, args []string) error

	HelpError error // that help was asked for an unknown command; set by Help
}

// CleanOutput wraps stdout and stderr in cleaning writers: no control characters in a command's output reach a
// terminal, except our own colours, and no CI system executes a part of it. end flushes and removes them. The live
// table writes to the terminal directly, and cleans each cell itself; so does a program of "lab ssh" or "lab exec"
// (see Raw).
func (a *App) CleanOutput() (end func()) {
	stdout, stderr := a.Stdout, a.Stderr
	out := &clean.Writer{To: stdout, Colour: a.colour(stdout)}
	errs := &clean.Writer{To: stderr, Colour: a.colour(stderr)}
	a.Stdout, a.Stderr = out, errs
	return func() {
		_, _ = out.Flush(), errs.Flush() // what cannot be written now could not be written before either
		a.Stdout, a.Stderr = stdout, stderr
	}
}

// Raw returns the writer below a cleaning writer, for a program that uses the streams itself.
func Raw(w io.Writer) io.Writer {
	if u, ok := w.(interface{ Unwrap() io.Writer }); ok {
		return u.Unwrap()
	}
	return w
}

// fileOf returns a stream as a file, or nil.
func fileOf(stream any) *os.File {
	if w, ok := stream.(io.Writer); ok {
		stream = Raw(w)
	}
	f, _ := stream.(*os.File)
	return f
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// Size returns the number of columns and rows of w: COLUMNS if it is a number, otherwise the terminal's; 0 if w is not
// a terminal.
func (a *App) Size(w any) (columns, rows int) {
	if f := fileOf(w); f != nil {
		var err error
		if columns, rows, err = term.GetSize(int(f.Fd())); err != nil {
			columns, rows = 0, 0
		}
	}
	if n, err := strconv.Atoi(a.Env("COLUMNS")); err == nil && n > 0 {
		columns = n
	}
	return columns, rows
}

// Width returns the number of columns of w, or 0 if it is not a terminal and COLUMNS is not set.
func (a *App) Width(w any) int {
	columns, _ := a.Size(w)
	return columns
}

// What --color takes.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// ColorFlag declares --color for every command.
func (a *App) ColorFlag(root *cobra.Command) {
	a.Color = ColorAuto
	words := []string{ColorAuto, ColorAlways, ColorNever}
	root.PersistentFlags().Var(&choice{&a.Color, words}, "color",
		"use colour `WHEN`: "+OneOf(words))
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Colored applies --color to the streams; before the call they follow the environment.
func (a *App) Colored() {
	for _, w := range [...]io.Writer{a.Stdout, a.Stderr} {
		if w, ok := w.(*clean.Writer); ok {
			w.Colour = a.colour(w)
		}
	}
}

// colour reports whether output to w may be coloured. The first that decides: --color, NO_COLOR, CLICOLOR_FORCE or
// FORCE_COLOR, TERM, and whether w is a terminal.
func (a *App) colour(w any) bool {
	switch {
	case a.Color == ColorAlways:
		return true
	case a.Color == ColorNever, a.Env("NO_COLOR") != "":
		return false
	case a.forced("CLICOLOR_FORCE"), a.forced("FORCE_COLOR"):
		return true
	}
	return IsTerminal(w) && a.Env("TERM") != "dumb"
}

// forced reports whether a variable asks for colour: it is set, to neither 0 nor false.
func (a *App) forced(name string) bool {
	v := a.Env(name)
	return v != "" && v != "0" && v != "false"
}

// Terminals returns stdin and stdout as files, nil for any other stream.
func Terminals(a *App) (in, out *os.File) {
	return fileOf(a.Stdin), fileOf(a.Stdout)
}

// Chain returns the chain of every walk and replay.
func (a *App) Chain() *hop.Chain { return cmp.Or(a.Hops, hops.BuiltIn()) }

// Write writes the command's one document to stdout.
func (a *App) Write(b []byte) error {
	if _, err := a.Stdout.Write(b); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// ToolVersion returns the version of this build: what the build set, else the module's (go install), else "dev".
func (a *App) ToolVersion() string {
	if a.Built != "" && a.Built != "dev" {
		return a.Built
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
