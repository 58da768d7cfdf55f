package gpu

import (
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// How often one GPU is an event. Its state is reported when it changes, its gauges and counters within the minute, and
// all of it often enough that the platform can tell a GPU that is well from one that nobody looks at.
const (
	gaugesEvery = time.Minute
	allEvery    = 5 * time.Minute
)

// devices is what was last reported of each GPU, by its index.
type devices map[int]shownDevice

type shownDevice struct {
	at            time.Time
	state, gauges string
}

// events are those of a sample that are worth an event.
func (d *devices) events(s *report.Sample, now time.Time) (events []*report.Event) {
	if *d == nil {
		*d = devices{}
	}
	driver := ""
	if s.Library.Driver.Text != nil {
		driver = *s.Library.Driver.Text
	}
	for i := range s.GPUs {
		g := &s.GPUs[i]
		is := shownDevice{at: now}
		is.state, is.gauges = texts(g)
		was := (*d)[i]
		since := now.Sub(was.at)
		if is.state == was.state && (is.gauges == was.gauges || since < gaugesEvery) && since < allEvery {
			continue
		}
		(*d)[i] = is
		events = append(events, &report.Event{Type: report.DeviceEvent, Source: report.FromNVML, At: s.At,
			Device: &report.Device{SampledAt: s.At, Driver: driver, Count: len(s.GPUs), GPU: *g}})
	}
	for i := range *d {
		if i >= len(s.GPUs) && s.Count.Known() { // a GPU that comes again is reported at once
			delete(*d, i)
		}
	}
	return events
}

// texts are what of a GPU is a state and what changes all the time.
func texts(g *report.GPU) (state, gauges string) {
	var a, b strings.Builder
	a.WriteString(g.UUID + " " + g.PCI + " " + g.Handle.String())
	for _, row := range report.Signals() {
		r := g.Signals[row.Signal]
		to := &a
		if r.Known() && (row.Sort == report.Gauge || row.Sort == report.Counter) {
			to = &b
		}
		to.WriteString(" " + r.String())
	}
	for _, m := range g.MIG {
		a.WriteString(" " + m.UUID)
	}
	return a.String(), b.String()
}
