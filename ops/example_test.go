package ops_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// A walk of one node, with progress, compared with the last good walk and stored in the history.
func ExampleSession_Walk() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, _, err := profile.Load("lab",
		profile.Sources{Dir: "/etc/gpuaasctl/profiles", Env: func(string) string { return "" }})
	if err != nil {
		fmt.Println(err)
		return
	}
	secrets, err := ops.ReadSecrets(ctx, p, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	site := ops.New(ops.Site{Profile: p, Chosen: "lab", Secrets: secrets, Tool: "my-dashboard 1.0", By: "dashboard"})
	node := site.Node("compute-node-01", "alloc-01")
	o := ops.WalkOptions{Terminal: true, Baseline: ops.Baseline{Name: diag.LastGood}}
	o.Memory = ops.History{Path: "/var/lib/my-dashboard/walks.db"}.ReadGood(ctx, node.Subject(), node.Plan(o), true, true)
	defer o.Memory.Close()
	report := node.Walk(ctx, o, func(e walk.Event) {
		if e.Kind == walk.HopDone {
			fmt.Println(e.Hop)
		}
	})
	fmt.Println(report.Verdict.Outcome, report.Verdict.Reason)
	if kept := o.Memory.Save(ctx, report); kept.Better != nil {
		fmt.Println("it regressed from", kept.Better.Run.ID)
	}
}

// Many nodes, a few at once, with the result of one hop for each.
func ExampleSite_Each() {
	site, end := aPlatform()
	defer end()
	for _, line := range heartbeats(site, "n1", "n2", "n3") {
		fmt.Print(line)
	}
}

func heartbeats(site *ops.Site, nodes ...string) []string {
	lines := make([]string, len(nodes))
	site.Each(nodes, 2, func(i int, s *ops.Session) {
		r := s.Walk(context.Background(), ops.WalkOptions{Only: []diag.HopID{diag.HopNodeHeartbeat}}, nil)
		signal := diag.Signal("no signal")
		for _, h := range r.Hops {
			if h.ID == diag.HopNodeHeartbeat {
				signal = cmp.Or(h.Signal, signal)
			}
		}
		lines[i] = fmt.Sprintln(nodes[i], r.Verdict.Outcome, signal)
	})
	return lines
}

// TestEach holds what ExampleSite_Each prints: an example of a platform with a listener cannot be left out of a short
// run, so it has no output of its own.
func TestEach(t *testing.T) {
	tier.NeedsHost(t)
	site, end := aPlatform()
	defer end()
	want := []string{"n1 pass no signal\n", "n2 fail node_agent_heartbeat_stale\n",
		"n3 inconclusive operator_node_unknown\n"}
	if got := heartbeats(site, "n1", "n2", "n3"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
