//go:build linux

package labcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/lab"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "A lab of real machines on this host, for practice",
		Long: `A lab is a platform machine and a few nodes, each with its own systemd, sshd, journal, disk and network, as
containers on this host. It needs root, and removes everything again with "lab down".

Start with:  gpuaasctl lab up && gpuaasctl preflight --profile lab --node-id compute-node-01 --allocation-id alloc-01`,
		Args:                       cmdutil.KnownCommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLabUp(a), newLabDown(a), newLabStatus(a), newLabSSH(a), newLabExec(a), newLabLogs(a),
		newLabReboot(a), newLabSupervise(a))
	return cmd
}

func newLabUp(a *cmdutil.App) *cobra.Command {
	o := lab.Options{Progress: a.Stderr}
	cmd := &cobra.Command{
		Use:     "up",
		Short:   "Start the lab, or what is missing of it; replace programs that were rebuilt",
		Example: `  gpuaasctl lab up --nodes 3`,
		Args:    cmdutil.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("nodes") && (o.Nodes < 1 || o.Nodes > lab.MaxNodes) {
				return cmdutil.Usagef("--nodes %d: want 1 to %d", o.Nodes, lab.MaxNodes)
			}
			_, err := lab.Up(cmd.Context(), o)
			return asRoot(err)
		},
	}
	cmd.Flags().IntVar(&o.Nodes, "nodes", 0, "`NUMBER` of compute nodes (default: 2, or as many as there are)")
	cmd.Flags().StringVar(&o.Libexec, "libexec", "",
		"`DIR` with gpuaas-agent and gpuaas-platform (default: beside this program)")
	return cmd
}

func newLabDown(a *cmdutil.App) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:     "down",
		Short:   "Remove the lab: machines, network, keys and the profile",
		Example: `  gpuaasctl lab down`,
		Args:    cmdutil.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return asRoot(lab.Down(cmd.Context(), lab.Options{Progress: a.Stderr}, purge))
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove the cached image")
	return cmd
}

func newLabStatus(a *cmdutil.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the machines, their addresses, memory and disks",
		Example: `  gpuaasctl lab status`,
		Args:    cmdutil.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := openLab()
			if err != nil {
				return err
			}
			status := l.Status(cmd.Context())
			return a.ShowPage(status, output, cmdutil.Table(statusRows(status)))
		},
	}
	cmdutil.PageFlag(cmd, &output)
	return cmd
}

// statusRows is the table of `lab status`. An unknown value is "-".
func statusRows(status []lab.MachineStatus) [][]string {
	const mib = 1 << 20
	rows := [][]string{{"MACHINE", "STATE", "ADDRESS", "UP", "PROCS", "PSS", "RSS", "DISK"}}
	for _, s := range status {
		up := "-"
		if s.UptimeSeconds != nil {
			up = (time.Duration(*s.UptimeSeconds) * time.Second).String()
		}
		rows = append(rows, []string{
			s.Name, s.State, strings.Join(s.Addresses, ","), up, fmt.Sprint(s.Processes),
			fmt.Sprintf("%d MiB", s.PSSBytes/mib), fmt.Sprintf("%d MiB", s.RSSBytes/mib),
			fmt.Sprintf("%d/%d MiB", s.DiskUsed/mib, s.DiskSize/mib),
		})
	}
	return rows
}

func newLabSSH(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh MACHINE [-- COMMAND...]",
		Short: "Log in to a machine as root over SSH",
		Example: `  gpuaasctl lab ssh compute-node-01
  gpuaasctl lab ssh compute-node-01 -- systemctl --failed`,
		Args:              cmdutil.Args(1, -1),
		ValidArgsFunction: completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLab()
			if err != nil {
				return err
			}
			argv, err := l.SSHArgv(args[0], args[1:]...)
			if err != nil {
				return cmdutil.AsUsage(err)
			}
			ssh := exec.CommandContext(cmd.Context(), argv[0], argv[1:]...)
			ssh.Stdin, ssh.Stdout, ssh.Stderr = a.Stdin, cmdutil.Raw(a.Stdout), cmdutil.Raw(a.Stderr)
			return asStatus(ssh.Run())
		},
	}
}

