package policy

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// gpu makes an observation of a GPU.
func (f *facts) gpu(g *seen) {
	s := Subject{About: AboutGPU, What: fmt.Sprint("GPU ", g.Index), Index: &g.Index, UUID: g.UUID, PCI: g.PCI}
	f.GPUs = append(f.GPUs, s)
	stale := StaleEvent
	if f.ev.Sample != nil {
		stale = Stale
	}
	if age := f.ev.Now.Sub(g.at); age > stale { // negative if Now is zero
		f.floor(s, "was last looked at %s ago", age.Round(time.Second))
		return
	}
	f.refused(s, &g.GPU)
	if n := len(g.MIG); n > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("GPU %d is divided into %d MIG instances: what its driver does not support "+
			"then, as the state of remapped rows, is not judged", g.Index, n))
	}
	f.Observations = append(f.Observations, Observation{s, gpuValues(&g.GPU)})
}

// refused adds what the driver's refusals say about a GPU.
func (f *facts) refused(s Subject, g *report.GPU) {
	call, must := g.MustReset()
	switch {
	case g.Lost():
		f.floor(s, "a call was answered with GPU_IS_LOST, which outweighs every other answer")
	case must && call != "":
		f.floor(s, "%s was answered with RESET_REQUIRED, which outweighs every other answer: %s", call,
			report.CodeOf(report.NeedsReset).Do)
	case !g.Handle.Known():
		f.floor(s, "has no handle: %s", g.Handle.Why())
	case must:
		f.floor(s, "must be reset before it can be used")
	}
	for _, r := range g.Refusals {
		row := report.CodeOf(r.Code)
		switch {
		case r.Code == report.GPUIsLost, r.Code == report.NeedsReset: // as above
		case row.About == report.AboutAnswer:
			f.floor(s, "%s: %s", r.Call, report.Explain(r.Code))
		default:
			f.Notes = append(f.Notes, fmt.Sprintf("%s: %s: %s", s.What, r.Call, report.Explain(r.Code)))
		}
	}
}

// verdict adds a finding if the driver answered a call about no GPU with a verdict on one, which it did not name.
func (f *facts) verdict(codes ...int) {
	for _, code := range codes {
		if code == report.GPUIsLost || code == report.NeedsReset {
			f.Floors = append(f.Floors, Finding{Subject: onNode("the driver"), Health: Unhealthy,
				Why: "a GPU, which the driver does not name: " + report.Explain(code)})
			return
		}
	}
}

// versions adds a finding if the driver's own version could not be read because it is not there, or not the library's.
func (f *facts) versions(l *report.Library) {
	for _, r := range [...]report.Reading{l.Driver, l.NVML} {
		if r.Failed == report.NotLoaded || r.Failed == report.VersionsApart {
			f.floor(onNode("the driver"), "%s", r.Why())
			return
		}
	}
}
