package hops

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Longer than 300 lines: a hop's requests and its judge are in one file.

// nodeReadiness: does the node have room to write, does the agent run and answer, are its program and the clock right?
func nodeReadiness() hop.Hop {
	id := diag.HopNodeReadiness
	needs := []diag.HopID{diag.HopNodeOpsAccess}
	of := func(lacks func(p *profile.Profile) string) hop.Needs {
		return hop.Needs{Hops: needs, Agent: true, Profile: hop.NeverIf(lacks)}
	}
	return hop.Hop{
		ID: id, Budget: 8 * time.Second,
		Role: hop.Role{Unwatched: "a write on the node's disks"},
		Steps: []hop.Step{
			{
				Name: hop.StepDisk, From: hop.Node, Timeout: 4 * time.Second, Needs: of(noRecord),
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpDisk, Target: e.Profile.Agent.Record, Write: e.TestWriteBytes()}
				},
			},
			{
				Name: hop.StepRoot, From: hop.Node, Timeout: 4 * time.Second, Needs: hop.Needs{Hops: needs},
				Excused: usageAlone,
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpDisk, Target: reading.RootFolder, View: diag.ViewHost, Write: e.TestWriteBytes(),
						Beside: e.Profile.Agent.Record}
				},
			},
			{
				Name: hop.StepProcess, From: hop.Node, Timeout: 4 * time.Second, Needs: of(noLocator),
				Excused: func(c *hop.Case, f *diag.Fact) bool {
					return f.Failure == diag.ProcessStopped && world.AnsweredSince(c, f) != ""
				},
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpUnit, Target: e.Profile.Agent.Locator()}
				},
			},
			{
				Name: hop.StepBinary, From: hop.Node, Timeout: 4 * time.Second, Needs: of(noProgram),
				Excused: func(c *hop.Case, f *diag.Fact) bool {
					return unrunnable(f) && world.AgentAnswered(c) != "" && c.Fact(id, hop.StepProcess).Passed()
				},
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					a := e.Profile.Agent
					return diag.Request{Op: diag.OpBinary, Target: a.Binary, Unit: a.Locator(), VersionCommand: a.VersionCommand}
				},
			},
			{
				Name: hop.StepClock, From: hop.Node, Timeout: 3 * time.Second, Needs: hop.Needs{Hops: needs},
				Ask: func(*hop.Env, *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpClock}
				},
			},
		},
		Judge: judgeReadiness,
		Pass:  passReadiness,
		Counter: func(_ *hop.Env, _ *hop.Case, failing *diag.Fact) []hop.Counter {
			if failing.Request.Op != diag.OpDisk {
				return nil
			}
			req := failing.Request
			req.Target, req.TimeoutMS = "/run", hop.CounterTimeoutMS // another file system of the same node
			return append(reading.HostView(failing), hop.Counter{Name: "run", From: hop.Node, Request: req})
		},
	}
}

// noRecord, noLocator and noProgram return what the profile lacks to look at a part of the agent.
func noRecord(p *profile.Profile) string {
	if p.Agent.Record == "" {
		return "the profile names no record of the agent (agent.record)"
	}
	return ""
}

func noLocator(p *profile.Profile) string {
	if p.Agent.Locator() == "" {
		return "the profile does not say how the agent's process is found (agent.unit, agent.container, agent.process)"
	}
	return ""
}

func noProgram(p *profile.Profile) string {
	if a := p.Agent; a.Binary == "" && (a.Unit == "" || len(a.VersionCommand) == 0) {
		return "the profile names no program of the agent (agent.binary)"
	}
	return ""
}

func passReadiness(c *hop.Case) string {
	var parts []string
	if f := c.Fact(diag.HopNodeReadiness, hop.StepDisk); f != nil && f.Disk != nil {
		text := fmt.Sprintf("disk %d%% used", f.Disk.UsedPercent)
		if f.Request.Write > 0 {
			text += " and writable"
		}
		parts = append(parts, text)
	}
	if f := c.Fact(diag.HopNodeReadiness, hop.StepRoot); f != nil && f.Disk != nil {
		switch {
		case f.Disk.SameAs != "" && f.Disk.ReadOnly: // the agent's view of the same file system takes writes
			parts = append(parts, "root file system mounted read-only")
		case f.Disk.SameAs == "" && f.Disk.ReadOnly:
			parts = append(parts, fmt.Sprintf("root file system %d%% used, read-only", f.Disk.UsedPercent))
		case f.Disk.SameAs == "":
			parts = append(parts, fmt.Sprintf("root file system %d%% used", f.Disk.UsedPercent))
		}
	}
	if f := c.Fact(diag.HopNodeReadiness, hop.StepProcess); f != nil && f.Unit != nil {
		parts = append(parts, fmt.Sprintf("agent pid %d %s", f.Unit.PID, f.Unit.Sub))
	}
	return strings.Join(parts, ", ")
}

