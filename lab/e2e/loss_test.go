//go:build linux

package e2e

import (
	"fmt"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// lossyNode drops the given percentage of packets between a node and the platform, in both directions.
func lossyNode(percent int) (do, undo string) {
	rule := fmt.Sprintf("numgen random mod 100 < %d drop", percent)
	return "nft -f - <<'X'\nadd table inet loss\n" +
		"add chain inet loss out { type filter hook output priority 0; }\nadd rule inet loss out ip daddr 10.231.77.10/31 " +
		rule + "\n" +
		"add chain inet loss in { type filter hook input priority 0; }\nadd rule inet loss in ip saddr 10.231.77.10/31 " +
		rule + "\nX", "nft delete table inet loss"
}

// TestLossOnANode: a network that loses packets proves nothing else. Whether a walk detects the loss, and which
// one, is random, but no walk may blame another cause.
func TestLossOnANode(t *testing.T) {
	l := needLab(t)
	t.Parallel()
	for _, percent := range []int{10, 30, 50} {
		t.Run(fmt.Sprintf("%d percent", percent), func(t *testing.T) {
			machine := ownNode(t, l)
			green(t, machine)
			do, undo := lossyNode(percent)
			defer green(t, machine)
			defer on(t, l, machine, undo)
			on(t, l, machine, do)
			words := map[string]int{}
			found := func() bool { return percent < 30 || words[string(diag.SigNetworkUnstable)] > 0 }
			for i := 0; i < 8 || (!found() && i < 30); i++ {
				r, _, _ := walk(t, machine)
				v := r.Verdict
				words[string(v.Outcome)+" "+string(v.Confidence)]++
				all := append([]diag.Blame{}, v.OtherFindings...)
				if v.Blame != nil {
					all = append(all, diag.Blame{Hop: v.Blame.Hop, Signal: v.Blame.Signal, Text: v.Blame.Text,
						Confidence: v.Confidence, Proof: v.Proof})
				}
				for _, b := range all {
					words[string(b.Signal)]++
					if b.Confidence == diag.Proven && b.Signal != diag.SigNetworkUnstable {
						t.Errorf("%s %s is proven: %+v\n%s", b.Hop, b.Signal, b.Proof, b.Text)
					}
				}
			}
			t.Log(words)
			if !found() {
				t.Errorf("no walk found the loss: %v", words)
			}
		})
	}
}
