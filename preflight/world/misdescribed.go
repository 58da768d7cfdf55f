package world

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// profileMismatch returns why the facts by SSH are not about the walk's node, or not about its agent's real paths; ""
// if they are. whole: another machine answered, so none of its facts is about this node.
func profileMismatch(c *hop.Case) (why string, whole bool) {
	if name := otherNode(c); name != "" {
		return fmt.Sprintf("%s is %s, by its agent's settings and by its certificate", c.Subject.NodeHost, name), true
	}
	if why := noAgentThere(c); why != "" {
		return why, false
	}
	if !ContactFresh(c) {
		return "", false
	}
	unit, id, reach := missingUnit(c), c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity),
		c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)
	noFiles := filesElsewhere(c, id, reach)
	if unit == nil && !noFiles {
		return "", false
	}
	reports := "while the agent of " + c.Subject.NodeID + " reports to the platform"
	switch {
	case unit != nil && noFiles && id != nil && id.Failure == diag.FileMissing:
		return fmt.Sprintf("%s has neither the unit %s nor %s, %s", c.Subject.NodeHost, unit.Request.Target, id.Request.Cert,
			reports), true
	case unit != nil:
		return fmt.Sprintf("%s has no unit %s, %s", c.Subject.NodeHost, unit.Request.Target, reports), false
	}
	return withoutFiles(c, id, reach, reports), false
}

// noAgentThere describes a node on which there is nothing of the agent that the profile names: neither its unit nor its
// program, its credential, its settings or its CA bundle; "" if any of them may be there, or if the platform has ever
// heard from one.
func noAgentThere(c *hop.Case) string {
	if _, known := ContactAge(c); known || HeardBy(c) != "" {
		return ""
	}
	missing := []string{}
	for _, part := range [...]struct {
		f    *diag.Fact
		name func(f *diag.Fact) string
	}{
		{c.Fact(diag.HopNodeReadiness, hop.StepProcess), func(f *diag.Fact) string { return f.Request.Target }},
		{c.Fact(diag.HopNodeReadiness, hop.StepBinary), func(f *diag.Fact) string { return f.Request.Target }},
		{c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity), func(f *diag.Fact) string { return f.Request.Cert }},
		{c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile), nil},
		{c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach), nil},
	} {
		switch {
		case part.f == nil:
		case !absent(part.f) && (part.f.Request.Op != diag.OpUnit || part.f.Failure != diag.Unsupported):
			return ""
		case part.name != nil:
			missing = append(missing, part.name(part.f))
		}
	}
	if len(missing) < 2 {
		return ""
	}
	return fmt.Sprintf("no agent is installed on %s, or the profile names another (agent): there is neither %s", cmp.Or(
		c.Subject.NodeHost, "the node"), strings.Join(missing, " nor "))
}

// filesElsewhere reports whether the agent works without the files of the profile, and so has others. gpuaas-agent
// reads them once, and works on when they are gone: that is a fault of the node. Another agent may have no certificate
// or trust the host's roots. For an agent that does not work, its mounts may hide the files.
func filesElsewhere(c *hop.Case, id, reach *diag.Fact) bool {
	lacks := func(f *diag.Fact) bool {
		return f != nil && f.Failure == diag.FileMissing && (AgentAnswered(c) != "" || !OnlyAgentSees(c, f))
	}
	switch ours := OurAgent(c); {
	case ours.Yes():
		return false
	case ours.No():
		return lacks(id) || lacks(reach)
	}
	return lacks(id) && (reach == nil || reach.Failure == diag.FileMissing || reading.InPhase(reach, "env"))
}

// withoutFiles describes the files of the profile without which the agent works; "" if there may be no other ones,
// since where its API is was not read.
func withoutFiles(c *hop.Case, id, reach *diag.Fact, reports string) string {
	noCert, noBundle := id != nil && id.Failure == diag.FileMissing, reach != nil && reach.Failure == diag.FileMissing
	foreign := OurAgent(c).No()
	switch {
	case noCert && noBundle:
		return fmt.Sprintf("%s has neither %s nor %s, %s", c.Subject.NodeHost, id.Request.Cert, reach.Request.CABundle,
			reports)
	case noBundle && foreign:
		return fmt.Sprintf("%s has no %s, %s, and the agent is not gpuaas-agent", c.Subject.NodeHost, reach.Request.CABundle,
			reports)
	case noCert && foreign && reading.AsksForNoCert(reach):
		return fmt.Sprintf("%s has no %s, %s, and the agent is not gpuaas-agent; its API asks for no certificate: if agents "+
			"of this platform have none, set mapping.paths.%s and mapping.paths.%s to %q", c.Subject.NodeHost,
			id.Request.Cert, reports, profile.PathTaskWait, profile.PathNodeTerminal, profile.Absent)
	case noCert && foreign:
		return fmt.Sprintf("%s has no %s, %s, and the agent is not gpuaas-agent", c.Subject.NodeHost, id.Request.Cert,
			reports)
	}
	return ""
}

// otherNode returns the node that answered the login in the place of the walk's, by its agent's settings and by its
// certificate; "" if none did.
func otherNode(c *hop.Case) string {
	env, id := c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile), c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	if !env.Passed() || env.Env == nil || id == nil || id.Cert == nil || c.Subject.NodeID == "" {
		return ""
	}
	name := c.AgentSetting(env, c.AgentNames().NodeID)
	if name == "" || SameNode(c, name) || !boundTo(id.Cert, name) {
		return ""
	}
	return name
}

