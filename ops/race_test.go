package ops_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestSessionsAtOnce: many sessions of one site, and all methods of one session, run at once without a race, and each
// report is about its own node. It is most useful with -race.
func TestSessionsAtOnce(t *testing.T) {
	tier.NeedsHost(t)
	site, end := aPlatform()
	defer end()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nodes := []string{"n1", "n2", "n3", "n1"}
	ids := make([]string, len(nodes))
	site.Each(nodes, 0, func(i int, s *ops.Session) {
		var wg sync.WaitGroup
		o := ops.WalkOptions{}
		o.Memory = ops.History{Path: t.TempDir() + "/walks.db"}.ReadGood(ctx, s.Subject(), s.Plan(o), true, true)
		defer o.Memory.Close()
		for _, do := range []func() error{
			func() error {
				r := s.Walk(ctx, o, nil)
				ids[i] = r.Run.ID
				if r.Subject.NodeID != nodes[i] {
					return fmt.Errorf("the walk of %s is of %s", nodes[i], r.Subject.NodeID)
				}
				return o.Memory.Save(ctx, r).Err
			},
			func() error { s.Walk(ctx, ops.WalkOptions{Only: []diag.HopID{diag.HopNodeHeartbeat}}, nil); return nil },
			func() error {
				_, err := s.Evidence(ctx, ops.EvidenceOptions{Since: time.Now().Add(-time.Hour), Walk: true})
				return ignore(err)
			},
			func() error { _, err := s.Trust(ctx); return ignore(err) },
			func() error {
				if l := s.Lifecycle(ctx); l.NodeID != nodes[i] || l.Asked == (nodes[i] == "n3") {
					return fmt.Errorf("%s: %+v", nodes[i], l)
				}
				return nil
			},
		} {
			wg.Go(func() {
				if err := do(); err != nil {
					t.Errorf("%s: %v", nodes[i], err)
				}
			})
		}
		wg.Wait()
	})
	for i, id := range ids {
		for _, other := range ids[:i] {
			if id == other {
				t.Errorf("two sessions have the id %s", id)
			}
		}
	}
}

// ignore drops the error that the platform does not know a node, such as n3.
func ignore(err error) error {
	var unknown *ops.UnknownNodeError
	if errors.As(err, &unknown) && unknown.Node == "n3" {
		return nil
	}
	return err
}
