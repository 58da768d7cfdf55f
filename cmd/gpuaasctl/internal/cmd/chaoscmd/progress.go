package chaoscmd

import (
	"fmt"
	"io"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// newDrillProgress writes the progress of drills to w, one line for each relevant event, with the seconds since the
// drill began. The function is not safe for concurrent use.
func newDrillProgress(w io.Writer) func(ops.Progress) {
	p := &drillProgress{w: w}
	return p.told
}

// drillProgress is the running drill, as far as its events show.
type drillProgress struct {
	w     io.Writer
	story drill.Story
	found bool
	green bool
}

func (p *drillProgress) told(u ops.Progress) {
	if u.Walk != nil {
		return
	}
	if u.Event.Kind == drill.Begun {
		*p = drillProgress{w: p.w}
	}
	p.story.Add(u.Event)
	if u.Event.Kind == drill.Begun {
		p.title(u)
		return
	}
	for _, line := range drillrender.Event(u.Event, &p.story) {
		p.line(u.Event, line)
	}
	p.times(u.Event)
}

// title begins a drill.
func (p *drillProgress) title(u ops.Progress) {
	plan := &p.story.Plan
	m := plan.Scenario.Metadata
	which := "drill"
	if u.Count > 1 {
		which = fmt.Sprintf("drill %d of %d", u.Index+1, u.Count)
	}
	p.write(fmt.Sprintf("%s: %s on %s: %s (run %s)", which, m.ID, plan.Node, m.Title, plan.Run))
}

// times reports once when the chain detected the fault, and when it was green again.
func (p *drillProgress) times(e drill.Event) {
	d := p.story.Drill()
	if !p.found && d.Detect.Seen {
		p.found = true
		p.line(e, "found "+timed(d.Detect))
	}
	if !p.green && d.Recover.Seen {
		p.green = true
		p.line(e, "green again "+timed(d.Recover))
	}
}

func timed(t drill.Timing) string {
	text := fmt.Sprintf("after %s of %s", drill.Seconds(t.WithinMS), t.Budget)
	if t.WithinMS > t.Budget.Std().Milliseconds() {
		text += ", late"
	}
	return text
}

func (p *drillProgress) line(e drill.Event, text string) {
	p.write(fmt.Sprintf("%7s  %s", drill.Seconds(e.MS), text))
}

// write writes one line without control characters. It ignores a write error.
func (p *drillProgress) write(text string) { _, _ = fmt.Fprintln(p.w, page.Clean(text)) }
