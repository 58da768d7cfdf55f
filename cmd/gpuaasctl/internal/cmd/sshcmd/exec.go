package sshcmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/ops"
)

// execOptions select the node, and how to run the command.
type execOptions struct {
	cmdutil.TargetOptions
	stdin   bool
	asLogin bool
}

func newSSHExec(a *cmdutil.App) *cobra.Command {
	o := &execOptions{}
	cmd := &cobra.Command{
		Use:   "exec NODE -- COMMAND...",
		Short: "Run a command on a node, as a walk logs in there",
		Long: `Runs a command on a node over SSH with the profile's user, key and jump host, as root where the login may be root. The
host key must be a known one. Words after -- arrive as they are: for pipes and variables of the node's shell, run
sh -c. Output is passed on while it comes, 64 MiB at most; characters that a terminal would obey are escaped.

Exit codes: 0 the command ended with 0, 2 usage or configuration, 3 it ended with another exit code or by a signal,
which stderr names, 5 its end is not known (no login, the connection or the deadline ended it, or too much output),
130 interrupted. At the deadline and at Ctrl-C the command gets SIGTERM where the node's SSH server passes that on.`,
		Example: `  gpuaasctl ssh exec compute-node-01 --profile lab -- journalctl -u gpuaas-node-agent.service -n 100 --no-pager
  gpuaasctl ssh exec compute-node-01 --profile lab --stdin -- sh -s <script.sh`,
		Args: commandBehindDash,
		RunE: cmdutil.Run(a, o, runExec),
	}
	o.Flags(a, cmd)
	_ = cmd.Flags().MarkHidden("libexec") // nothing is installed on the node
	cmd.Flags().BoolVar(&o.stdin, "stdin", false, "pass stdin on to the command")
	cmd.Flags().BoolVar(&o.asLogin, "as-login", false, "run as the login itself, not as root")
	return cmd
}

// commandBehindDash requires NODE, unless it is known otherwise, and the command after --.
func commandBehindDash(cmd *cobra.Command, args []string) error {
	if dash := cmd.ArgsLenAtDash(); dash < 0 || dash > 1 || len(args) == dash {
		return errors.New("want NODE -- COMMAND, with the words of the command after --")
	}
	return nil
}

func runExec(a *cmdutil.App, cmd *cobra.Command, o *execOptions, args []string) error {
	dash := cmd.ArgsLenAtDash()
	o.Nobody = true // no token is needed
	s, err := a.Target(cmd, &o.TargetOptions, args[:dash], ops.Target{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Deadline)
	defer cancel()
	c := ops.Command{Argv: args[dash:], Out: a.Stdout, Errors: a.Stderr, AsLogin: o.asLogin}
	if o.stdin {
		c.Stdin = a.Stdin
	}
	err = s.Exec(ctx, c)
	var ended *ops.EndedError
	switch {
	case errors.As(err, &ended):
		return &cmdutil.FailedError{Err: ended}
	case errors.As(err, new(*ops.UnreadError)):
		return a.NotMeasured(err)
	}
	return err
}
