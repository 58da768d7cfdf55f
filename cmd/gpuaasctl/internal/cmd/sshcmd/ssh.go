// Package sshcmd is "gpuaasctl ssh": it accepts a node's first host key, and runs a command on a node.
package sshcmd

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// New returns the command with its subcommands.
func New(a *cmdutil.App) *cobra.Command {
	return cmdutil.Parent("ssh", "SSH to nodes: accept a first host key, run a command", "",
		newSSHTrust(a), newSSHExec(a))
}

// trustOptions select the node, and whether the operator has already confirmed its key.
type trustOptions struct {
	profile cmdutil.ProfileFlags
	nodeID  string
	host    string
	confirm string
}

func newSSHTrust(a *cmdutil.App) *cobra.Command {
	o := &trustOptions{}
	cmd := &cobra.Command{
		Use:   "trust [NODE]",
		Short: "Show a node's host key and accept it if none is known yet",
		Long: `Shows the fingerprint of a node's host key and, when the node's name is typed (or given by --confirm), adds the key to
the known_hosts file of the profile, or of ssh_config. NODE is a node of the profile, or a host. A key that differs from
a known one is never accepted here: find out why it changed first.`,
		Example: `  gpuaasctl ssh trust compute-node-01 --profile lab
  gpuaasctl ssh trust compute-node-01 --profile lab --confirm compute-node-01`,
		Args: cmdutil.Args(0, 1),
		RunE: cmdutil.Run(a, o, runTrust),
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&o.confirm, "confirm", "", "accept without a question; `NODE` once more")
	cmd.Flags().StringVar(&o.host, "node-host", "", "where the node is reached: `HOST` name or address")
	o.profile.AddName(a, cmd)
	a.NodeFlag(cmd, &o.nodeID, &o.profile)
	return cmd
}

// runTrust reads the key, asks, and only then writes.
func runTrust(a *cmdutil.App, cmd *cobra.Command, o *trustOptions, args []string) error {
	p, _, err := o.profile.Load(a, cmd)
	if err != nil {
		return err
	}
	node, err := a.Node(cmd, args, o.nodeID, &p)
	if err != nil {
		return err
	}
	if o.confirm != "" && o.confirm != node {
		return cmdutil.Usagef("--confirm %s: want %s, the node whose key is to be accepted", o.confirm, node)
	}
	cfg := a.SiteWith(p, o.profile.Name, "", ops.Secrets{}).Host(node, o.host)
	mistyped := func(err error) error { // NODE may also be a host name: only a name that is not found is a mistake
		if near := p.OtherNodes(node); err != nil && near != "" && o.host == "" && vantage.NotFound(err) {
			return cmdutil.Usagef("%s is not a node of the profile (it has %s), nor a host that can be found: %w", node, near,
				err)
		}
		return err
	}
	shown := ""
	if o.confirm == "" && !cmdutil.IsTerminal(a.Stdin) {
		fingerprint, _, err := vantage.AcceptHostKey(cmd.Context(), cfg)
		if err != nil {
			return mistyped(&cmdutil.FailedError{Err: err})
		}
		return cmdutil.Usagef("stdin is not a terminal: %s (%s) shows the host key %s; compare it with the one "+
			"on the node's console or from its provider, and pass --confirm %s", node, cfg.Host, fingerprint, node)
	}
	if o.confirm == "" {
		if shown, err = askTrust(a, cmd.Context(), cfg, node); err != nil {
			return mistyped(err)
		}
	}
	t, err := vantage.TrustFirstKey(cmd.Context(), cfg)
	switch {
	case err != nil:
		return mistyped(&cmdutil.FailedError{Err: err})
	case shown != "" && t.Fingerprint != shown:
		return &cmdutil.FailedError{Err: fmt.Errorf(
			"%s showed %s, and then another key: %s %s; look into %s before you go on",
			cfg.Host, shown, t.KeyType, t.Fingerprint, t.File)}
	case t.Already:
		return a.Write(fmt.Appendf(nil, "%s was known: %s %s\n", node, t.KeyType, t.Fingerprint))
	}
	return a.Write(fmt.Appendf(nil, "%s accepted: %s %s, noted in %s\n", node, t.KeyType, t.Fingerprint, t.File))
}

// askTrust shows the key, and returns its fingerprint after the user has typed the node's name.
func askTrust(a *cmdutil.App, ctx context.Context, cfg vantage.NodeConfig, node string) (string, error) {
	fingerprint, _, err := vantage.AcceptHostKey(ctx, cfg)
	if err != nil {
		return "", &cmdutil.FailedError{Err: err}
	}
	cmdutil.Note(a.Stderr, "%s (%s) shows the host key %s", node, cfg.Host, fingerprint)
	cmdutil.Note(a.Stderr,
		"compare it with the one on the node's console or from its provider, then type %s to accept it:", node)
	in, end := cmdutil.InterruptibleReader(ctx, a.Stdin)
	defer end()
	answer, err := cmdutil.ReadAnswer(ctx, bufio.NewReader(in), "the key was not accepted")
	if err != nil {
		return "", err
	}
	if answer != node {
		return "", cmdutil.Usagef("the key was not accepted")
	}
	return fingerprint, nil
}
