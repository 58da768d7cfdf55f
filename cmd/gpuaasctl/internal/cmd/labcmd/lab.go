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
	return cmdutil.Parent("lab", "A lab of real machines on this host, for practice",
		`A lab is a platform machine and a few nodes, each with its own systemd, sshd, journal, disk and network, as
containers on this host. It needs root, and removes everything again with "lab down".

Start with:  gpuaasctl lab up && gpuaasctl preflight --profile lab --node-id compute-node-01 --allocation-id alloc-01`,
		newLabUp(a), newLabDown(a), newLabStatus(a), newLabSSH(a), newLabExec(a), newLabLogs(a), newLabReboot(a),
		newLabSupervise(a))
}

func newLabUp(a *cmdutil.App) *cobra.Command {
	o := &lab.Options{}
	cmd := &cobra.Command{
		Use:     "up",
		Short:   "Start the lab, or what is missing of it; replace programs that were rebuilt",
		Example: `  gpuaasctl lab up --nodes 3`,
		Args:    cmdutil.Args(0, 0),
		RunE:    cmdutil.Run(a, o, up),
	}
	cmd.Flags().IntVar(&o.Nodes, "nodes", 0, "`NUMBER` of compute nodes (default: 2, or as many as there are)")
	cmd.Flags().IntVar(&o.Bare, "bare", 0, "`NUMBER` of machines with an SSH server and nothing else, and a profile of "+
		"their own, lab-bare (default: as many as there are)")
	cmd.Flags().StringVar(&o.Libexec, "libexec", "",
		"`DIR` with gpuaas-agent and gpuaas-platform (default: beside this program)")
	return cmd
}

func up(a *cmdutil.App, cmd *cobra.Command, o *lab.Options, _ []string) error {
	if cmd.Flags().Changed("nodes") && (o.Nodes < 1 || o.Nodes > lab.MaxNodes) {
		return cmdutil.Usagef("--nodes %d: want 1 to %d", o.Nodes, lab.MaxNodes)
	}
	if o.Bare < 0 || o.Bare > lab.MaxBare {
		return cmdutil.Usagef("--bare %d: want 0 to %d", o.Bare, lab.MaxBare)
	}
	o.Progress = a.Stderr
	_, err := lab.Up(cmd.Context(), *o)
	return asRoot(err)
}

// downOptions are the options of `lab down`.
type downOptions struct{ purge bool }

func newLabDown(a *cmdutil.App) *cobra.Command {
	o := &downOptions{}
	cmd := &cobra.Command{
		Use:     "down",
		Short:   "Remove the lab: machines, network, keys and the profile",
		Example: `  gpuaasctl lab down`,
		Args:    cmdutil.Args(0, 0),
		RunE:    cmdutil.Run(a, o, down),
	}
	cmd.Flags().BoolVar(&o.purge, "purge", false, "also remove the cached image")
	return cmd
}

func down(a *cmdutil.App, cmd *cobra.Command, o *downOptions, _ []string) error {
	return asRoot(lab.Down(cmd.Context(), lab.Options{Progress: a.Stderr}, o.purge))
}

func newLabStatus(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, showStatus, &cobra.Command{
		Use:     "status",
		Short:   "Show the machines, their addresses, memory and disks",
		Example: `  gpuaasctl lab status`,
		Args:    cmdutil.Args(0, 0),
	}, cmdutil.PageFormats()...)
}

func showStatus(a *cmdutil.App, cmd *cobra.Command, o *cmdutil.OutputOptions, _ []string) error {
	l, err := openLab()
	if err != nil {
		return err
	}
	status := l.Status(cmd.Context())
	return a.ShowPage(status, o.Output, cmdutil.Table(statusRows(status)))
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
		RunE:              cmdutil.Run(a, struct{}{}, ssh),
	}
}

func ssh(a *cmdutil.App, cmd *cobra.Command, _ struct{}, args []string) error {
	l, err := openLab()
	if err != nil {
		return err
	}
	argv, err := l.SSHArgv(args[0], args[1:]...)
	if err != nil {
		return cmdutil.AsUsage(err)
	}
	client := exec.CommandContext(cmd.Context(), argv[0], argv[1:]...)
	client.Stdin, client.Stdout, client.Stderr = a.Stdin, cmdutil.Raw(a.Stdout), cmdutil.Raw(a.Stderr)
	err = client.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() { // it has printed its error itself
		return &cmdutil.VerdictError{Code: exit.ExitCode()}
	}
	return err
}

func newLabExec(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:               "exec MACHINE -- COMMAND...",
		Short:             "Run a command as root on a machine, without SSH; its exit status is passed on",
		Example:           `  gpuaasctl lab exec compute-node-01 -- systemctl stop gpuaas-node-agent`,
		Args:              cmdutil.Args(2, -1),
		ValidArgsFunction: completeMachine,
		RunE:              cmdutil.Run(a, struct{}{}, execute),
	}
}