// judgeReadiness returns a finding for each fault.
func judgeReadiness(c *hop.Case) []diag.Finding {
	var out []diag.Finding
	for _, judge := range []func(*hop.Case) *diag.Finding{judgeDisk, judgeRoot, judgeBinary, judgeProcess, judgeClock} {
		if f := judge(c); f != nil {
			out = append(out, *f)
		}
	}
	// A program that cannot run is why its process is down: one fault, not two.
	for i := 1; i < len(out); i++ {
		if out[i].Signal == diag.SigProcessDown && out[i-1].Signal == diag.SigBinaryInvalid {
			out = append(out[:i], out[i+1:]...)
		}
	}
	return out
}

func judgeDisk(c *hop.Case) *diag.Finding {
	f := c.Fact(diag.HopNodeReadiness, hop.StepDisk)
	if f == nil {
		return nil
	}
	// No write was tried, but none would succeed.
	if f.Passed() && f.Request.Write == 0 && f.Disk != nil && f.Disk.ReadOnly {
		seen := *f
		seen.Failure = diag.DiskReadOnly
		return judgeSpace(c, &seen)
	}
	return judgeSpace(c, f)
}

// judgeRoot judges the root file system if it is not the record's.
func judgeRoot(c *hop.Case) *diag.Finding {
	f := c.Fact(diag.HopNodeReadiness, hop.StepRoot)
	switch {
	case f == nil, f.Disk != nil && f.Disk.SameAs != "":
		return nil // judged by judgeDisk
	case usageAlone(c, f) && (f.Disk.ReadOnly || f.Failure == diag.DiskReadOnly):
		return nil // the file system of an image: full by design, and never written
	case usageAlone(c, f):
		seen := *f
		seen.Failure = diag.OK
		return judgeSpace(c, &seen)
	}
	return judgeSpace(c, f)
}

// usageAlone reports whether only a disk's usage was measured: this login may not write there (the root folder is
// root's), or nobody may, as many systems mount their root file system read-only.
func usageAlone(_ *hop.Case, f *diag.Fact) bool {
	if f.Disk == nil {
		return false
	}
	return f.Failure == diag.NotPermitted || f.Failure == diag.DiskReadOnly || (f.Passed() && f.Disk.ReadOnly)
}

// judgeSpace judges one file system's usage, and the test write to it.
func judgeSpace(c *hop.Case, f *diag.Fact) *diag.Finding {
	d := f.Disk
	limit := int(c.Policy(hop.PolicyDiskPressure))
	var out diag.Finding
	switch {
	case f.Failure == diag.DiskFull || f.Failure == diag.DiskInodes:
		out = reading.Fail(diag.SigDiskFull, f, "a write of %d bytes at %s fails: %s", f.Request.Write, f.Request.Target,
			reading.Saw(f))
	case f.Failure == diag.DiskReadOnly:
		out = reading.Fail(diag.SigDiskFull, f, "%s is not writable: its file system is read-only", f.Request.Target)
	case !f.Passed():
		out = reading.Undecided(f, "the disk check failed: %s %s", reading.Saw(f), f.Detail)
	case d != nil && d.FreeBytes == 0 && d.TotalBytes > 0: // some file systems report no sizes
		out = reading.Fail(diag.SigDiskFull, f, "no byte is free at %s", f.Request.Target)
	case d != nil && d.UsedPercent > limit:
		out = reading.Fail(diag.SigDiskPressure, f, "%d%% of the disk at %s is used, the limit is %d%%", d.UsedPercent,
			f.Request.Target, limit)
	default:
		return nil
	}
	out.Direct = true
	if world.OnlyAgentSees(c, f) {
		out.Side = diag.SideAgent
		world.Claim(c, &out, world.ClaimAgentMounts)
	}
	return &out
}

func judgeBinary(c *hop.Case) *diag.Finding {
	f := c.Fact(diag.HopNodeReadiness, hop.StepBinary)
	if f == nil {
		return nil
	}
	path := f.Request.Target
	if f.Binary != nil && f.Binary.Path != "" {
		path = f.Binary.Path
	}
	var out diag.Finding
	switch f.Failure {
	case diag.OK:
		if f.Binary == nil || f.Binary.OurAgent == nil || *f.Binary.OurAgent || !world.DeclaredOurs(&f.Request) {
			return nil
		}
		out = reading.Fail(diag.SigBinaryInvalid, f, "%s starts %s, which is not gpuaas-agent but %s", f.Request.Unit, path,
			whatItIs(f.Binary))
		out.Direct = true
		// a wrapper, or a container's client
		if evidence := world.AgentAnswered(c); evidence != "" && path != f.Request.Target {
			out.Status, out.Reason, out.Direct = diag.StatusWarn, diag.ReasonNone, false
			out.Text += "; " + evidence + ", so it may start the agent"
		}
	case diag.BinaryExecFormat, diag.BinaryNotExecutable, diag.BinaryMissing, diag.BinaryVersion, diag.FileMissing:
		out = reading.Fail(diag.SigBinaryInvalid, f, "the agent's program %s cannot run here: %s", path, reading.Saw(f))
		out.Direct = true
		// The running program's file was replaced.
		if evidence := world.AgentAnswered(c); evidence != "" && c.Fact(diag.HopNodeReadiness, hop.StepProcess).Passed() {
			out = reading.Warn(diag.SigBinaryInvalid, f, "the agent's program %s cannot be started again as it is: %s; %s",
				path, reading.Saw(f), evidence)
			out.Reason = diag.ReasonNone
		}
	default:
		out = reading.Undecided(f, "the agent's program could not be checked: %s", reading.Saw(f))
	}
	return &out
}

