package status

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

var all = []Status{Active, Cordoned, Draining, Unhealthy, Terminated}

// kept returns a stored node of each status.
func kept(s, before Status) Node {
	if s != Unhealthy {
		before = ""
	}
	return Node{Status: s, Before: before}
}

// TestTable has every cell: the result of a report of a health for a node with a status.
func TestTable(t *testing.T) {
	// The columns of the table: healthy, degraded, unhealthy, unknown.
	order := []policy.Health{policy.Healthy, policy.Degraded, policy.Unhealthy, policy.Unknown}
	table := map[Status][4]Status{
		Active:     {Active, Active, Unhealthy, Active},
		Cordoned:   {Cordoned, Cordoned, Unhealthy, Cordoned},
		Draining:   {Draining, Draining, Unhealthy, Draining},
		Terminated: {Terminated, Terminated, Terminated, Terminated},
	}
	for _, before := range []Status{Active, Cordoned, Draining} {
		table[Unhealthy] = [4]Status{before, Unhealthy, Unhealthy, Unhealthy}
		for _, from := range all {
			for i, h := range order {
				next, c := kept(from, before).Report(h, policy.Enforce)
				if want := table[from][i]; next.Status != want || c.To != want || c.From != from || c.Health != h || c.Why == "" {
					t.Errorf("%s (before %s) and %s: %+v %+v, want %s", from, before, h, next, c, want)
				}
				if c.Refused != (from == Terminated) {
					t.Errorf("%s and %s: refused %t", from, h, c.Refused)
				}
				shadow, sc := kept(from, before).Report(h, policy.Shadow)
				if shadow != kept(from, before) || sc.To != from || sc.Shadow != (from != Terminated) {
					t.Errorf("%s and %s in shadow mode: %+v %+v", from, h, shadow, sc)
				}
			}
		}
	}
	if next, c := (Node{}).Report(policy.Unhealthy, policy.Enforce); next.Status != Unhealthy || next.Before != Active ||
		c.From != Active {
		t.Errorf("a new node: %+v %+v", next, c)
	}
	if next, _ := (Node{Status: Unhealthy}).Report(policy.Healthy, policy.Enforce); next.Status != Cordoned {
		t.Errorf("a node whose status before was not kept: %+v", next)
	}
}

// TestEpisode: unhealthy, degraded changes nothing, healthy restores the previous status.
func TestEpisode(t *testing.T) {
	for _, before := range []Status{Active, Cordoned, Draining} {
		n := Node{Status: before}
		for _, step := range []struct {
			health policy.Health
			want   Status
		}{
			{policy.Degraded, before}, {policy.Unhealthy, Unhealthy}, {policy.Degraded, Unhealthy}, {policy.Unknown, Unhealthy},
			{policy.Unhealthy, Unhealthy}, {policy.Healthy, before}, {policy.Unknown, before},
		} {
			if n, _ = n.Report(step.health, policy.Enforce); n.Status != step.want {
				t.Errorf("%s, %s: %+v, want %s", before, step.health, n, step.want)
			}
		}
	}
}

// TestSequences: for any sequence of events, the code agrees with an independent model. The node is unhealthy exactly
// if an enforced UNHEALTHY came after the last enforced HEALTHY, and otherwise has the status that an operator last
// requested.
func TestSequences(t *testing.T) {
	asks := map[string]func(Node) (Node, Change){
		AskMissing: Node.HeartbeatMissing, AskCordon: Node.Cordon, AskUncordon: Node.Uncordon, AskDrain: Node.Drain,
		AskTerminate: Node.Terminate,
	}
	wants := map[string]Status{AskCordon: Cordoned, AskUncordon: Active, AskDrain: Draining}
	rapid.Check(t, func(t *rapid.T) {
		var n Node
		sick, wanted, over := false, Active, false
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			was := n
			var c Change
			ask := rapid.SampledFrom([]string{AskReport, AskReport, AskReport, AskReport, AskMissing, AskCordon, AskUncordon,
				AskDrain, AskTerminate}).Draw(t, "ask")
			if ask == AskTerminate && rapid.IntRange(0, 3).Draw(t, "really") > 0 {
				ask = AskMissing
			}
			if ask == AskReport {
				h := rapid.SampledFrom(policy.Healths()).Draw(t, "health")
				mode := rapid.SampledFrom([]policy.Mode{policy.Enforce, policy.Enforce, policy.Shadow, ""}).Draw(t, "mode")
				n, c = n.Report(h, mode)
				if mode == policy.Enforce && !over {
					sick = h == policy.Unhealthy || (sick && h != policy.Healthy)
				}
			} else {
				n, c = asks[ask](n)
				if to, is := wants[ask]; is && !over {
					wanted = to
				}
				if over && !c.Refused {
					t.Fatalf("%s of a terminated node: %+v", ask, c)
				}
				over = over || ask == AskTerminate
			}
			want := wanted
			switch {
			case over:
				want = Terminated
			case sick:
				want = Unhealthy
			}
			if n.Now() != want || c.To != want || c.From != was.Now() || c.Why == "" || c.Asked != ask {
				t.Fatalf("%s of %+v: %+v %+v, want %s", ask, was, n, c, want)
			}
			if over && c.From == Terminated && n != was {
				t.Fatalf("a terminated node changed: %+v, %+v", was, n)
			}
			if (n.Status == Unhealthy) != (n.Before != "") {
				t.Fatalf("%+v", n)
			}
		}
	})
}
