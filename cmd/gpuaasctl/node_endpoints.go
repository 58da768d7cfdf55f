package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/endpoints"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

func newNodeEndpoints(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "endpoints",
		Short: "Put the profile's private names into a node's hosts file, and take them out again",
		Args:  knownCommand,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newEndpointsAction(a, "plan", "Show what apply would change, and where the names lead now; writes nothing", `  gpuaasctl node endpoints plan compute-node-01 --profile lab
  gpuaasctl node endpoints plan compute-node-01 --profile lab -o json`),
		newEndpointsAction(a, "apply", "Write the names as one managed block, or put the former block back", `  gpuaasctl node endpoints apply compute-node-01 --profile lab
  gpuaasctl node endpoints apply compute-node-01 --profile lab --undo`),
		newEndpointsAction(a, "remove", "Take the managed block out", `  gpuaasctl node endpoints remove compute-node-01 --profile lab`),
	)
	return cmd
}

// newEndpointsAction makes one of the three; they differ in which text they plan and in whether they write it.
func newEndpointsAction(a *app, action, short, example string) *cobra.Command {
	o := &targetOptions{}
	var output string
	var undo bool
	cmd := &cobra.Command{
		Use:   action + " NODE",
		Short: short,
		Long: short + `.

The block lies between markers in ` + endpoints.HostsFile + ` of the node and holds node_runtime_resolve_address and
node_terminal_resolve_address under the names of their URLs. Every other line stays as it is. A line that somebody wrote
by hand for one of the names is reported and never touched; one with another address stops apply. Each change has a line
in ` + endpoints.LogFile + ` and in the node's journal.

Exit codes: 0 as wanted, or apply would make it so, 2 usage or configuration, 3 refused, or apply would be, or not as
wanted afterwards, 5 the node's file could not be read, 130 interrupted.`,
		Example: example,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			j, err := a.target(cmd, o, args[0])
			if err != nil {
				return err
			}
			if undo {
				action = actionUndo
			}
			return a.nodeEndpoints(cmd.Context(), j, o.deadline, action, output)
		},
	}
	o.flags(a, cmd)
	if action == actionApply {
		cmd.Flags().BoolVar(&undo, "undo", false, "put back the block that the last change replaced")
	}
	formatFlag(cmd, &output, formatTable, formatTable, formatJSON)
	return cmd
}

// What can be done with the block.
const (
	actionPlan   = "plan"
	actionApply  = "apply"
	actionUndo   = "undo"
	actionRemove = "remove"
)

// endpointsWork is one change of one node's hosts file, from reading to looking again.
type endpointsWork struct {
	j       *job
	action  string
	node    endpointsNode
	hosts   string // path on the node
	log     string
	entries []endpoints.Entry
	doc     endpointsDoc
}

// endpointsNode is the node as this command needs it.
type endpointsNode interface {
	Run(ctx context.Context, s vantage.Script) ([]string, error)
	Probe(ctx context.Context, reqs []diag.Request) []diag.Fact
}

// nodeEndpoints does it and writes the document; a refusal is in the document as well.
func (a *app) nodeEndpoints(ctx context.Context, j *job, deadline time.Duration, action, output string) error {
	if err := j.needHost(); err != nil {
		return err
	}
	entries, left, err := endpoints.Wanted(j.Env.Profile)
	if err != nil && action != actionRemove && action != actionUndo {
		return &usageError{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	node := vantage.NewNode(j.nodeConfig())
	defer closeAll(ctx, map[string]preflight.Vantage{preflight.Node: node})
	w := &endpointsWork{j: j, action: action, node: node, hosts: endpoints.HostsFile, log: endpoints.LogFile, entries: entries}
	w.doc = endpointsDoc{
		Node: j.Env.Subject.NodeID, Host: j.Env.Subject.NodeHost, Profile: j.Env.Profile.Name, RunID: j.RunID, Action: action,
		File: w.hosts, LeftToDNS: left,
	}
	err = w.do(ctx)
	if errors.Is(ctx.Err(), context.Canceled) { // what was done by then is said all the same
		err = context.Canceled
	}
	if err != nil {
		w.doc.Error = err.Error()
	}
	if werr := a.writeEndpoints(&w.doc, output); werr != nil {
		return werr
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*unreadError)): // nothing of it was measured
		return a.unread(err)
	case err != nil:
		return &failedError{err}
	case !w.doc.asWanted():
		return &verdictError{exitFailed}
	}
	return nil
}

// do reads, plans and, unless only a plan was asked for, writes; then it looks where the names lead.
func (w *endpointsWork) do(ctx context.Context) error {
	plan, err := w.plan(ctx)
	if err != nil {
		return err
	}
	if w.action != actionPlan {
		err = w.write(ctx, plan)
	}
	w.look(ctx)
	return err
}

// unreadError is a node of which nothing could be read, so that nothing was refused and nothing was found.
type unreadError struct{ err error }