// unrunnable reports whether a program's file is missing or cannot be started.
func unrunnable(f *diag.Fact) bool {
	switch f.Failure {
	case diag.BinaryExecFormat, diag.BinaryNotExecutable, diag.BinaryMissing, diag.BinaryVersion, diag.FileMissing:
		return true
	}
	return false
}

// whatItIs describes a program that is not gpuaas-agent.
func whatItIs(b *diag.BinaryFacts) string {
	switch {
	case b.GoMain != "":
		return "the Go program " + b.GoMain
	case b.Kind == "script":
		return "a script"
	}
	return "a program without Go build info"
}

func judgeProcess(c *hop.Case) *diag.Finding {
	f := c.Fact(diag.HopNodeReadiness, hop.StepProcess)
	if f.Passed() {
		if out := world.RanOut(c, f); out != nil {
			return out
		}
		return restartRows.judge(judged{c: c, f: f})
	}
	if f == nil {
		return nil
	}
	var out diag.Finding
	switch f.Failure {
	case diag.ProcessStopped:
		out = reading.Fail(diag.SigProcessDown, f, "the agent's process is stopped: it exists but answers nothing")
		switch {
		case f.Unit != nil && f.Unit.ProcessState == "":
			out.Text = fmt.Sprintf("the agent's process %d is gone, and systemd still calls %s %s", f.Unit.PID, f.Request.Target,
				f.Unit.Active)
		case f.Unit != nil:
			out.Text = fmt.Sprintf("the agent's process %d is stopped (state %s): it exists but answers nothing", f.Unit.PID,
				f.Unit.ProcessState)
		}
		if heard := world.AnsweredSince(c, f); heard != "" {
			out = reading.Warn(diag.SigProcessDown, f, "the agent's process was found stopped or gone (%s), but %s",
				reading.Saw(f), heard)
			out.Reason = diag.ReasonNone
		}
	case diag.UnitFailed, diag.UnitInactive, diag.UnitMissing:
		if world.InTransition(f) {
			out = world.Starting(f)
			break
		}
		out = reading.Fail(diag.SigProcessDown, f, "%s does not run: %s", f.Request.Target, reading.Saw(f))
		if f.Unit != nil {
			out.Text = fmt.Sprintf("%s does not run: %s/%s, result %s", f.Request.Target, f.Unit.Active, f.Unit.Sub,
				f.Unit.Result) + ended(f.Unit) + fewOpenFiles(f.Unit)
		}
		if env := c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile); env != nil && env.Failure == diag.FileMissing {
			why, _, _ := strings.Cut(env.Detail, "\n")
			out.Text += "; its environment file is missing: " + why
			out.Culprit = reading.CulpritAgentEnv
		}
	default:
		out = reading.Undecided(f, "the agent's unit could not be checked: %s", reading.Saw(f))
	}
	out.Direct = out.Status == diag.StatusFail
	return &out
}

// ended describes how a unit's process last ended, and how often it was restarted.
func ended(u *diag.UnitFacts) string {
	text := ""
	if u.ExecStatus != nil && *u.ExecStatus != 0 {
		text += fmt.Sprintf(" (status %d)", *u.ExecStatus)
	}
	if u.Restarts != nil && *u.Restarts > 0 {
		text += fmt.Sprintf(", started again %d times", *u.Restarts)
	}
	return text
}

func judgeClock(c *hop.Case) *diag.Finding {
	f := c.Fact(diag.HopNodeReadiness, hop.StepClock)
	if f == nil {
		return nil
	}
	if !f.Passed() {
		out := reading.Undecided(f, "the clock could not be read: %s", reading.Saw(f))
		return &out
	}
	if f.Clock == nil || f.Clock.OffsetMS == nil {
		return nil
	}
	offset := time.Duration(*f.Clock.OffsetMS) * time.Millisecond
	var margin time.Duration
	if f.Clock.ErrorMS != nil {
		margin = time.Duration(*f.Clock.ErrorMS) * time.Millisecond
	}
	if offset.Abs() <= world.MaxClockSkew+margin {
		return nil
	}
	if out := world.ClockOfOperator(c, f, offset, margin); out != nil {
		return out
	}
	out := reading.Fail(diag.SigClockSkew, f, "the node's clock is off by %s (limit %s)", offset.Round(time.Millisecond),
		world.MaxClockSkew)
	out.Failure, out.Direct = diag.ClockSkew, true
	return &out
}
