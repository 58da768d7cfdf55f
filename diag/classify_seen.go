package diag

// Seen returns the measured facts of the evidence.
func (e *Evidence) Seen() Seen { return look(e).seen() }

// seen returns the measured facts of the evidence. A hop that only warns neither passes nor fails. A workload whose
// credential is refused runs.
func (v *view) seen() Seen {
	m := make(Seen, len(v.points)+len(v.Probes))
	for _, p := range v.points {
		if p.Status == MarkPass || p.Status == MarkFail {
			m[string(p.ID)] = p.Status
		}
	}
	for i := range v.Probes {
		switch p := &v.Probes[i]; {
		case p.Status == StatusFail:
			m[string(p.Hop)] = MarkFail
		case p.Status == StatusPass && m[string(p.Hop)] == "":
			m[string(p.Hop)] = MarkPass
		}
	}
	for fact, is := range map[string][2]bool{
		FactWorkload: {workloadRuns(v), v.fails(HopAppRuntimeLiveness)},
		FactRoute:    {v.passes(HopAppUserRoute), v.fails(HopAppUserRoute)},
		FactNode:     {v.nodeObserved(), false},
	} {
		switch {
		case is[0]:
			m[fact] = MarkPass
		case is[1]:
			m[fact] = MarkFail
		}
	}
	switch {
	case v.recentContact():
		m[FactContact] = MarkPass
	case v.contactLost():
		m[FactContact] = MarkFail
	}
	if v.record.refused != nil {
		m[FactHeartbeatAnswer] = MarkFail
	}
	switch v.token {
	case TokenCurrent:
		m[FactToken] = MarkPass
	case TokenGone:
		m[FactToken] = MarkFail
	}
	return m
}
