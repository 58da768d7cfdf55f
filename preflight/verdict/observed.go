package verdict

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// observedRow defines for one kind of finding when its cause was measured: a field of a fact has the fault as its
// value, and that fact decided the finding, or is about the same certificate, unit, task or answer. A conclusion from
// the value is not an observation.
type observedRow struct {
	signals  signals
	failures words  // of the finding; none: any
	field    string // of the fact that has the cause
	holds    holder
}

// observedRows is the closed list. No row rests on the profile alone: if something is not where the profile says, the
// profile may be wrong.
var observedRows = [...]observedRow{
	{signals{diag.SigProcessDown}, notRunning, "unit.active", unlessHeard(agentEnded)},
	{signals{diag.SigProcessDown}, words{diag.ProcessStopped}, "unit.process_state", unlessHeard(processStopped)},
	{signals{diag.SigProcessDown}, noFailure, "unit.later", unlessHeard(restarting)},
	{signals{diag.SigBinaryInvalid}, nil, "unit.exec_status", unlessHeard(notExecuted)},
	{signals{diag.SigBinaryInvalid}, words{diag.BinaryExecFormat}, "binary.machine", unlessHeard(otherMachine)},
	{signals{diag.SigDiskFull}, words{diag.DiskFull, diag.DiskInodes, diag.DiskReadOnly}, "errno", writeRefused},
	{signals{diag.SigDiskFull}, noFailure, "disk.free_bytes", nothingFree},
	{signals{diag.SigDiskPressure}, noFailure, "disk.used_percent", overLimit},
	{signals{diag.SigAgentConfined}, words{diag.TCPDenied}, "unit.confined", world.UnitRefuses},
	{signals{diag.SigClockSkew}, words{diag.ClockSkew}, "clock.offset_ms", clockOff},

	{signals{diag.SigOpsSSHFailed}, words{diag.SSHHostKey}, "ssh.host_key_sha256", otherHostKey},
	{signals{diag.SigOpsSSHFailed}, words{diag.NotPermitted}, "ssh.uid", notRoot},
	{signals{diag.SigOpsSSHFailed}, words{diag.TCPTimeout, diag.TCPNoRoute}, "http.fields.node.agent_addresses", moved},

	{signals{diag.SigAuthFailed}, wrongDates, "cert.leaf", unlessHeard(certDates)},
	{signals{diag.SigAuthFailed}, words{diag.FileMismatch}, "cert.key_matches", unlessHeard(otherKey)},
	{signals{diag.SigAuthFailed}, words{diag.FileUnreadable}, "cert.denied_file", deniedToAgent},
	{signals{diag.SigAuthFailed}, words{diag.FileMismatch}, "cert.bound_to", unlessHeard(otherNode)},
	{signals{diag.SigAuthFailed}, words{diag.FileMismatch}, fieldOfNode, unlessHeard(otherName)},
	{signals{diag.SigAuthFailed}, words{diag.MTLSCertRejected}, "cert.leaf.usages", notForClients},
	{signals{diag.SigAuthFailed}, certRefused, "tls.acceptable_cas", unlessHeard(foreignCertificate)},
	{signals{diag.SigAuthFailed}, nil, "http.error_code", decidedAs("revoked", "fenced", "retired")},
	{signals{diag.SigIdentityCloned}, nil, "http.error_code", decidedAs("cloned")},
	{signals{diag.SigIngressCADrift}, nil, "http.fields.trust.ingress_trusts_signing_ca", platformSaysDrift},
	{signals{diag.SigIngressCADrift}, nil, "tls.acceptable_cas", listenersDiffer},
	{signals{diag.SigEndpointProfileDrift, diag.SigTerminalProfileDrift}, nil, "tls.cert_requested", neverAsked},
	{signals{diag.SigNodeStreamMTLS}, wrongDates, "cert.leaf", certDates},
	{signals{diag.SigNodeStreamMTLS}, certRefused, "tls.acceptable_cas", unlistedIssuer},
	{tlsSignals, servedDates, "tls.chain", serverDates},
	{tlsSignals, servedDates, "tls.misdated", signerDates},
	{signals{diag.SigEdgeRateLimited}, nil, "http.status", limited},

	{signals{diag.SigControlPlaneUnreachable}, words{diag.HTTPEdgePage}, "http.status", edgeGaveUp},
	{signals{diag.SigOperatorAuthFailed}, nil, "http.error_code", tokenRefused},
	{signals{diag.SigAllocationNotActive}, noFailure, "http.fields.allocation.state", fromPlatform("allocation.state")},
	{signals{diag.SigAllocationNodeMismatch}, noFailure, "http.fields.allocation.node_id",
		fromPlatform("allocation.node_id")},
	{signals{diag.SigTaskBacklogStale}, noFailure, "http.fields.node.stale_tasks", fromPlatform("node.stale_tasks")},
	{signals{diag.SigAppCredentialFailing}, noFailure, "http.fields.allocation.app_credential_healthy",
		fromPlatform("allocation.app_credential_healthy")},
	{signals{diag.SigHeartbeatStale}, noFailure, "record.entries.status", heartbeatRefused},
	{signals{diag.SigResultPostFailed}, noFailure, "record.entries.status", world.ResultRefused},

	{signals{diag.SigUpgradeFailed}, nil, "http.error_code", answeredAs("session_store_unavailable", "upgrade_required")},
	{signals{diag.SigPTYFailed}, nil, "ws.frame_code", shellWord},
	{signals{diag.SigAppStopped}, notRunning, "unit.active", workloadDown(unitEnded)},
	{signals{diag.SigAppStopped}, words{diag.ProcessStopped}, "unit.process_state", workloadDown(processStopped)},
	{signals{diag.SigAppRouteFailed}, nil, "unit.listening", onlyAtLoopback},
	{signals{diag.SigGPUUnhealthy}, noFailure, "http.fields.gpu.decided_what", world.MeasuredOnGPU},
	{signals{diag.SigCheckFailed}, nil, "check", checked},
	{signals{diag.SigGPUUnhealthy}, noFailure, "gpu_judged.document.decided_by", world.MeasuredHere},

	{signals{diag.SigHostMountHangs}, noFailure, "mounts.mounts", mountState},
	{signals{diag.SigHostFull}, noFailure, "mounts.mounts", mountFull},
	{signals{diag.SigHostReadOnly}, noFailure, "mounts.mounts", mountReadOnly},
	{signals{diag.SigHostReadOnly}, noFailure, "kernel.events", kernelSays(diag.KernelRemounted)},
	{signals{diag.SigHostMemoryErrors}, noFailure, "machine.memory_errors", memoryErrors},
	{signals{diag.SigHostMemoryErrors}, noFailure, "kernel.events", kernelSays(diag.KernelUncorrected)},
	{signals{diag.SigHostStorage}, noFailure, "machine.nvme", deadNVMe},
	{signals{diag.SigHostGPUErrors}, noFailure, "kernel.events", kernelSays(diag.KernelGPULost)},
}

