package gpu

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/state"
)

// deviceEvery is how often, in samples, a GPU is reported while its state does not change: a platform that misses
// three reports, at 15 s per sample, calls the GPU unknown (policy.StaleEvent).
const deviceEvery = 4

// devices holds the last report of each GPU, by index.
type devices map[int]shownDevice

type shownDevice struct {
	at    time.Time
	state string
}

// events returns the events for a sample; interval is the time between samples. changed reports whether anything
// except gauges and counters differs.
func (d *devices) events(s *report.Sample, interval time.Duration, now time.Time) (events []*report.Event,
	changed bool) {
	if *d == nil {
		*d = devices{}
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		is := shownDevice{now, stateOf(g)}
		was := (*d)[i]
		if is.state == was.state && now.Sub(was.at) < deviceEvery*interval {
			continue
		}
		changed = changed || is.state != was.state
		(*d)[i] = is
		events = append(events, state.DeviceOf(s, i))
	}
	for i := range *d {
		if i >= len(s.GPUs) && s.Count.Known() { // a GPU that reappears is reported at once
			delete(*d, i)
			changed = true
		}
	}
	return events, changed
}

// stateOf is the part of a GPU's report whose change is reported at once: everything except gauges and counters.
func stateOf(g *report.GPU) string {
	var b strings.Builder
	b.WriteString(g.UUID + " " + g.PCI + " " + g.Handle.String())
	for _, row := range report.Signals() {
		r := g.Signals[row.Signal]
		changes := row.Sort == report.Gauge || row.Sort == report.Counter
		if changes && (r.Known() || r.NotAsked == report.NotThere) { // as the clients of an MPS server that has ended
			b.WriteString(" value")
			continue
		}
		b.WriteString(" " + r.String())
	}
	for _, m := range g.MIG {
		b.WriteString(" " + m.UUID)
	}
	for _, r := range g.Refusals {
		fmt.Fprint(&b, " ", r.Call, r.Code)
	}
	return b.String()
}
