package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/owned"
)

// run executes one command line and returns the process's exit code.
func run(args []string) int {
	a := &cmdutil.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Built: version,
		Helpers: owned.ParseBuild(helpers)}
	ctx, stop := cmdutil.Interruptible()
	defer stop()
	return execute(a, ctx, args)
}

// execute runs the command tree over args. Only here an error becomes an exit code.
func execute(a *cmdutil.App, ctx context.Context, args []string) int {
	defer a.CleanOutput()()
	if cmdutil.Completes(args) {
		a.Stdout = &cmdutil.SafeWords{To: a.Stdout}
	}
	root, begun := newRoot(a, args)
	root.SetArgs(args)
	err := a.WithHint(cmp.Or(root.ExecuteContext(ctx), a.HelpError))
	if err != nil && !*begun { // only the command line itself can have been wrong
		err = &cmdutil.UsageError{Err: err, Command: helpPath(root, args)}
	}
	cmdutil.PrintError(a.Stderr, err)
	return cmdutil.CodeOf(err)
}

// helpPath returns the command whose --help shows what args could have been.
func helpPath(root *cobra.Command, args []string) string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd == nil {
		return root.CommandPath()
	}
	return cmd.CommandPath()
}