// checked is the measurement of a check, by its own rule.
func checked(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	return f, "what the check measured is its result"
}

// observe returns the measured cause of a failing finding; nil if it was not measured, or only follows from another
// fact.
func observe(c *hop.Case, finding *diag.Finding) *diag.Observation {
	if finding.Status != diag.StatusFail || len(finding.Evidence) == 0 {
		return nil
	}
	f := c.FactByID(finding.Evidence[0])
	if f == nil || !hop.Conclusive(f) || world.InDoubt(c, world.ForObservation, f) != "" {
		return nil
	}
	for _, row := range observedRows {
		if !slices.Contains(row.signals, finding.Signal) ||
			(len(row.failures) > 0 && !slices.Contains(row.failures, finding.Failure)) {
			continue
		}
		if at, text := row.holds(c, f); text != "" && world.InDoubt(c, world.ForObservation, at) == "" {
			field := row.field
			if field == fieldOfNode {
				field += c.AgentNames().NodeID
			}
			return &diag.Observation{Fact: at.ID, Field: field, Text: text}
		}
	}
	return nil
}

// support fills in the confidence, the proof and the observation of a root. A finding that another hop's failure would
// explain gets neither proof nor observation while that hop was not measured, unless it is Direct: a pair then proves
// what fails, but not that it is the cause.
func support(chain []hop.Hop, hops []diag.HopResult, r *root, c *hop.Case, b *diag.Blame) {
	f, few := &r.finding, false
	if f.Direct || !explainersUnmeasured(chain, hops, r.hop.ID) {
		for _, id := range f.Evidence {
			proof, why, seldom := Prove(c, f.Signal, id)
			if b.Unproven == "" {
				b.Unproven, few = why, seldom
			}
			if proof != nil {
				b.Proof, b.Unproven = proof, ""
				break
			}
		}
		b.Observation = observe(c, f)
	}
	switch {
	case b.Proof != nil:
		b.Confidence = diag.Proven
	case b.Observation != nil:
		b.Confidence = diag.Observed
	case f.Failure.Silent() && !few:
		b.Confidence = diag.Possible
	default:
		b.Confidence = diag.Likely
	}
	if out := leftOutExplainer(c, r); out != "" {
		b.Confidence, b.Proof, b.Observation = diag.Possible, nil, nil
		b.Unproven = string(out) + ", which may explain it, was left out of this walk"
	}
}

