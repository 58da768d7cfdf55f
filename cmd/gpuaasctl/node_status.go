package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	kindNodeStatus = "NodeStatus"

	// statusAtOnce bounds how many nodes are asked about at the same time: one API answers for all of them.
	statusAtOnce = 8
	// statusTimeout is one node's: two requests to the API.
	statusTimeout = 10 * time.Second
)

// nodeStatus is one node as the platform's read model has it.
type nodeStatus struct {
	NodeID         string               `json:"node_id"`
	Asked          bool                 `json:"asked"` // false: nothing is known, and Why says why
	Why            string               `json:"why,omitempty"`
	HeartbeatAgeMS *int64               `json:"heartbeat_age_ms,omitempty"` // of the last heartbeat that was taken in
	ContactAgeMS   *int64               `json:"contact_age_ms,omitempty"`   // of the last request of any kind
	Posture        string               `json:"posture,omitempty"`
	CertNotAfter   string               `json:"cert_not_after,omitempty"`
	AgentVersion   string               `json:"agent_version,omitempty"`
	RecordState    string               `json:"record_state,omitempty"`
	StaleTasks     *int                 `json:"stale_tasks,omitempty"`
	LostResults    *int                 `json:"lost_results,omitempty"`
	Operation      string               `json:"latest_operation,omitempty"` // type and status
	Classification *diag.Classification `json:"classification,omitempty"`
}

// nodeStatuses is the JSON document.
type nodeStatuses struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Profile    string       `json:"profile"`
	Nodes      []nodeStatus `json:"nodes"`
}

// statusOptions is which nodes are asked about.
type statusOptions struct {
	target       targetOptions
	all          bool
	output, fail string
}

