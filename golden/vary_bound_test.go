package golden

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// boundVariations moves the values of a fact to the bounds of the rules that read them: just below, on it, just above.
func boundVariations(whole *diag.Report, i int) []variation {
	var all []variation
	f := &whole.Facts[i]
	add := func(name string, to func(*diag.Fact)) {
		all = append(all, variation{name: name, apply: func(r *diag.Report) { replace(r, []int{i}, to) }})
	}
	for _, b := range agesOf(whole.Plan.Policy) {
		now := fieldTime(f, b.now)
		if now.IsZero() || f.HTTP.Fields[b.field] == "" {
			continue
		}
		for _, off := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
			add(fmt.Sprintf("%s is %s old", b.field, b.age+off), func(f *diag.Fact) {
				f.HTTP.Fields[b.field] = now.Add(-b.age - off).Format(time.RFC3339Nano)
			})
		}
	}
	for _, n := range []int{-1, 0, 1} {
		if f.Disk != nil {
			limit := int(whole.Plan.Policy["node.disk_pressure_percent"])
			add(fmt.Sprintf("disk used %d%%", limit+n), func(f *diag.Fact) { f.Disk.UsedPercent = limit + n })
		}
		if f.Clock != nil {
			for _, sign := range []int64{-1, 1} {
				off := sign * (5000 + int64(n)) // preflight's MaxClockSkew, in milliseconds
				add(fmt.Sprintf("clock off by %d ms", off), func(f *diag.Fact) {
					f.Clock.OffsetMS, f.Clock.ErrorMS = &off, new(int64)
				})
			}
		}
		if f.Unit != nil {
			for _, restarts := range []int{1, 3} {
				add(fmt.Sprintf("unit restarted %d times, every 4 s", restarts+n), recentRestarts(restarts+n, 1))
			}
			for _, up := range []int64{10, 10_000} { // 10: twice the time between two restarts, which are rounded down
				add(fmt.Sprintf("unit restarted 3 times, up for %d s", up+int64(n)), recentRestarts(3, up+int64(n)))
			}
		}
		if f.GPU != nil {
			age := 4*time.Minute.Milliseconds() + int64(n) // preflight's gpuGrace
			add(fmt.Sprintf("GPUs sampled %d ms before", age), func(f *diag.Fact) { f.GPU.AgeMS = &age })
		}
		if f.Cert != nil {
			add(fmt.Sprintf("certificate ends %d s after the measurement", n), func(f *diag.Fact) {
				f.Cert.Leaf.NotAfter = diag.Time{Time: f.At.Add(time.Duration(n) * time.Second)}
			})
			add(fmt.Sprintf("certificate begins %d s after the measurement", n), func(f *diag.Fact) {
				f.Cert.Leaf.NotBefore = diag.Time{Time: f.At.Add(time.Duration(n) * time.Second)}
			})
		}
	}
	return all
}

func recentRestarts(n int, up int64) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Unit.Restarts, f.Unit.UptimeS = &n, &up
		f.Unit.Recent = &diag.UnitRestarts{WithinS: 600, Count: n, EveryS: new(int64(4))}
	}
}

// ageBound is the age at which a rule changes its mind about a field.
type ageBound struct {
	field, now string
	age        time.Duration
}

func agesOf(policy map[string]int64) []ageBound {
	seconds := func(key string) time.Duration { return time.Duration(policy[key]) * time.Second }
	stale, interval := seconds("node.heartbeat_stale_after_seconds"), seconds("node.heartbeat_interval_seconds")
	return []ageBound{
		{"node.last_heartbeat_at", "node.now", stale}, {"node.last_heartbeat_at", "node.now", stale + interval},
		{"node.last_seen_at", "node.now", stale}, {"node.last_seen_at", "node.now", stale + interval},
		{"node.last_denial_at", "node.now", stale},
		{"gpu.judged_at", "gpu.now", 15 * time.Minute}, {"gpu.sampled_at", "gpu.now", 4 * time.Minute},
	}
}

func fieldTime(f *diag.Fact, field string) time.Time {
	if f.HTTP == nil {
		return time.Time{}
	}
	at, _ := time.Parse(time.RFC3339Nano, f.HTTP.Fields[field]) // zero: not there
	return at
}
