//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/lab"
)

func newLab(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Raise an environment of real machines on this host, to try things on",
		Long: `A lab is a platform machine and a few nodes, each with its own systemd, sshd, journal, disk and network, as
containers on this host. It needs root, and takes everything away again with "lab down".

Start with:  gpuaasctl lab up && gpuaasctl preflight --profile lab --node-id compute-node-01 --allocation-id alloc-01`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLabUp(a), newLabDown(a), newLabStatus(a), newLabSSH(a), newLabExec(a), newLabLogs(a), newLabReboot(a), newLabSupervise(a))
	return cmd
}

func newLabUp(a *app) *cobra.Command {
	o := lab.Options{Progress: a.stderr}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring the lab up, or the rest of it; renew programs that were built anew",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("nodes") && (o.Nodes < 1 || o.Nodes > lab.MaxNodes) {
				return usagef("--nodes %d: want 1 to %d", o.Nodes, lab.MaxNodes)
			}
			_, err := lab.Up(cmd.Context(), o)
			return err
		},
	}
	cmd.Flags().IntVar(&o.Nodes, "nodes", 0, "`NUMBER` of compute nodes (default: 2, or as many as there are)")
	cmd.Flags().StringVar(&o.Libexec, "libexec", "", "`DIR` with gpuaas-agent and gpuaas-platform (default: beside this program)")
	return cmd
}

func newLabDown(a *app) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take the lab away: machines, network, keys and the profile",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lab.Down(cmd.Context(), lab.Options{Progress: a.stderr}, purge)
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the cached image, too")
	return cmd
}

func newLabStatus(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the machines, their addresses, memory and disks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := openLab()
			if err != nil {
				return err
			}
			if status := l.Status(cmd.Context()); output == "json" {
				return a.writeJSON(status)
			} else {
				return a.write(columnsIn(statusRows(status), width(a.stdout)))
			}
		},
	}
	formatFlag(cmd, &output, "table", "table", "json")
	return cmd
}

// statusRows is the table of `lab status`. What is not known is "-".
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

func newLabSSH(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "ssh MACHINE [-- COMMAND...]",
		Short:             "Log in to a machine as root over SSH",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLab()
			if err != nil {
				return err
			}
			argv, err := l.SSHArgv(args[0], args[1:]...)
			if err != nil {
				return asUsage(err)
			}
			ssh := exec.CommandContext(cmd.Context(), argv[0], argv[1:]...)
			ssh.Stdin, ssh.Stdout, ssh.Stderr = a.stdin, raw(a.stdout), raw(a.stderr)
			return asStatus(ssh.Run())
		},
	}
}

func newLabExec(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "exec MACHINE -- COMMAND...",
		Short:             "Run a command as root on a machine, without SSH; its exit status is passed on",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.labExec(cmd.Context(), args[0], args[1:])
		},
	}
}

func newLabLogs(a *app) *cobra.Command {
	var unit string
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:               "logs MACHINE",
		Short:             "Read a machine's journal",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			argv := []string{"journalctl", "--no-pager", "--lines", fmt.Sprint(lines)}
			if unit != "" {
				argv = append(argv, "--unit", unit)
			}
			if follow {
				argv = append(argv, "--follow")
			}
			return a.labExec(cmd.Context(), args[0], argv)
		},
	}
	cmd.Flags().StringVarP(&unit, "unit", "u", "", "only of this `UNIT`")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on")
	cmd.Flags().IntVarP(&lines, "lines", "n", 200, "the last `NUMBER` of lines")
	return cmd
}

func newLabReboot(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "reboot MACHINE",
		Short:             "Reboot a machine and wait until it answers again",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLab()
			if err != nil {
				return err
			}
			if _, err := l.Machine(args[0]); err != nil {
				return asUsage(err)
			}
			began := time.Now()
			if err := l.Reboot(cmd.Context(), args[0]); err != nil {
				return err
			}
			note(a.stderr, "%s is back after %.1fs", args[0], time.Since(began).Seconds())
			return nil
		},
	}
}

// newLabSupervise is the process that keeps one machine running; `lab up` starts it, detached.
func newLabSupervise(*app) *cobra.Command {
	var state string
	var spawn bool
	cmd := &cobra.Command{
		Use:    "supervise MACHINE",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
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

// openLab finds the lab of this host; that there is none is a mistake of the caller's.
func openLab() (*lab.Lab, error) {
	l, err := lab.Open(lab.Options{})
	if errors.Is(err, lab.ErrNotUp) {
		return nil, &usageError{err: err}
	}
	return l, err
}

func (a *app) labExec(ctx context.Context, machine string, argv []string) error {
	l, err := openLab()
	if err != nil {
		return err
	}
	if _, err := l.Machine(machine); err != nil {
		return asUsage(err)
	}
	status, err := l.ExecStdio(ctx, lab.Stdio{In: a.stdin, Out: raw(a.stdout), Err: raw(a.stderr)}, machine, argv...)
	if err != nil {
		return err
	}
	if status != 0 {
		return &verdictError{status}
	}
	return nil
}

// asStatus passes a program's exit status on as our own: the program has said itself what was wrong.
func asStatus(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return &verdictError{exit.ExitCode()}
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
