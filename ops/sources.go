package ops

import (
	"cmp"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
)

// sources returns the gathered facts as events, each with the clock of its source.
func (h *Measured) sources(node string, r Redacted) []evidence.Source {
	nodeClock := evidence.ClockOf("node", h.NodeClock)
	hostClock := evidence.ClockOf("platform", h.PlatformClock)
	apiClock := h.APIClock()
	if hostClock.OffsetMS == nil {
		hostClock = apiClock
	}
	record := evidence.Record(nodeClock, node, h.Record.Record)
	agent := evidence.Journal(nodeClock, evidence.FromAgent, node, h.Agent.Journal)
	agent.Instance = h.instance()
	sources := []evidence.Source{record, agent,
		evidence.Journal(hostClock, evidence.FromPlatform, "", h.Platform.Journal),
		evidence.Platform(apiClock, h.Items, r.Scrub("platform evidence")),
		evidence.Preflight(h.Report),
	}
	if len(h.Latest) == 2 {
		sources = append(sources, evidence.Journal(hostClock, evidence.FromPlatform, "", h.Latest[0].Journal),
			evidence.Journal(hostClock, evidence.FromIngress, "", h.Latest[1].Journal))
	}
	for _, f := range h.Ingress {
		sources = append(sources, evidence.Journal(hostClock, evidence.FromIngress, "", f.Journal))
	}
	return sources
}

// instance returns the node's instance by its newest record entry; "" if it has none.
func (h *Measured) instance() string {
	if h.Record.Record == nil {
		return ""
	}
	id := ""
	for _, e := range h.Record.Record.Entries {
		id = cmp.Or(e.InstanceID, id)
	}
	return id
}

// APIClock compares the time in the platform's answer with ours in the middle of the exchange.
func (h *Measured) APIClock() evidence.Clock {
	c := evidence.Clock{Host: "platform API"}
	f := h.Node
	if f.HTTP == nil {
		return c
	}
	half := time.Duration(f.DurationMS) * time.Millisecond / 2
	uncertain := half
	var now diag.Time
	if err := now.UnmarshalText([]byte(f.HTTP.Fields["node.now"])); err != nil || now.IsZero() {
		now, uncertain = f.HTTP.Date, half+time.Second // the header has whole seconds
	}
	if now.IsZero() {
		return c
	}
	offset, give := now.Sub(f.At.Add(half)).Milliseconds(), uncertain.Milliseconds()
	c.OffsetMS, c.ErrorMS, c.Now = &offset, &give, now
	return c
}
