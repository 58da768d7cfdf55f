package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/golden"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

const goalFirst = 2 * time.Second

// answers reports, for the recorded faults, how well verdicts are supported by evidence, how soon each was on the
// screen (first as a likely verdict), and what that costs a walk.
func answers(t *table) error {
	var share golden.Share
	var first, network []time.Duration
	var judging, walking time.Duration
	corrected := 0
	for path := range golden.Supports() {
		data, err := os.ReadFile(filepath.Join("golden", filepath.FromSlash(path)))
		if err != nil {
			return fmt.Errorf("read a recording: %w", err)
		}
		var r diag.Report
		if err := json.Unmarshal(data, &r); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		again, err := verdict.Replay(hops.BuiltIn(), &r)
		if err != nil {
			return fmt.Errorf("judge %s: %w", path, err)
		}
		share.Add(path, &again.Verdict)
		if again.Verdict.Blame != nil {
			began := time.Now()
			at, wrong := golden.FirstBlame(again)
			judging += time.Since(began)
			walking += time.Duration(again.Run.DurationMS) * time.Millisecond
			first = append(first, at)
			if wrong {
				corrected++
			}
			if slices.Contains(golden.NetworkFaults(), path) {
				network = append(network, at)
			}
		}
	}
	t.aim("recordings whose blame is proven or observed",
		fmt.Sprintf("%d + %d of %d (%d %%)", share.Proven, share.Observed, share.Blamed, share.Supported()),
		">= 80 %", share.Supported() >= goalSupport)
	t.aim("proven, of those with an input to change",
		fmt.Sprintf("%d of %d (%d %%)", share.InputProven, share.WithInput, share.OfInput()),
		">= 80 %", share.OfInput() >= goalSupport)
	words := func(all []time.Duration) string {
		s := spreadOf(all)
		return fmt.Sprintf("median %s, p95 %s, max %s", short(s.median), short(percentile(all, 95)), short(s.max))
	}
	t.addLine("their final blame on the screen", "%s", words(first))
	t.aim("of these, the faults of the network", words(network), "p95 <= 2 s", percentile(network, 95) <= goalFirst)
	t.aim("another blame before it", fmt.Sprintf("%d of %d", corrected, len(first)), "< 5 %", 20*corrected < len(first))
	t.aim("judging on the way, of the walks' time", fmt.Sprintf("%.2f %%", 100*judging.Seconds()/walking.Seconds()),
		"<= 1 %", judging < walking/100)
	return nil
}
