package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// timeline shows how a walk spent its round trips: each step of each vantage with its start and end, in round
// trips.
func timeline(t *table, file string, rtt time.Duration) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r diag.Report
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("read the walk's report: %w", err)
	}
	ms := rtt.Seconds() * 1e3
	facts := r.Facts
	sort.SliceStable(facts, func(i, j int) bool { return facts[i].OffsetMS < facts[j].OffsetMS })
	by := map[string][]string{}
	for _, f := range facts {
		begin := float64(f.OffsetMS) / ms
		end := begin + float64(f.DurationMS)/ms
		by[f.Vantage] = append(by[f.Vantage],
			fmt.Sprintf("%s %.1f-%.1f", strings.TrimPrefix(f.ID[strings.IndexByte(f.ID, '/')+1:], "/"), begin, end))
	}
	for _, v := range []string{"operator", "node"} {
		t.addLine("  where they go, in round trips: "+v, "%s", strings.Join(by[v], ", "))
	}
	t.addLine("  the walk itself ended at", "%.1f round trips", float64(r.Run.DurationMS)/ms)
	return nil
}
