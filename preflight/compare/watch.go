package compare

import (
	"cmp"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// The kinds of Watched and WatchChange documents.
const (
	KindWatch  = "PreflightWatch"
	KindChange = "PreflightChange"
)

// Watched lists what the walks of a watch measure, and what they leave out and so leave unknown.
type Watched struct {
	diag.Head

	NodeID   string       `json:"node_id,omitempty"`
	EveryMS  int64        `json:"every_ms"`
	Asked    []diag.HopID `json:"asked"`
	NotAsked []NotAsked   `json:"not_asked"`
}

// NotAsked is a hop, or a part of one, that no walk of a watch measures.
type NotAsked struct {
	Hop     diag.HopID `json:"hop"`
	What    string     `json:"what,omitempty"` // absent: the whole hop
	Because string     `json:"because"`
}

// NewWatched returns what walks by the plan measure. full is for walks that may change things, as any other walk does.
func NewWatched(chain *hop.Chain, p diag.Plan, node string, everyMS int64, full bool) *Watched {
	w := &Watched{Head: diag.NewHead(KindWatch), NodeID: node, EveryMS: everyMS, Asked: []diag.HopID{},
		NotAsked: []NotAsked{}}
	for _, row := range p.Hops {
		if row.Skip != "" {
			w.NotAsked = append(w.NotAsked, NotAsked{Hop: row.ID, Because: row.Skip})
			continue
		}
		w.Asked = append(w.Asked, row.ID)
		for _, step := range row.Steps {
			if why := row.Left[step]; why != "" {
				w.NotAsked = append(w.NotAsked, NotAsked{Hop: row.ID, What: step, Because: why})
			}
		}
		if what := hop.In(chain.List(), row.ID).Unwatched; what != "" && !full {
			w.NotAsked = append(w.NotAsked, NotAsked{Hop: row.ID, What: what, Because: hop.SkipWatch})
		}
	}
	return w
}

// WatchChange is a change since the previous walk: of a hop or, if Hop is empty, of the verdict.
type WatchChange struct {
	diag.Head

	RunID  string      `json:"run_id"`
	NodeID string      `json:"node_id,omitempty"`
	At     diag.Time   `json:"at"` // when the walk that saw it ended
	Hop    diag.HopID  `json:"hop,omitempty"`
	Before *WatchState `json:"before,omitempty"` // absent: this is the first walk
	Now    WatchState  `json:"now"`
	// of a verdict: hops that were measured, hops in the plan, and steps left out of the measured hops
	Asked int `json:"asked,omitempty"`
	Of    int `json:"of,omitempty"`
	Left  int `json:"left,omitempty"`
}

// WatchState is a hop's finding, or a verdict: then Status is the outcome, and Hop the one to blame.
type WatchState struct {
	Status diag.Status `json:"status"`
	Hop    diag.HopID  `json:"hop,omitempty"`
	Signal diag.Signal `json:"signal,omitempty"`
	Text   string      `json:"text,omitempty"`
	Owner  string      `json:"owner,omitempty"`
}

// same reports whether two states are equal except for owner and text: times and numbers in texts differ in every walk.
func (s WatchState) same(o WatchState) bool {
	return s.Status == o.Status && s.Hop == o.Hop && s.Signal == o.Signal
}

// WatchChanges lists what changed from the previous walk to now: the verdict first, then hops in chain order. For a
// first walk (before is nil) these are the verdict and the hops that ran and do not pass.
func WatchChanges(before, now *diag.Report) []WatchChange {
	head := WatchChange{Head: diag.NewHead(KindChange), RunID: now.Run.ID, NodeID: now.Subject.NodeID,
		At: now.Run.EndedAt}
	var out []WatchChange
	add := func(hop diag.HopID, was *WatchState, is WatchState) {
		if was != nil && was.same(is) {
			return
		}
		c := head
		c.Hop, c.Before, c.Now = hop, was, is
		if hop == "" {
			c.Asked, c.Left = coverage(now.Plan)
			c.Of = len(now.Plan.Hops)
		}
		out = append(out, c)
	}
	if before == nil {
		add("", nil, verdictState(&now.Verdict))
	} else {
		add("", new(verdictState(&before.Verdict)), verdictState(&now.Verdict))
	}
	for i := range now.Hops {
		is := hopState(&now.Hops[i])
		switch {
		case before != nil:
			add(now.Hops[i].ID, new(hopState(reading.HopNamed(before.Hops, now.Hops[i].ID))), is)
		case is.Status != diag.StatusPass && is.Status != diag.StatusSkipped:
			add(now.Hops[i].ID, nil, is)
		}
	}
	return out
}

// coverage returns the number of hops that are not skipped, and of their steps that are left out.
func coverage(p diag.Plan) (hops, left int) {
	for _, h := range p.Hops {
		if h.Skip == "" {
			hops++
			left += len(h.Left)
		}
	}
	return hops, left
}

func verdictState(v *diag.Verdict) WatchState {
	s := WatchState{Status: diag.Status(v.Outcome), Text: v.Because, Owner: v.Owner}
	if b := v.Blame; b != nil {
		s.Hop, s.Signal, s.Text = b.Hop, b.Signal, b.Text
	}
	return s
}

func hopState(h *diag.HopResult) WatchState {
	s := WatchState{Status: h.Status, Signal: h.Signal, Text: h.Text}
	s.Text = cmp.Or(s.Text, h.Because)
	return s
}

// Unreached reports whether a walk did not reach the node, or lost it: its connection must not be used again.
func Unreached(r *diag.Report) bool {
	return slices.ContainsFunc(r.Facts, func(f diag.Fact) bool {
		return f.Vantage == hop.Node && (hop.Lost(&f) || (f.Request.Op == diag.OpSSH && !f.Passed()))
	})
}
