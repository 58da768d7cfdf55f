package ops

import (
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/trust"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// trustHops are the hops whose facts the explanation needs. None of them changes anything.
var trustHops = [...]diag.HopID{
	diag.HopControlPlaneAccess, diag.HopNodeHeartbeat, diag.HopNodeOpsAccess,
	diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus, diag.HopNodeTerminalReachability,
}

// Trust walks trustHops, measures what they do not, and explains the trust between the certificates. An interrupted run
// is an error, since half a table cannot be judged.
func (s *Session) Trust(ctx context.Context) (*trust.Report, error) {
	at := s.open()
	defer at.close(ctx)
	of := s.Subject()
	host := of.NodeHost != ""
	var walked *diag.Report
	var more []diag.Fact
	var wg sync.WaitGroup
	wg.Go(func() { walked = s.ask(ctx, at, trustHops[:]...) })
	wg.Go(func() {
		more = askTrust(ctx, at, host, trust.Ask(of, s.env.NodeCA, s.env.Profile.Trust.NodeCA))
		more = append(more, askTrust(ctx, at, host, trust.AskNext(of, more))...)
	})
	wg.Wait()
	if walked.Run.EndedBy == diag.EndedInterrupted {
		return nil, context.Canceled
	}
	if err := s.KnownNode(walked.Facts); err != nil {
		return nil, err
	}
	r := trust.Explain(of, append(walked.Facts, more...))
	now := time.Now()
	r.Run = &diag.Run{
		ID: s.RunID, CorrelationID: s.env.CorrelationID, StartedAt: diag.At(s.Began), EndedAt: diag.At(now),
		DurationMS: diag.Measured(now.Sub(s.Began)), EndedBy: walked.Run.EndedBy, ToolVersion: s.site.Tool,
		RulesVersion: verdict.RulesVersion,
	}
	return r, nil
}

// askTrust sends each question to its vantage. It skips questions for a node without a host.
func askTrust(ctx context.Context, at places, host bool, qs []trust.Question) []diag.Fact {
	byPlace := map[string][]diag.Request{}
	for _, q := range qs {
		if q.From == hop.Node && !host {
			continue
		}
		byPlace[q.From] = append(byPlace[q.From], q.Request)
	}
	var mu sync.Mutex // guards facts
	var facts []diag.Fact
	var wg sync.WaitGroup
	for from, reqs := range byPlace {
		wg.Go(func() {
			got := at[from].Probe(ctx, reqs)
			mu.Lock()
			defer mu.Unlock()
			facts = append(facts, got...)
		})
	}
	wg.Wait()
	return facts
}