func (e *unreadError) Error() string { return e.err.Error() }
func (e *unreadError) Unwrap() error { return e.err }

// plan reads the node's file and says what shall become of it.
func (w *endpointsWork) plan(ctx context.Context) (endpoints.Plan, error) {
	said, err := w.node.Run(ctx, vantage.Script{Text: endpoints.ReadScript, Args: []string{w.hosts, w.log}})
	if err != nil {
		return endpoints.Plan{}, &unreadError{fmt.Errorf("read %s of %s: %w", w.hosts, w.doc.Node, err)}
	}
	state, err := endpoints.ParseRead(said)
	if err != nil {
		return endpoints.Plan{}, fmt.Errorf("%s of %s: %w", w.hosts, w.doc.Node, err)
	}
	var p endpoints.Plan
	switch w.action {
	case actionRemove:
		p, err = endpoints.Restore(state.Text, nil)
	case actionUndo:
		if err := undoable(state); err != nil {
			return endpoints.Plan{}, err
		}
		p, err = endpoints.Restore(state.Text, state.Left.Old)
	default:
		p, err = endpoints.Make(state.Text, w.entries)
	}
	if err != nil {
		return p, fmt.Errorf("%s of %s: %w; repair its lines by hand first", w.hosts, w.doc.Node, err)
	}
	w.doc.Before, w.doc.After, w.doc.Changed = endpoints.Hash(p.Before), endpoints.Hash(p.After), p.Changed
	w.doc.Mode, w.doc.Owner, w.doc.Plan, w.doc.Diff = state.Mode, state.Owner, p, p.Diff()
	return p, nil
}

// undoable reports why the last change that came about cannot be taken back: there is none, or the file is not what it left.
func undoable(s endpoints.State) error {
	switch {
	case s.Last == nil:
		return fmt.Errorf("nothing to undo: %s has no line", endpoints.LogFile)
	case s.Left == nil:
		return fmt.Errorf("the hosts file is not what the last change left (%s by %s, run %s): it was changed since, and nothing is undone", s.Last.Action, s.Last.By, s.Last.RunID)
	}
	return nil
}

// write puts the planned text in place, unless a manual line speaks against it or nothing changes.
func (w *endpointsWork) write(ctx context.Context, p endpoints.Plan) error {
	if c := p.Conflicts(); w.action == actionApply && len(c) > 0 {
		return fmt.Errorf("%s:%d gives %s the address %s, the profile says %s; somebody wrote that line by hand: take it out, or correct the profile; nothing was changed",
			w.hosts, c[0].Line, c[0].Name, c[0].Address, c[0].Wanted)
	}
	if !p.Changed {
		return nil
	}
	line, err := endpoints.Line{
		At: time.Now().UTC(), RunID: w.j.RunID, By: operatorName(), Node: w.doc.Node, Profile: w.doc.Profile, Action: w.action,
		Before: w.doc.Before, After: w.doc.After, Old: p.Old, New: p.New,
	}.Text()
	if err != nil {
		return err
	}
	said, err := w.node.Run(ctx, vantage.Script{
		Text: endpoints.ApplyScript, Args: []string{w.hosts, w.doc.Before, w.doc.After, w.log, line}, Input: []byte(p.After),
	})
	if err != nil {
		return fmt.Errorf("write %s of %s (look again before you repeat it): %w", w.hosts, w.doc.Node, err)
	}
	err = endpoints.ParseApply(said, w.doc.After)
	if errors.Is(err, endpoints.ErrMoved) { // perhaps somebody put the very same block there
		if again, planErr := w.plan(ctx); planErr == nil && !again.Changed {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", w.hosts, w.doc.Node, err)
	}
	w.doc.Applied, w.doc.Audit = true, line
	w.doc.Undo = w.j.again("node", "endpoints", "apply", "--undo")
	return nil
}

// look asks the node where each name leads, through the agent's eyes: what was written is not yet what is used.
func (w *endpointsWork) look(ctx context.Context) {
	reqs := make([]diag.Request, len(w.entries))
	for i, e := range w.entries {
		reqs[i] = diag.Request{ID: "endpoints/" + e.Name, Op: diag.OpDNS, Target: e.Name, TimeoutMS: 4000}
	}
	for i, f := range w.node.Probe(ctx, reqs) {
		r := resolved{Name: w.entries[i].Name, Wanted: w.entries[i].Address, Failure: f.Failure}
		if f.DNS != nil {
			r.Addresses, r.Source, r.Line = f.DNS.Addresses, f.DNS.Source, f.DNS.SourceLine
		}
		w.doc.Names = append(w.doc.Names, r)
	}
}

// operatorName is who runs this, for the audit line.
func operatorName() string {
	name := os.Getenv("SUDO_USER")
	if u, err := user.Current(); err == nil && name == "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