func newLabExec(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:               "exec MACHINE -- COMMAND...",
		Short:             "Run a command as root on a machine, without SSH; its exit status is passed on",
		Example:           `  gpuaasctl lab exec compute-node-01 -- systemctl stop gpuaas-node-agent`,
		Args:              cmdutil.Args(2, -1),
		ValidArgsFunction: completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			return labExec(a, cmd.Context(), args[0], args[1:])
		},
	}
}

func newLabLogs(a *cmdutil.App) *cobra.Command {
	var unit string
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs MACHINE",
		Short: "Read a machine's journal",
		Example: `  gpuaasctl lab logs platform -f
  gpuaasctl lab logs compute-node-01 -u gpuaas-node-agent -n 50`,
		Args:              cmdutil.Args(1, 1),
		ValidArgsFunction: completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			argv := []string{"journalctl", "--no-pager", "--lines", fmt.Sprint(lines)}
			if unit != "" {
				argv = append(argv, "--unit", unit)
			}
			if follow {
				argv = append(argv, "--follow")
			}
			return labExec(a, cmd.Context(), args[0], argv)
		},
	}
	cmd.Flags().StringVarP(&unit, "unit", "u", "", "only of this `UNIT`")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue with new lines")
	cmd.Flags().IntVarP(&lines, "lines", "n", 200, "the last `NUMBER` of lines")
	return cmd
}

func newLabReboot(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:               "reboot MACHINE",
		Short:             "Reboot a machine and wait until it answers",
		Example:           `  gpuaasctl lab reboot compute-node-01`,
		Args:              cmdutil.Args(1, 1),
		ValidArgsFunction: completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLab()
			if err != nil {
				return err
			}
			if _, err := l.Machine(args[0]); err != nil {
				return cmdutil.AsUsage(err)
			}
			began := time.Now()
			if err := l.Reboot(cmd.Context(), args[0]); err != nil {
				return err
			}
			a.Note("%s is back after %.1fs", args[0], time.Since(began).Seconds())
			return nil
		},
	}
}

// newLabSupervise is the process that keeps one machine running; `lab up` starts it, detached.
func newLabSupervise(*cmdutil.App) *cobra.Command {
	var state string
	var spawn bool
	cmd := &cobra.Command{
		Use:    "supervise MACHINE",
		Hidden: true,
		Args:   cmdutil.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if spawn {
				return lab.Spawn(state, args[0])
			}
			return lab.Supervise(context.WithoutCancel(cmd.Context()), state, args[0])
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "the lab's state `DIR`")
	cmd.Flags().BoolVar(&spawn, "spawn", false, "become the machine")
	return cmd
}

// openLab finds the lab of this host; a missing lab is a usage error.
func openLab() (*lab.Lab, error) {
	l, err := lab.Open(lab.Options{})
	if errors.Is(err, lab.ErrNotUp) {
		return nil, &cmdutil.UsageError{Err: err}
	}
	return l, asRoot(err)
}

// asRoot turns a permission error into a usage error, with advice.
func asRoot(err error) error {
	if err != nil && os.Geteuid() != 0 && (errors.Is(err, fs.ErrPermission) || errors.Is(err, lab.ErrNotRoot)) {
		return cmdutil.Usagef("%w; the lab is root's: run this with sudo", err)
	}
	return err
}

func labExec(a *cmdutil.App, ctx context.Context, machine string, argv []string) error {
	l, err := openLab()
	if err != nil {
		return err
	}
	if _, err := l.Machine(machine); err != nil {
		return cmdutil.AsUsage(err)
	}
	status, err := l.ExecStdio(ctx, lab.Stdio{In: a.Stdin, Out: cmdutil.Raw(a.Stdout), Err: cmdutil.Raw(a.Stderr)},
		machine, argv...)
	if err != nil {
		return err
	}
	if status != 0 {
		return &cmdutil.VerdictError{Code: status}
	}
	return nil
}

// asStatus passes a program's exit status on as our own: the program has printed its error itself.
func asStatus(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return &cmdutil.VerdictError{Code: exit.ExitCode()}
	}
	return err
}

func completeMachine(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	l, err := openLab()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, m := range l.Machines() {
		names = append(names, m.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
