package hops

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

const (
	// staleObservation is the age at which the platform's last check of a workload is stale. It is a warning only: a
	// missing observation is not evidence about the workload.
	staleObservation = 5 * time.Minute
)

// appRuntimeLiveness: does the workload itself run on the node, and does its port answer there?
func appRuntimeLiveness() hop.Hop {
	id := diag.HopAppRuntimeLiveness
	needs, after := []diag.HopID{diag.HopNodeOpsAccess}, []string{hop.FactID(diag.HopAllocationBinding,
		hop.StepAllocation)}
	return hop.Hop{
		ID: id, Budget: 6 * time.Second, OfWorkload: true,
		Steps: []hop.Step{
			{
				Name: hop.StepUnit, From: hop.Node, Timeout: 4 * time.Second, Needs: needs, After: after,
				Fields: []string{"allocation.app_unit"},
				When: func(c *hop.Case) string {
					return world.OtherNodeText(c, world.ReasonIfEmpty(world.AppUnit(c), "the workload's unit is not known"))
				},
				Ask: func(_ *hop.Env, c *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpUnit, Target: world.AppUnit(c)}
				},
				Excused: func(c *hop.Case, f *diag.Fact) bool {
					return f.Failure == diag.UnitMissing && guessedUnit(c) && c.Fact(id, hop.StepPort).Passed()
				},
			},
			{
				Name: hop.StepPort, From: hop.Node, Timeout: 3 * time.Second, Needs: needs, After: after,
				Fields: []string{"allocation.app_port|allocation.app_endpoint"},
				When: func(c *hop.Case) string {
					return world.OtherNodeText(c, world.ReasonIfEmpty(world.AppPort(c), "the workload's port is not known"))
				},
				Ask: func(_ *hop.Env, c *hop.Case) diag.Request {
					// The workload listens in the machine's network namespace, even if the agent has its own.
					return diag.Request{Op: diag.OpTCP, Target: net.JoinHostPort("127.0.0.1", world.AppPort(c)), View: diag.ViewHost}
				},
				Excused: func(c *hop.Case, _ *diag.Fact) bool {
					unit := c.Fact(id, hop.StepUnit)
					return unit.Passed() && (world.ListensAt(unit, world.AppPort(c)) || c.Fact(diag.HopAppUserRoute,
						hop.StepRoute).Passed())
				},
			},
		},
		Judge: judgeWorkload,
		Pass: func(c *hop.Case) string {
			var parts []string
			switch unit := c.Fact(id, hop.StepUnit); {
			case !unit.Passed():
			case unit.Unit != nil && unit.Unit.Sub == "exited": // a oneshot that has ended well
				parts = append(parts, world.AppUnit(c)+" has ended well, and has no process")
			default:
				parts = append(parts, world.AppUnit(c)+" runs")
			}
			if c.Fact(id, hop.StepPort) != nil {
				parts = append(parts, "port "+world.AppPort(c)+" answers on the node"+world.HeldByOther(c))
			}
			return strings.Join(parts, ", ")
		},
	}
}

// judgeWorkload judges the unit and the port, then what the platform reports of a workload that runs.
func judgeWorkload(c *hop.Case) []diag.Finding {
	unit, port := c.Fact(diag.HopAppRuntimeLiveness, hop.StepUnit), c.Fact(diag.HopAppRuntimeLiveness, hop.StepPort)
	switch {
	case unit != nil && unit.Failure == diag.UnitMissing && guessedUnit(c):
		if port.Passed() {
			return nil
		}
		return []diag.Finding{reading.Unmapped(unit, "the platform names no unit of the workload, and %s has no %s "+
			"(allocation.app_unit)", c.Subject.NodeHost, unit.Request.Target)}
	case unit != nil && world.InTransition(unit):
		return []diag.Finding{world.Starting(unit)}
	case unit != nil && (unit.Failure == diag.UnitInactive || unit.Failure == diag.UnitFailed ||
		unit.Failure == diag.UnitMissing || unit.Failure == diag.ProcessStopped):
		return []diag.Finding{reading.Fail(diag.SigAppStopped, unit, "the workload %s does not run: %s%s",
			unit.Request.Target, reading.Saw(unit), world.HeldByOther(c))}
	case port != nil && !port.Passed() && unit.Passed() &&
		(world.ListensAt(unit, world.AppPort(c)) || c.Fact(diag.HopAppUserRoute, hop.StepRoute).Passed()):
		return []diag.Finding{reading.Warn("", port, "the workload's port %s does not answer at 127.0.0.1, but the "+
			"workload is served by %s", world.AppPort(c), servedBy(c, unit))}
	case port != nil && !port.Passed():
		out := reading.Fail(diag.SigAppStopped, port, "the workload's port %s does not answer on the node: %s",
			world.AppPort(c), reading.Saw(port))
		if unit.Passed() && world.ListensApart(unit) {
			out.Text += fmt.Sprintf("; %s runs in its own network namespace", unit.Request.Target)
		}
		return []diag.Finding{out}
	case unit != nil && !unit.Passed():
		return []diag.Finding{reading.Undecided(unit, "the workload's unit could not be checked: %s", reading.Saw(unit))}
	case unit == nil:
		return nil // whether it runs was not measured
	}
	f, seen := c.Fact(diag.HopAllocationBinding, hop.StepAllocation), world.AllocationField(c,
		"allocation.app_last_observed_at")
	healthy, err := strconv.ParseBool(world.AllocationField(c, "allocation.app_credential_healthy"))
	if f != nil && err == nil && !healthy {
		return []diag.Finding{reading.Fail(diag.SigAppCredentialFailing, f,
			"%s runs, but the platform says that its credential is refused repeatedly", world.AppUnit(c))}
	}
	at, err := time.Parse(time.RFC3339Nano, seen)
	if f == nil || err != nil {
		return nil
	}
	age := platformTime(c, f).Sub(at)
	if age <= staleObservation {
		return nil
	}
	return []diag.Finding{reading.Warn(diag.SigAppObservationStale, f,
		"the workload runs; the platform's last look at it is %s old", diag.Age(age))}
}

// platformTime returns when the platform gave an answer, by its own clock if that is known. A date may be an edge's.
func platformTime(c *hop.Case, f *diag.Fact) time.Time {
	read := c.Fact(diag.HopNodeHeartbeat, hop.StepReadModel)
	if now := hop.TimeOf(read, "node.now"); !now.IsZero() {
		return now.Add(f.At.Sub(read.At.Time))
	}
	if f.HTTP != nil && !f.HTTP.Date.IsZero() {
		return f.HTTP.Date.Time
	}
	if offset, _, known := world.PlatformOffset(c); known {
		return f.At.Add(offset)
	}
	return f.At.Time
}

// guessedUnit reports whether the platform does not name the workload's unit, so that AppUnit is only the convention.
func guessedUnit(c *hop.Case) bool { return world.AllocationField(c, "allocation.app_unit") == "" }

// servedBy describes where a workload answers that does not answer at the loopback address.
func servedBy(c *hop.Case, unit *diag.Fact) string {
	if world.ListensAt(unit, world.AppPort(c)) {
		return "a listener at " + strings.Join(unit.Unit.Listening, ", ")
	}
	return fmt.Sprintf("the product URL, which answers HTTP %d", reading.Status(c.Fact(diag.HopAppUserRoute,
		hop.StepRoute)))
}
