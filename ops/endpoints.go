package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops/endpoints"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// EndpointsAction is what to do with the block of names in a node's hosts file.
type EndpointsAction string

// What can be done.
const (
	EndpointsPlan   EndpointsAction = "plan"
	EndpointsApply  EndpointsAction = "apply"
	EndpointsUndo   EndpointsAction = "undo"
	EndpointsRemove EndpointsAction = "remove"
)

// Endpoints is what was found and done in a node's hosts file.
type Endpoints struct {
	diag.Head

	Node      string          `json:"node_id"`
	Host      string          `json:"node_host"`
	Profile   string          `json:"profile,omitempty"`
	RunID     string          `json:"run_id"`
	Action    EndpointsAction `json:"action"`
	File      string          `json:"file"`
	Mode      string          `json:"mode,omitempty"`
	Owner     string          `json:"owner,omitempty"`
	Before    string          `json:"before_sha256,omitempty"`
	After     string          `json:"after_sha256,omitempty"`
	Plan      endpoints.Plan  `json:"plan"`
	Changed   bool            `json:"-"`
	Diff      string          `json:"diff,omitempty"`
	Applied   bool            `json:"applied"`
	Audit     string          `json:"audit_line,omitempty"` // as in the node's log
	Undo      string          `json:"undo,omitempty"`
	LeftToDNS []string        `json:"left_to_dns,omitempty"` // names without an address in the profile
	Names     []Resolved      `json:"names"`                 // what they resolve to on the node, after the change
	Error     string          `json:"error,omitempty"`
}

// Resolved is what a name resolves to on the node, as its agent sees it.
type Resolved struct {
	Name      string       `json:"name"`
	Wanted    string       `json:"wanted"`
	Addresses []string     `json:"addresses,omitempty"`
	Source    string       `json:"source,omitempty"` // hosts_managed | hosts_manual | dns | ...
	Line      string       `json:"source_line,omitempty"`
	Failure   diag.Failure `json:"failure,omitempty"`
}

// right reports whether the name resolves to the profile's address only.
func (r Resolved) right() bool {
	return len(r.Addresses) > 0 && !slices.ContainsFunc(r.Addresses, func(a string) bool { return a != r.Wanted })
}

// Resolves reports, after an apply, whether every name resolves to its address, and for a plan, whether apply can
// achieve that. Without the block there is no requirement.
func (d *Endpoints) Resolves() bool {
	right := !slices.ContainsFunc(d.Names, func(r Resolved) bool { return !r.right() })
	switch d.Action {
	case EndpointsPlan:
		return len(d.Plan.Conflicts()) == 0 && (d.Changed || right)
	case EndpointsApply:
		return right
	}
	return true
}

// endpointsWork is one change of one node's hosts file, from reading to verifying.
type endpointsWork struct {
	s       *Session
	action  EndpointsAction
	node    endpointsNode
	hosts   string // path on the node
	log     string
	entries []endpoints.Entry
	doc     Endpoints
}

// endpointsNode is what an endpointsWork needs of a node.
type endpointsNode interface {
	Run(ctx context.Context, s vantage.Script) ([]string, error)
	Probe(ctx context.Context, reqs []diag.Request) []diag.Fact
}

// Endpoints performs the action unless it is refused. It returns the document even with an error, except for an
// InputError or a NoHostError. An UnreadError means that the node's file could not be read.
func (s *Session) Endpoints(ctx context.Context, action EndpointsAction) (*Endpoints, error) {
	if err := s.RequireHost(); err != nil {
		return nil, err
	}
	p, of := s.site.Profile, s.env.Subject
	entries, left, err := endpoints.Wanted(p)
	if err != nil && action != EndpointsRemove && action != EndpointsUndo {
		return nil, &InputError{err}
	}
	node := vantage.NewNode(s.nodeConfig())
	defer places{hop.Node: node}.close(ctx)
	w := &endpointsWork{s: s, action: action, node: node, hosts: endpoints.HostsFile, log: endpoints.LogFile,
		entries: entries}
	w.doc = Endpoints{
		Head: diag.NewHead("NodeEndpoints"),
		Node: of.NodeID, Host: of.NodeHost, Profile: p.Name, RunID: s.RunID, Action: action, File: w.hosts, LeftToDNS: left,
		Names: []Resolved{},
	}
	err = w.do(ctx)
	if errors.Is(ctx.Err(), context.Canceled) { // the document has what was done before
		err = context.Canceled
	}
	if err != nil {
		w.doc.Error = err.Error()
	}
	return &w.doc, err
}