func newNodeStatus(a *app) *cobra.Command {
	o := &statusOptions{}
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show how nodes stand: one row each, by the platform's read model",
		Long: `Shows one row for each NODE, or with --all for each node of the profile: heartbeat, posture, certificate, reason, user
state, the five points that make a node healthy, stale tasks, the latest operation. Nodes themselves are not touched.
A node that cannot be asked about is unknown, never healthy.

Exit codes: 0 every node is healthy, or works with a warning (P2, and all five points pass), 2 usage or configuration,
3 a node has a reason, 4 a warning, under --fail-on warn, 5 a node is unknown, or has no reason and not all five points,
130 interrupted. Of several nodes 3 counts before 5, and 5 before 4.`,
		Example: `  gpuaasctl node status --profile lab --all
  gpuaasctl node status compute-node-01 --profile lab -o json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.nodeStatus(cmd, o, args) },
	}
	o.target.flags(a, cmd)
	if f := cmd.Flags().Lookup("node-host"); f != nil {
		f.Hidden = true // nodes are not touched
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "every node of the profile")
	formatFlag(cmd, &o.output, formatTable, formatTable, formatWide, formatJSON)
	choiceFlag(cmd, &o.fail, "fail-on", "", "", "exit 4 on `WHAT`: "+failOnWarn, failOnWarn)
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		left := slices.DeleteFunc(a.nodeIDs(o.target.profile.name), func(id string) bool { return slices.Contains(args, id) })
		return left, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func (a *app) nodeStatus(cmd *cobra.Command, o *statusOptions, nodes []string) error {
	j, err := a.target(cmd, &o.target, "")
	if err != nil {
		return err
	}
	switch {
	case o.all && len(nodes) > 0:
		return usagef("--all and NODE exclude each other")
	case o.all:
		nodes = slices.Sorted(maps.Keys(j.Env.Profile.Nodes))
		if len(nodes) == 0 {
			return usagef("--all: the profile has no nodes")
		}
	case len(nodes) == 0:
		return usagef("which node? Name some, or say --all%s", knownNodes(j.Env.Profile.Nodes))
	}
	for _, id := range nodes {
		if err := checkIDs(&preflightOptions{nodeID: id}); err != nil {
			return &usageError{err: err, command: cmd.CommandPath()}
		}
	}
	if j.Env.Profile.APIBase == "" || j.Env.Token.IsZero() {
		return usagef("the read model needs api_base and auth.token_file in the profile (or --profile NAME)")
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.target.deadline)
	defer cancel()
	doc := nodeStatuses{APIVersion: diag.APIVersion, Kind: kindNodeStatus, Profile: j.Env.Profile.Name, Nodes: askAll(ctx, j, nodes)}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	if err := a.printStatus(&doc, o.output); err != nil {
		return err
	}
	return judgedNodes(doc.Nodes, o.fail == failOnWarn)
}

// askAll asks about every node, some at once; the order is the caller's.
func askAll(ctx context.Context, j *job, nodes []string) []nodeStatus {
	out := make([]nodeStatus, len(nodes))
	slots := make(chan struct{}, statusAtOnce)
	place := j.vantages()
	defer closeAll(ctx, place)
	var wg sync.WaitGroup
	for i, id := range nodes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			out[i] = askNode(ctx, j, place[preflight.Operator], id)
		})
	}
	wg.Wait()
	return out
}

// askNode walks the hops of the read model only, and classifies what they say.
func askNode(ctx context.Context, j *job, operator preflight.Vantage, id string) nodeStatus {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	env := j.Env
	env.Subject = preflight.NewSubject(env.Profile, id, "", "", "")
	plan := preflight.NewPlan(env.Profile, env.Subject, preflight.Options{
		Only: []diag.HopID{diag.HopControlPlaneAccess, diag.HopNodeHeartbeat}, Token: true,
	})
	facts, ended := preflight.Walk(ctx, &env, plan, map[string]preflight.Vantage{preflight.Operator: operator, preflight.Node: operator}, nil)
	r := &diag.Report{Subject: env.Subject, Plan: plan, Facts: facts, Run: diag.Run{EndedBy: ended}}
	preflight.Judge(r)
	return statusOf(r)
}

// statusOf reads a row out of a judged report.
func statusOf(r *diag.Report) nodeStatus {
	s := nodeStatus{NodeID: r.Subject.NodeID}
	e := preflight.EvidenceOf(r)
	if e.Node == nil {
		s.Why = whyUnknown(r)
		return s
	}
	s.Asked, s.Classification = true, r.Classification
	s.Posture, s.AgentVersion, s.StaleTasks, s.LostResults = e.Node.Posture, e.Node.Version, e.Node.StaleTasks, e.Node.LostResults
	s.HeartbeatAgeMS, s.ContactAgeMS = milliseconds(e.Node.HeartbeatAge), milliseconds(e.Node.ContactAge)
	for i := range r.Facts {
		if h := r.Facts[i].HTTP; h != nil && r.Facts[i].ID == string(diag.HopNodeHeartbeat)+"/read_model" {
			s.CertNotAfter, s.RecordState = h.Fields["node.cert_not_after"], h.Fields["node.record_state"]
			s.Operation = strings.TrimSpace(h.Fields["node.latest_operation_type"] + " " + h.Fields["node.latest_operation_status"])
		}
	}
	return s
}

// whyUnknown is what the hops say of why the read model could not be read.
func whyUnknown(r *diag.Report) string {
	for _, id := range []diag.HopID{diag.HopControlPlaneAccess, diag.HopNodeHeartbeat} {
		for _, h := range r.Hops {
			if h.ID == id && h.Status != diag.StatusPass {
				return cmp.Or(h.Text, h.Because, string(h.Status))
			}
		}
	}
	return "the platform says nothing of this node"
}

// judgedNodes is the error for all of them: the gravest counts.
func judgedNodes(nodes []nodeStatus, warnings bool) error {
	found := map[int]bool{}
	for i := range nodes {
		if !nodes[i].Asked {
			found[exitInconclusive] = true
			continue
		}
		found[codeOf(judgedReason(nodes[i].Classification, warnings))] = true
	}
	for _, code := range []int{exitFailed, exitInconclusive, exitWarned} {
		if found[code] {
			return &verdictError{code}
		}
	}
	return nil
}

func (a *app) printStatus(doc *nodeStatuses, format string) error {
	var b bytes.Buffer
	if format == formatJSON {
		if err := render.WriteJSON(&b, doc); err != nil {
			return err
		}
		return a.write(b.Bytes())
	}
	rows := [][]string{{"NODE", "HEARTBEAT", "POSTURE", "CERTIFICATE", "REASON", "USER STATE", "POINTS", "STALE", "LATEST OPERATION"}}
	if format == formatWide {
		rows[0] = append(rows[0], "AGENT", "RECORD", "LOST", "SEVERITY", "OWNER", "NEXT")
	}
	for i := range doc.Nodes {
		rows = append(rows, statusRow(&doc.Nodes[i], format == formatWide))
	}
	return a.write(columnsIn(rows, width(a.stdout)))
}

// statusRow is one row of the table. What is not known is a question mark, never a good word.
func statusRow(s *nodeStatus, wide bool) []string {
	if !s.Asked {
		return []string{render.Clean(s.NodeID), "?", "?", "?", "unknown", "unknown", "?", "?", render.Clean(s.Why)}
	}
	c := s.Classification
	pass := 0
	for _, p := range c.Checklist {
		if p.Status == diag.MarkPass {
			pass++
		}
	}
	row := []string{
		s.NodeID, heartbeatCell(s), cmp.Or(s.Posture, "?"), cmp.Or(s.CertNotAfter, "?"), string(c.Reason), string(c.UserState),
		fmt.Sprintf("%d/%d", pass, len(c.Checklist)), numberOr(s.StaleTasks), cmp.Or(s.Operation, "none"),
	}
	if wide {
		row = append(row, cmp.Or(s.AgentVersion, "?"), cmp.Or(s.RecordState, "?"), numberOr(s.LostResults), cmp.Or(string(c.Severity), "none"), c.Owner, c.Next)
	}
	for i := range row {
		row[i] = render.Clean(row[i])
	}
	return row
}

// heartbeatCell is the age of the last heartbeat; of the last contact where the platform does not say more.
func heartbeatCell(s *nodeStatus) string {
	ago := func(ms int64) string {
		return (time.Duration(ms) * time.Millisecond).Round(time.Second).String() + " ago"
	}
	switch {
	case s.HeartbeatAgeMS != nil:
		return ago(*s.HeartbeatAgeMS)
	case s.ContactAgeMS != nil:
		return "contact " + ago(*s.ContactAgeMS)
	}
	return "never"
}

func milliseconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

func numberOr(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

// knownNodes lists a profile's nodes for a message.
func knownNodes(nodes map[string]profile.Node) string {
	if len(nodes) == 0 {
		return ""
	}
	return " (the profile has " + oneOf(slices.Sorted(maps.Keys(nodes))) + ")"
}
