package ops

import (
	"context"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// WalkOptions are options of a walk. The zero value walks the whole chain without a terminal session, and neither
// compares nor stores anything.
type WalkOptions struct {
	Only, Skip []diag.HopID
	Terminal   bool     // open one real terminal session
	Watch      bool     // change nothing: no task, no terminal session, no write on the node's disks
	Command    string   // command that repeats the walk, to paste; "" if the profile's name suffices
	Memory     *Recent  // the history, recalled for this walk's subject and plan, or nil
	Baseline   Baseline // what it is compared with; needs Recent

	// Removed, if it is set, has the helper that a walk puts on the node removed at its end, and gets the error of that.
	Removed func(error)

	alone bool // only facts are of interest: Only brings no hop that may explain a failure
	kept  bool // the node's vantage was used by earlier walks
}

// Plan returns what a walk with these options does: which hops, from where, with which budgets, and what is left out
// and why.
func (s *Session) Plan(o WalkOptions) diag.Plan {
	p := s.site.Hops.NewPlan(s.env.Profile, s.env.Subject, hop.Options{
		Only: o.Only, Skip: o.Skip, Alone: o.alone, Session: o.Terminal, Watch: o.Watch,
		Token: !s.env.Token.IsZero() || len(s.env.Profile.Auth.TokenCommand) > 0, SSH: s.env.Subject.NodeHost != "",
	})
	p.Command = o.Command
	return p
}

// Walk walks the chain until ctx ends, and returns its report in any case. observe gets the progress, from one
// goroutine at a time; it may be nil.
func (s *Session) Walk(ctx context.Context, o WalkOptions, observe func(walk.Event)) *diag.Report {
	at := s.open()
	defer at.close(ctx)
	r := s.walk(ctx, at, o, observe)
	if o.Removed != nil {
		o.Removed(removeHelper(ctx, at, r))
	}
	if o.Memory != nil {
		o.Memory.Compare(o.Baseline, r)
	}
	return r
}

// removeHelper removes what a walk has put on its node, also if the walk was interrupted.
func removeHelper(ctx context.Context, at places, r *diag.Report) error {
	node, ok := at[hop.Node].(*vantage.Node)
	pushed := slices.ContainsFunc(r.Facts, func(f diag.Fact) bool { return f.SSH != nil && f.SSH.Helper == "pushed" })
	if !ok || !pushed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), vantage.RemovalTime)
	defer cancel()
	return node.Remove(ctx)
}

// walk makes every complete walk. It may share its places with other requests.
func (s *Session) walk(ctx context.Context, at places, o WalkOptions, observe func(walk.Event)) *diag.Report {
	j := &walk.Job{
		Env: s.env, Plan: s.Plan(o), Vantages: at, RunID: s.RunID, Began: s.Began, Tool: s.site.Tool, Observe: observe,
	}
	j.Env.Subject, j.Env.ReadOnly, j.Env.ReusesVantage = s.Subject(), o.Watch, o.kept
	if o.Memory != nil {
		j.LastGood = o.Memory.lastGoodAt
	}
	return walk.Run(ctx, j)
}

// ask walks some hops for their facts only, and judges them without the platform's evidence. It leaves out the parts of
// hops whose place is not in at.
func (s *Session) ask(ctx context.Context, at places, hops ...diag.HopID) *diag.Report {
	o := WalkOptions{Only: hops, alone: true}
	for _, h := range s.site.Hops.List() {
		if h.Opens != "" && at[h.Opens] == nil {
			o.Skip = append(o.Skip, h.ID)
		}
	}
	env, r := s.env, &diag.Report{Subject: s.Subject(), Plan: s.Plan(o)}
	env.Subject = s.Subject()
	r.Facts, r.Run.EndedBy = walk.Walk(ctx, &env, r.Plan, at, nil)
	verdict.Judge(s.site.Hops, r)
	return r
}