// do reads, plans and, unless only a plan was requested, writes; then it resolves the names on the node.
func (w *endpointsWork) do(ctx context.Context) error {
	plan, err := w.plan(ctx)
	if err != nil {
		return err
	}
	if w.action != EndpointsPlan {
		err = w.write(ctx, plan)
	}
	w.resolveOnNode(ctx)
	return err
}

// plan reads the node's file and returns the change.
func (w *endpointsWork) plan(ctx context.Context) (endpoints.Plan, error) {
	said, err := w.node.Run(ctx, vantage.Script{Text: endpoints.ReadScript, Args: []string{w.hosts, w.log}})
	if err != nil {
		return endpoints.Plan{}, &UnreadError{fmt.Errorf("read %s of %s: %w", w.hosts, w.doc.Node, err)}
	}
	state, err := endpoints.ParseRead(said)
	if err != nil {
		return endpoints.Plan{}, fmt.Errorf("%s of %s: %w", w.hosts, w.doc.Node, err)
	}
	var p endpoints.Plan
	switch w.action {
	case EndpointsRemove:
		p, err = endpoints.Restore(state.Text, nil)
	case EndpointsUndo:
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

// undoable returns why the last applied change cannot be undone: there was none, or the file has changed since.
func undoable(s endpoints.State) error {
	switch {
	case s.Last == nil:
		return fmt.Errorf("nothing to undo: %s has no line", endpoints.LogFile)
	case s.Left == nil:
		return fmt.Errorf(
			"the hosts file is not what the last change left (%s by %s, run %s): it was changed since, and nothing was restored",
			s.Last.Action, s.Last.By, s.Last.RunID)
	}
	return nil
}

// write installs the planned text, unless a manual line conflicts with it or nothing changes.
func (w *endpointsWork) write(ctx context.Context, p endpoints.Plan) error {
	if c := p.Conflicts(); w.action == EndpointsApply && len(c) > 0 {
		return fmt.Errorf(
			"%s:%d gives %s the address %s, the profile says %s; that line was written by hand: remove it, or correct "+
				"the profile; nothing was changed",
			w.hosts, c[0].Line, c[0].Name, c[0].Address, c[0].Wanted)
	}
	if !p.Changed {
		return nil
	}
	line, err := endpoints.Line{
		At: time.Now().UTC(), RunID: w.s.RunID, By: w.s.site.By, Node: w.doc.Node, Profile: w.doc.Profile,
		Action: string(w.action), Before: w.doc.Before, After: w.doc.After, Old: p.Old, New: p.New,
	}.Text()
	if err != nil {
		return err
	}
	said, err := w.node.Run(ctx, vantage.Script{
		Text: endpoints.ApplyScript, Input: []byte(p.After),
		Args: []string{w.hosts, w.doc.Before, w.doc.After, w.log, line},
	})
	if err != nil {
		return fmt.Errorf("write %s of %s (look again before you repeat it): %w", w.hosts, w.doc.Node, err)
	}
	err = endpoints.ParseApply(said, w.doc.After)
	if errors.Is(err, endpoints.ErrMoved) { // another process may have written the same block
		if again, planErr := w.plan(ctx); planErr == nil && !again.Changed {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", w.hosts, w.doc.Node, err)
	}
	w.doc.Applied, w.doc.Audit = true, line
	w.doc.Undo = w.s.Command("node", "endpoints", "apply", "--undo")
	return nil
}

// resolveOnNode resolves each name on the node in the agent's view: writing the file does not prove that it is used.
func (w *endpointsWork) resolveOnNode(ctx context.Context) {
	reqs := make([]diag.Request, len(w.entries))
	for i, e := range w.entries {
		reqs[i] = diag.Request{ID: "endpoints/" + e.Name, Op: diag.OpDNS, Target: e.Name, TimeoutMS: 4000}
	}
	for i, f := range w.node.Probe(ctx, reqs) {
		r := Resolved{Name: w.entries[i].Name, Wanted: w.entries[i].Address, Failure: f.Failure}
		if f.DNS != nil {
			r.Addresses, r.Source, r.Line = f.DNS.Addresses, f.DNS.Source, f.DNS.SourceLine
		}
		w.doc.Names = append(w.doc.Names, r)
	}
}