// explainersUnmeasured reports whether a hop that could explain a failure of id was not measured.
func explainersUnmeasured(chain []hop.Hop, hops []diag.HopResult, id diag.HopID) bool {
	may := hop.Closure(chain, id)
	return slices.ContainsFunc(hops, func(h diag.HopResult) bool {
		switch h.Status {
		case diag.StatusInconclusive, diag.StatusNotReached, diag.StatusSkipped:
			return slices.Contains(may, h.ID)
		}
		return false
	})
}

// unlessHeard drops a cause of the agent's silence if the agent answers.
func unlessHeard(holds holder) holder {
	return func(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
		if world.AgentAnswered(c) != "" || (c.Fact(diag.HopNodeRecoveryStatus,
			hop.StepTaskWait).Passed() && f.Request.Op == diag.OpCert) {
			return nil, ""
		}
		return holds(c, f)
	}
}

// workloadDown drops a cause of a dead workload if its port or its route answers: another process serves it.
func workloadDown(holds holder) holder {
	return func(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
		if c.Fact(diag.HopAppRuntimeLiveness, hop.StepPort).Passed() || c.Fact(diag.HopAppUserRoute, hop.StepRoute).Passed() {
			return nil, ""
		}
		return holds(c, f)
	}
}

// agentEnded gives no cause for an agent that exited by itself while something that it needs fails as well: that may be
// why it exits.
func agentEnded(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if u := f.Unit; u != nil && u.Load != "masked" && u.Active != "inactive" && !hasItsNeeds(c) {
		return nil, ""
	}
	return unitEnded(c, f)
}

// hasItsNeeds reports whether the node's API answers the node, and its credential is valid.
func hasItsNeeds(c *hop.Case) bool {
	reach, id := c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach), c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	return reach != nil && (reach.Passed() || world.ListenerReplied(c, reach)) && id.Passed()
}

func unitEnded(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	u := f.Unit
	if u == nil {
		return nil, ""
	}
	switch {
	case u.Load == "masked" && u.Active != "active":
		return f, fmt.Sprintf("systemd reports %s as masked", f.Request.Target)
	case u.Load == "loaded" && (u.Active == "inactive" || u.Active == "failed"):
		return f, fmt.Sprintf("systemd reports %s as %s", f.Request.Target, u.Active)
	case u.Load == "loaded" && u.Active == "activating" && u.Sub == "auto-restart":
		return f, fmt.Sprintf("systemd waits to start %s again, which ended with %s", f.Request.Target, u.Result)
	}
	return nil, ""
}

