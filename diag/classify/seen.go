package classify

import "github.com/gpuaas/gpuaasctl/diag"

// Seen returns the measured facts of the evidence.
func (e *Evidence) Seen() diag.Seen { return viewOf(e).seen() }

// seen returns the measured facts of the evidence. A hop that only warns neither passes nor fails. A workload whose
// credential is refused runs.
func (v *view) seen() diag.Seen {
	m := make(diag.Seen, len(v.points)+len(v.Probes))
	for _, p := range v.points {
		if p.Status == diag.MarkPass || p.Status == diag.MarkFail {
			m[string(p.ID)] = p.Status
		}
	}
	for i := range v.Probes {
		switch p := &v.Probes[i]; {
		case p.Status == diag.StatusFail:
			m[string(p.Hop)] = diag.MarkFail
		case p.Status == diag.StatusPass && m[string(p.Hop)] == "":
			m[string(p.Hop)] = diag.MarkPass
		}
	}
	for fact, is := range map[string][2]bool{
		diag.FactWorkload: {workloadRuns(v), v.fails(diag.HopAppRuntimeLiveness)},
		diag.FactRoute:    {v.passes(diag.HopAppUserRoute), v.fails(diag.HopAppUserRoute)},
		diag.FactNode:     {v.nodeObserved(), false},
	} {
		switch {
		case is[0]:
			m[fact] = diag.MarkPass
		case is[1]:
			m[fact] = diag.MarkFail
		}
	}
	switch {
	case v.recentContact():
		m[diag.FactContact] = diag.MarkPass
	case v.contactLost():
		m[diag.FactContact] = diag.MarkFail
	}
	if v.record.refused != nil {
		m[diag.FactHeartbeatAnswer] = diag.MarkFail
	}
	switch v.token {
	case TokenCurrent:
		m[diag.FactToken] = diag.MarkPass
	case TokenGone:
		m[diag.FactToken] = diag.MarkFail
	}
	return m
}
