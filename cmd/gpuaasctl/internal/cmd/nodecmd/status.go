package nodecmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

const (
	kindNodeStatus = "NodeStatus"

	// statusAtOnce bounds how many nodes are queried concurrently: one API answers for all of them.
	statusAtOnce = 8
)

// nodeStatuses is the JSON document.
type nodeStatuses struct {
	diag.Head

	Profile string          `json:"profile"`
	Nodes   []ops.Lifecycle `json:"nodes"`
}

// statusOptions select the nodes.
type statusOptions struct {
	target       cmdutil.TargetOptions
	all          bool
	output, fail string
}

func newNodeStatus(a *cmdutil.App) *cobra.Command {
	o := &statusOptions{}
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show the status of nodes, one row each, from the platform's read model",
		Long: `Shows one row for each NODE, or with --all for each node of the profile: heartbeat, posture, certificate, reason, user
state, how many of the five points of a healthy node pass, GPUs, stale tasks and the latest operation. Everything is
read from the platform's API: no node is contacted. A node whose status cannot be read is unknown, never healthy.

Exit codes: 0 every node is healthy, or has only a warning (P2, with all five points passed), 2 usage or configuration,
or the platform knows no such node, 3 a node has a reason, 4 a node has a warning, under --fail-on warn, 5 the status of
a node cannot be read, or it has no reason although not all five points pass, 130 interrupted. With several nodes, 2
takes precedence over 3, 3 over 5, and 5 over 4.`,
		Example: `  gpuaasctl node status --profile lab --all
  gpuaasctl node status compute-node-01 --profile lab -o json`,
		RunE: cmdutil.Run(a, o, nodeStatus),
	}
	o.target.Flags(a, cmd)
	for _, name := range []string{"node-host", "libexec"} {
		cmd.Flags().Lookup(name).Hidden = true // nodes are not touched
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "every node of the profile")
	cmdutil.PageFlag(cmd, &o.output, cmdutil.FormatWide)
	cmdutil.ChoiceFlag(cmd, &o.fail, "fail-on", "", "", "exit 4 on `WHAT`: "+cmdutil.FailOnWarn, cmdutil.FailOnWarn)
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		left := slices.DeleteFunc(a.NodeIDs(o.target.Profile.Name), func(id string) bool { return slices.Contains(args, id) })
		return left, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func nodeStatus(a *cmdutil.App, cmd *cobra.Command, o *statusOptions, nodes []string) error {
	s, err := a.About(cmd, &o.target, ops.Target{})
	if err != nil {
		return err
	}
	site := s.Site()
	switch {
	case o.all && len(nodes) > 0:
		return cmdutil.Usagef("--all and NODE exclude each other")
	case o.all:
		nodes = slices.Sorted(maps.Keys(site.Profile.Nodes))
		if len(nodes) == 0 {
			return cmdutil.Usagef("--all: the profile has no nodes")
		}
	case len(nodes) < 2:
		id, err := a.Node(cmd, nodes, o.target.NodeID, &site.Profile)
		if err != nil {
			return err
		}
		nodes = []string{id}
	}
	for _, id := range nodes {
		if err := cmdutil.CheckIDs(ops.Target{Node: id}); err != nil {
			return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
		}
	}
	if site.Profile.APIBase == "" || site.Secrets.Token.IsZero() {
		if site.Chosen == "" {
			return cmdutil.Usagef("the read model needs a profile, and %s", a.NoProfile())
		}
		return cmdutil.Usagef("the read model needs api_base and auth.token_file in the profile %s", site.Chosen)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.target.Deadline)
	defer cancel()
	doc := nodeStatuses{Head: diag.NewHead(kindNodeStatus), Profile: site.Profile.Name,
		Nodes: make([]ops.Lifecycle, len(nodes))}
	site.Each(nodes, statusAtOnce, func(i int, s *ops.Session) { doc.Nodes[i] = s.Lifecycle(ctx) })
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	if err := printStatus(a, &doc, o.output); err != nil {
		return err
	}
	return judgedNodes(doc.Nodes, o.fail == cmdutil.FailOnWarn)
}