// processStopped leaves out a process that a debugger stops for a moment, and one that has exited and is not reaped
// yet.
func processStopped(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Unit == nil || f.Unit.PID == 0 || (f.Unit.ProcessState != "T" && f.Unit.ProcessState != "frozen") {
		return nil, ""
	}
	return f, fmt.Sprintf("the main process %d of %s is in the state %s", f.Unit.PID, f.Request.Target,
		f.Unit.ProcessState)
}

func restarting(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Unit == nil || f.Unit.Later == nil || f.Unit.Restarts == nil || !hasItsNeeds(c) {
		return nil, ""
	}
	l := f.Unit.Later
	if (l.Restarts != nil && *l.Restarts > *f.Unit.Restarts) || (l.Active == "activating" && l.Sub == "auto-restart") {
		return f, fmt.Sprintf("process %d of %s ended within %d ms", f.Unit.PID, f.Request.Target, l.AfterMS)
	}
	return nil, ""
}

// statusExec is the exit status that systemd reports for a program that the kernel refused to execute.
const statusExec = 203

func notExecuted(c *hop.Case, _ *diag.Fact) (*diag.Fact, string) {
	p := c.Fact(diag.HopNodeReadiness, hop.StepProcess)
	if p == nil || p.Passed() || p.Unit == nil || p.Unit.ExecStatus == nil || *p.Unit.ExecStatus != statusExec ||
		p.Unit.Result != "exit-code" {
		return nil, ""
	}
	return p, fmt.Sprintf("systemd could not execute the program of %s (status 203/EXEC)", p.Request.Target)
}

func otherMachine(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	p, b := c.Fact(diag.HopNodeReadiness, hop.StepProcess), f.Binary
	if p == nil || p.Passed() || p.Unit == nil || p.Unit.Load != "loaded" || b == nil || b.Machine == "" ||
		b.Machine == b.Host {
		return nil, ""
	}
	return f, fmt.Sprintf("%s is for %s, and the machine is %s", b.Path, b.Machine, b.Host)
}

func writeRefused(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Request.Op != diag.OpDisk || f.Errno == "" {
		return nil, ""
	}
	return f, fmt.Sprintf("a write of %d bytes at %s gives %s", f.Request.Write, f.Request.Target, f.Errno)
}

func nothingFree(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Disk == nil || f.Disk.FreeBytes > 0 || f.Disk.TotalBytes == 0 {
		return nil, ""
	}
	return f, fmt.Sprintf("0 of %d bytes are free at %s", f.Disk.TotalBytes, f.Request.Target)
}

func overLimit(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Disk == nil || f.Disk.UsedPercent <= int(c.Policy(hop.PolicyDiskPressure)) {
		return nil, ""
	}
	return f, fmt.Sprintf("%d%% of the disk at %s is used", f.Disk.UsedPercent, f.Request.Target)
}

// clockOff requires a third clock that agrees with the operator's: of two clocks that differ, neither is known to be
// wrong. A cached answer has an old date.
func clockOff(c *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	platform, margin, known := world.PlatformOffset(c)
	if !known || platform.Abs() > world.MaxClockSkew+margin || f.Clock == nil || f.Clock.OffsetMS == nil {
		return nil, ""
	}
	return f, fmt.Sprintf("the node's clock is %d ms off, and operator and platform agree", *f.Clock.OffsetMS)
}

func onlyAtLoopback(c *hop.Case, _ *diag.Fact) (*diag.Fact, string) {
	unit := c.Fact(diag.HopAppRuntimeLiveness, hop.StepUnit)
	at := world.OnlyAtLoopback(c, c.Fact(diag.HopAppUserRoute, hop.StepEndpoint))
	if at == "" {
		return nil, ""
	}
	return unit, fmt.Sprintf("the processes of %s listen on its port only at %s", unit.Request.Target, at)
}