// missingUnit returns the fact that the agent's unit does not exist, nil if it may.
func missingUnit(c *hop.Case) *diag.Fact {
	if unit := c.Fact(diag.HopNodeReadiness, hop.StepProcess); unit != nil && unit.Failure == diag.UnitMissing {
		return unit
	}
	return nil
}

// boundTo reports whether a certificate is that of the node with this name, and not of the walk's node.
func boundTo(f *diag.CertFacts, name string) bool {
	if f.NodeBound == nil || *f.NodeBound {
		return false
	}
	return f.BoundTo == name || strings.HasSuffix(f.BoundTo, ":"+name) || slices.Contains(f.Leaf.DNSNames, name)
}

// ClearProfileMismatch makes failing findings inconclusive if their only cause is a profile that does not describe this
// node.
func ClearProfileMismatch(c *hop.Case, findings []diag.Finding) []diag.Finding {
	if !slices.ContainsFunc(findings, func(f diag.Finding) bool { return f.Status == diag.StatusFail }) {
		return findings
	}
	why, whole := profileMismatch(c)
	if why == "" {
		return findings
	}
	out := slices.Clone(findings)
	for i := range out {
		f := &out[i]
		if f.Status != diag.StatusFail || len(f.Evidence) == 0 {
			continue
		}
		fact := c.FactByID(f.Evidence[0])
		if fact == nil || fact.Vantage != hop.Node || fact.Request.Op == diag.OpSSH || (!whole && !absent(fact)) {
			continue
		}
		e := reading.Undecided(fact, "%s: %s", why, f.Text)
		e.Signal = diag.SigProfileMismatch
		out[i] = e
	}
	return out
}

// absent reports whether f found something missing.
func absent(f *diag.Fact) bool {
	switch f.Failure {
	case diag.UnitMissing, diag.FileMissing, diag.BinaryMissing:
		return true
	}
	return reading.InPhase(f, "env")
}

// PlatformOffset returns the platform's clock minus the operator's, by the dates of its answers to this operator, and
// the margin of error; known is false if no answer has a date.
func PlatformOffset(c *hop.Case) (offset, margin time.Duration, known bool) {
	for _, f := range [...]*diag.Fact{c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz),
		c.Fact(diag.HopControlPlaneAccess, hop.StepAuth), c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel)} {
		if f == nil || f.HTTP == nil || f.HTTP.Date.IsZero() || f.At.IsZero() {
			continue
		}
		took := time.Duration(f.DurationMS) * time.Millisecond
		return f.HTTP.Date.Sub(f.At.Time), took + time.Second, true // a date has whole seconds
	}
	return 0, 0, false
}

// ClockOfOperator is the finding if the operator's clock, with which the node's was compared, is the wrong one, or if
// it is not known which of the two is. It is nil if the node's is wrong.
func ClockOfOperator(c *hop.Case, f *diag.Fact, node, margin time.Duration) *diag.Finding {
	platform, give, known := PlatformOffset(c)
	var out diag.Finding
	switch bearable := MaxClockSkew + margin + give; {
	case !known:
		out = reading.Undecided(f, "the clocks of the node and of this machine are %s apart, and no third one was read",
			node.Round(time.Millisecond))
		out.Signal = diag.SigOperatorClockSkew
	case (node - platform).Abs() <= bearable:
		out = reading.Warn(diag.SigOperatorClockSkew, f,
			"the clocks of node and platform agree, and this machine's is %s off", (-node).Round(time.Millisecond))
		out.Failure = diag.ClockSkew
	default:
		return nil
	}
	return &out
}

// RefusedNoop is the finding for a no-op that the agent refused: it answered, so nothing before it is broken.
func RefusedNoop(c *hop.Case, got *diag.Fact, why string) diag.Finding {
	if why == "task_expired" && platformBehind(c) > 0 {
		return expiredEarly(c, got)
	}
	if !slices.Contains(refusals[:], why) {
		return reading.Undecided(got, "the no-op failed with an error code that is about neither keys nor versions: %s",
			reading.OrUnknown(why))
	}
	f := reading.Fail(diag.SigTaskClaimFailed, got, "the agent refused the no-op: %s", why)
	f.Direct = true
	return f
}

// platformBehind returns how far the platform's clock, by its read model, is behind those of node and operator, which
// agree; 0 if it is not known to be.
func platformBehind(c *hop.Case) time.Duration {
	read, k := c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel), c.Fact(diag.HopNodeReadiness, hop.StepClock)
	now := hop.TimeOf(read, "node.now")
	if now.IsZero() || !k.Passed() || k.Clock == nil || k.Clock.OffsetMS == nil ||
		time.Duration(*k.Clock.OffsetMS).Abs()*time.Millisecond > MaxClockSkew {
		return 0
	}
	if behind := read.At.Sub(now); behind > 2*MaxClockSkew {
		return behind
	}
	return 0
}

// expiredEarly is the finding for a no-op that the agent refused as expired, by a clock that is right.
func expiredEarly(c *hop.Case, f *diag.Fact) diag.Finding {
	out := reading.Fail(diag.SigTaskClaimFailed, f,
		"the agent refused the no-op as expired (task_expired): the platform's clock "+
			"is %s behind those of node and operator, so its tasks expire early", diag.Age(platformBehind(c)))
	out.Side, out.Direct, out.Reason = diag.SidePlatform, true, diag.ReasonNone
	return out
}