// judgedNodes returns the error for all nodes: the most severe counts.
func judgedNodes(nodes []ops.Lifecycle, warnings bool) error {
	found := map[int]bool{}
	for i := range nodes {
		if !nodes[i].Asked {
			found[cmdutil.ExitInconclusive], found[cmdutil.ExitUsage] = true, found[cmdutil.ExitUsage] || nodes[i].Unknown
			continue
		}
		found[cmdutil.CodeOf(cmdutil.JudgedReason(nodes[i].Classification, warnings))] = true
	}
	for _, code := range []int{cmdutil.ExitUsage, cmdutil.ExitFailed, cmdutil.ExitInconclusive, cmdutil.ExitWarned} {
		if found[code] {
			return &cmdutil.VerdictError{Code: code}
		}
	}
	return nil
}

func printStatus(a *cmdutil.App, doc *nodeStatuses, format string) error {
	rows := [][]string{{"NODE", "HEARTBEAT", "POSTURE", "CERTIFICATE", "REASON", "USER STATE", "POINTS", "GPUS",
		"STALE", "LATEST OPERATION"}}
	if format == cmdutil.FormatWide {
		rows[0] = append(rows[0], "GPU POLICY", "AGENT", "RECORD", "LOST", "SEVERITY", "OWNER", "NEXT")
	}
	for i := range doc.Nodes {
		rows = append(rows, statusRow(&doc.Nodes[i], format == cmdutil.FormatWide))
	}
	return a.ShowPage(doc, format, cmdutil.Table(rows))
}

// statusRow is one row of the table. An unknown value is a question mark, never a good state.
func statusRow(s *ops.Lifecycle, wide bool) []string {
	if !s.Asked {
		return []string{s.NodeID, "?", "?", "?", "unknown", "unknown", "?", "?", "?", s.Why}
	}
	c := s.Classification
	pass := 0
	for _, p := range c.Checklist {
		if p.Status == diag.MarkPass {
			pass++
		}
	}
	row := []string{
		s.NodeID, heartbeatCell(s), cmp.Or(s.Posture, "?"), cmp.Or(s.CertNotAfter, "?"), string(c.Reason),
		string(c.UserState), fmt.Sprintf("%d/%d", pass, len(c.Checklist)), gpuCell(s.GPUs),
		numberOr(s.StaleTasks), cmp.Or(s.Operation, "none"),
	}
	if wide {
		row = append(row, gpuPolicy(s.GPUs), cmp.Or(s.AgentVersion, "?"), cmp.Or(s.RecordState, "?"), numberOr(s.LostResults),
			cmp.Or(string(c.Severity), "none"), c.Owner, c.Next)
	}
	return row
}

// gpuCell is the health of the node's GPUs, and their number; empty if the platform judges none.
func gpuCell(g *reading.GPUAdmission) string {
	if g == nil {
		return ""
	}
	cell := g.Health
	if len(g.GPUs) > 0 {
		cell += fmt.Sprintf(" (%d)", len(g.GPUs))
	}
	if g.Policy.Shadow() {
		cell += ", shadow"
	}
	return cell
}

func gpuPolicy(g *reading.GPUAdmission) string {
	if g == nil {
		return ""
	}
	return g.Policy.Name
}

// heartbeatCell is the age of the last heartbeat, or of the last contact if the platform sends no heartbeat time.
func heartbeatCell(s *ops.Lifecycle) string {
	ago := func(ms int64) string { return diag.Age(time.Duration(ms)*time.Millisecond) + " ago" }
	switch {
	case s.HeartbeatAgeMS != nil:
		return ago(*s.HeartbeatAgeMS)
	case s.ContactAgeMS != nil:
		return "contact " + ago(*s.ContactAgeMS)
	}
	return "never"
}

func numberOr(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}
