package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// Of selects the sessions that a decision applies to.
type Of func(store.Session) bool

// OfAllocation selects every session of an allocation.
func OfAllocation(id string) Of {
	return func(v store.Session) bool { return v.AllocationID == id }
}

// OfNode selects every session on a node.
func OfNode(id string) Of {
	return func(v store.Session) bool { return v.NodeID == id }
}

// End ends the sessions in progress that a decision applies to, and returns how many there were. reason is one of
// wire.End*, and is sent to the browser and the node and recorded. The decision must be stored first: then a
// session that is admitted concurrently is either found here, or sees the decision itself.
func (g *Gateway) End(of Of, reason string) int {
	n := 0
	for _, s := range g.inProgress(of) {
		s.end(reason)
		n++
	}
	return n
}

// Review checks each session in progress, on one node or, with "", on all, and ends those that would no longer be
// admitted. Read errors are logged, and those sessions continue.
func (g *Gateway) Review(ctx context.Context, nodeID string) int {
	n := 0
	for _, s := range g.inProgress(func(v store.Session) bool { return nodeID == "" || v.NodeID == nodeID }) {
		reason, err := g.standing(ctx, s.row, s.source.Load())
		switch {
		case err != nil:
			if ctx.Err() == nil {
				g.Log.Error("review terminal session", "session_id", s.row.ID, "error", err)
			}
		case reason != "":
			s.end(reason)
			n++
		}
	}
	return n
}

func (g *Gateway) inProgress(of Of) []*session {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found []*session
	for _, s := range g.live {
		if of(s.row) {
			found = append(found, s)
		}
	}
	return found
}

// standing returns why a session has to end, a reason of wire.End*, or "". from is the host of the terminal, nil
// before a node has joined. A certificate that was replaced by a renewal does not matter here: the stream was
// admitted with it.
func (g *Gateway) standing(ctx context.Context, row store.Session, from *store.Source) (string, error) {
	a, err := g.Store.Allocation(ctx, row.AllocationID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return wire.EndAllocationReleased, nil
	case err != nil:
		return "", fmt.Errorf("read allocation %s: %w", row.AllocationID, err)
	case a.State != store.StateActive || a.NodeID != row.NodeID:
		return wire.EndAllocationReleased, nil
	}
	n, err := g.Store.Node(ctx, row.NodeID)
	switch {
	case err != nil:
		return "", fmt.Errorf("read node %s: %w", row.NodeID, err)
	case n.Identity != "":
		return wire.EndOfIdentity(n.Identity), nil
	case from == nil:
		return "", nil
	}
	switch fenced, err := g.Store.Fenced(ctx, row.NodeID, *from); {
	case err != nil:
		return "", fmt.Errorf("read the fences of node %s: %w", row.NodeID, err)
	case fenced:
		return wire.EndNodeFenced, nil
	}
	return "", nil
}

// allowed returns an error if the session's allocation or node no longer permits it.
func (g *Gateway) allowed(ctx context.Context, row store.Session, from *store.Source) error {
	reason, err := g.standing(ctx, row, from)
	switch {
	case err != nil:
		return &web.Error{Status: http.StatusInternalServerError, Code: "internal_error",
			Message: "the platform could not read whether the session may go on", Err: err}
	case reason != "":
		return web.Errorf(http.StatusConflict, reason, "%s", decidedText(reason))
	}
	return nil
}

// decidedText returns the sentence about a decision for the affected users.
func decidedText(reason string) string {
	return cmp.Or(map[string]string{
		wire.EndAllocationReleased: "the allocation is not active any more, so its terminal is closed",
		wire.EndSessionLimit:       "the terminal was open for as long as a session may be",
		wire.EndSessionIdle:        "nothing was typed or shown in the terminal for too long",
		wire.EndIdentityReplaced:   "the node gets a new identity, so its terminals are closed",
	}[reason], "the platform does not accept the node's identity ("+reason+"), so its terminals are closed")
}

// end makes a session end with a reason. Only the first reason counts.
func (s *session) end(reason string) {
	select {
	case s.over <- reason:
	default:
	}
}

// decided returns the ending of a session by a decision.
func (s *session) decided(reason string) ending {
	return ending{
		reason: reason, code: closeSessionEnded, frame: s.errorFrame(reason, decidedText(reason)),
		how: store.Closing{By: wire.ByDecision},
	}
}

// touch notes that a frame passed, and quiet returns the time since then.
func (s *session) touch()               { s.active.Store(int64(time.Since(s.began))) }
func (s *session) quiet() time.Duration { return time.Since(s.began) - time.Duration(s.active.Load()) }
