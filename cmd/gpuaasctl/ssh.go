package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
)

func newSSH(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssh",
		Short: "Get to nodes: accept a first host key",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSSHTrust(a))
	return cmd
}

// trustOptions is which node's key, and whether somebody has said yes already.
type trustOptions struct {
	profile profileFlags
	host    string
	confirm string
}

func newSSHTrust(a *app) *cobra.Command {
	o := &trustOptions{}
	cmd := &cobra.Command{
		Use:   "trust NODE",
		Short: "Look at a node's host key and accept it, when none is known yet",
		Long: `Shows the fingerprint of a node's host key and, when the node's name is typed (or given by --confirm), adds the key to
the known_hosts file of the profile, or of ssh_config. NODE is a node of the profile, or a host. A key that differs from
a known one is never accepted here: find out why it changed first.`,
		Example: `  gpuaasctl ssh trust compute-node-01 --profile lab
  gpuaasctl ssh trust compute-node-01 --profile lab --confirm compute-node-01`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.nodeIDs(o.profile.name), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.trust(cmd, args[0], o) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&o.confirm, "confirm", "", "accept without a question; `NODE` once more")
	cmd.Flags().StringVar(&o.host, "node-host", "", "where the node is reached: `HOST` name or address")
	o.profile.addName(a, cmd)
	return cmd
}

// trust looks, asks, and only then writes.
func (a *app) trust(cmd *cobra.Command, node string, o *trustOptions) error {
	if o.confirm != "" && o.confirm != node {
		return usagef("--confirm %s: want %s, the node whose key is to be accepted", o.confirm, node)
	}
	if o.confirm == "" && !isTerminal(a.stdin) {
		return usagef("nobody can be asked here (stdin is no terminal): compare the fingerprint and give --confirm %s", node)
	}
	p, _, err := o.profile.load(a, cmd)
	if err != nil {
		return err
	}
	cfg := nodeConfig(p, node, o.host)
	mistyped := func(err error) error { // NODE may be a host as well: only one that nobody finds is a mistake
		if near := p.OtherNodes(node); err != nil && near != "" && o.host == "" && vantage.NotFound(err) {
			return usagef("%s is not a node of the profile (it has %s), nor a host that can be found: %w", node, near, err)
		}
		return err
	}
	shown := ""
	if o.confirm == "" {
		if shown, err = a.askTrust(cmd.Context(), cfg, node); err != nil {
			return mistyped(err)
		}
	}
	t, err := vantage.TrustFirstKey(cmd.Context(), cfg)
	switch {
	case err != nil:
		return mistyped(&failedError{err})
	case shown != "" && t.Fingerprint != shown:
		return &failedError{fmt.Errorf("%s showed %s, and then another key: %s %s; look into %s before you go on", cfg.Host, shown, t.KeyType, t.Fingerprint, t.File)}
	case t.Already:
		return a.write(fmt.Appendf(nil, "%s was known: %s %s\n", node, t.KeyType, t.Fingerprint))
	}
	return a.write(fmt.Appendf(nil, "%s accepted: %s %s, noted in %s\n", node, t.KeyType, t.Fingerprint, t.File))
}

// nodeConfig says how to get to a node of the profile, to the platform's machine, or to a host of that name.
func nodeConfig(p profile.Profile, node, host string) vantage.NodeConfig {
	if _, isNode := p.Nodes[node]; node == chaos.Platform && !isNode && host == "" && p.PlatformSSH.Host != "" {
		return vantage.NodeConfig{ID: node, Host: p.PlatformSSH.Host, SSH: p.PlatformSSH}
	}
	if host == "" {
		host = p.Nodes[node].Host
	}
	if host == "" {
		host = node
	}
	return vantage.NodeConfig{ID: node, Host: host, SSH: p.SSHOf(node), Agent: p.Agent}
}

// askTrust shows the key and returns its fingerprint once the node's name was typed.
func (a *app) askTrust(ctx context.Context, cfg vantage.NodeConfig, node string) (string, error) {
	fingerprint, _, err := vantage.AcceptHostKey(ctx, cfg)
	if err != nil {
		return "", &failedError{err}
	}
	note(a.stderr, "%s (%s) shows the host key %s", node, cfg.Host, fingerprint)
	note(a.stderr, "compare it with what the node's console or its provider says, then type %s to accept it:", node)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil && answer == "" {
		return "", usagef("no answer: the key was not accepted")
	}
	if strings.TrimSpace(answer) != node {
		return "", usagef("the key was not accepted")
	}
	return fingerprint, nil
}