// logsOptions choose the lines of a journal.
type logsOptions struct {
	unit   string
	follow bool
	lines  int
}

func newLabLogs(a *cmdutil.App) *cobra.Command {
	o := &logsOptions{}
	cmd := &cobra.Command{
		Use:   "logs MACHINE",
		Short: "Read a machine's journal",
		Example: `  gpuaasctl lab logs platform -f
  gpuaasctl lab logs compute-node-01 -u gpuaas-node-agent -n 50`,
		Args:              cmdutil.Args(1, 1),
		ValidArgsFunction: completeMachine,
		RunE:              cmdutil.Run(a, o, logs),
	}
	cmd.Flags().StringVarP(&o.unit, "unit", "u", "", "only of this `UNIT`")
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "continue with new lines")
	cmd.Flags().IntVarP(&o.lines, "lines", "n", 200, "the last `NUMBER` of lines")
	return cmd
}

func logs(a *cmdutil.App, cmd *cobra.Command, o *logsOptions, args []string) error {
	args = append(args, "journalctl", "--no-pager", "--lines", fmt.Sprint(o.lines))
	if o.unit != "" {
		args = append(args, "--unit", o.unit)
	}
	if o.follow {
		args = append(args, "--follow")
	}
	return execute(a, cmd, struct{}{}, args)
}

func newLabReboot(a *cmdutil.App) *cobra.Command {
	return &cobra.Command{
		Use:               "reboot MACHINE",
		Short:             "Reboot a machine and wait until it answers",
		Example:           `  gpuaasctl lab reboot compute-node-01`,
		Args:              cmdutil.Args(1, 1),
		ValidArgsFunction: completeMachine,
		RunE:              cmdutil.Run(a, struct{}{}, reboot),
	}
}

func reboot(a *cmdutil.App, cmd *cobra.Command, _ struct{}, args []string) error {
	l, err := openLab(args[0])
	if err != nil {
		return err
	}
	began := time.Now()
	if err := l.Reboot(cmd.Context(), args[0]); err != nil {
		return err
	}
	a.Note("%s is back after %.1fs", args[0], time.Since(began).Seconds())
	return nil
}

// superviseOptions are the options of `lab supervise`.
type superviseOptions struct {
	state string
	spawn bool
}

// newLabSupervise is the process that keeps one machine running; `lab up` starts it, detached.
func newLabSupervise(a *cmdutil.App) *cobra.Command {
	o := &superviseOptions{}
	cmd := &cobra.Command{
		Use:    "supervise MACHINE",
		Hidden: true,
		Args:   cmdutil.Args(1, 1),
		RunE:   cmdutil.Run(a, o, supervise),
	}
	cmd.Flags().StringVar(&o.state, "state", "", "the lab's state `DIR`")
	cmd.Flags().BoolVar(&o.spawn, "spawn", false, "become the machine")
	return cmd
}

func supervise(_ *cmdutil.App, cmd *cobra.Command, o *superviseOptions, args []string) error {
	if o.spawn {
		return lab.Spawn(o.state, args[0])
	}
	return lab.Supervise(context.WithoutCancel(cmd.Context()), o.state, args[0])
}

// openLab finds the lab of this host, which has the machines; a missing lab or machine is a usage error.
func openLab(machines ...string) (*lab.Lab, error) {
	l, err := lab.Open(lab.Options{})
	if errors.Is(err, lab.ErrNotUp) {
		return nil, &cmdutil.UsageError{Err: err}
	}
	if err != nil {
		return nil, asRoot(err)
	}
	for _, name := range machines {
		if _, err := l.Machine(name); err != nil {
			return nil, cmdutil.AsUsage(err)
		}
	}
	return l, nil
}

// asRoot turns a permission error into a usage error, with advice.
func asRoot(err error) error {
	if err != nil && os.Geteuid() != 0 && (errors.Is(err, fs.ErrPermission) || errors.Is(err, lab.ErrNotRoot)) {
		return cmdutil.Usagef("%w; the lab is root's: run this with sudo", err)
	}
	return err
}

// execute runs a command on a machine: args has both.
func execute(a *cmdutil.App, cmd *cobra.Command, _ struct{}, args []string) error {
	l, err := openLab(args[0])
	if err != nil {
		return err
	}
	streams := lab.Stdio{In: a.Stdin, Out: cmdutil.Raw(a.Stdout), Err: cmdutil.Raw(a.Stderr)}
	status, err := l.ExecStdio(cmd.Context(), streams, args[0], args[1:]...)
	if err != nil {
		return err
	}
	if status != 0 {
		return &cmdutil.VerdictError{Code: status}
	}
	return nil
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
