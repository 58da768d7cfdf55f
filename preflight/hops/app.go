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
		ID: id, Budget: 6 * time.Second,
		Role: hop.Role{OfWorkload: true},
		Steps: []hop.Step{
			{
				Name: hop.StepUnit, From: hop.Node, Timeout: 4 * time.Second,
				Needs: hop.Needs{Hops: needs, Facts: after, Fields: []string{"allocation.app_unit"}},
				When: hop.WaitIf(func(c *hop.Case) string {
					return world.OtherNodeText(c, world.ReasonIfEmpty(world.AppUnit(c), "the workload's unit is not known"))
				}),
				Excused: func(c *hop.Case, f *diag.Fact) bool {
					return f.Failure == diag.UnitMissing && guessedUnit(c) && c.Fact(id, hop.StepPort).Passed()
				},
				Ask: func(_ *hop.Env, c *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpUnit, Target: world.AppUnit(c)}
				},
			},
			{
				Name: hop.StepPort, From: hop.Node, Timeout: 3 * time.Second,
				Needs: hop.Needs{Hops: needs, Facts: after, Fields: []string{"allocation.app_port|allocation.app_endpoint"}},
				When: hop.WaitIf(func(c *hop.Case) string {
					return world.OtherNodeText(c, world.ReasonIfEmpty(world.AppPort(c), "the workload's port is not known"))
				}),
				Excused: func(c *hop.Case, _ *diag.Fact) bool { return served(c) },
				Ask: func(_ *hop.Env, c *hop.Case) diag.Request {
					// The workload listens in the machine's network namespace, even if the agent has its own.
					return diag.Request{Op: diag.OpTCP, Target: net.JoinHostPort("127.0.0.1", world.AppPort(c)), View: diag.ViewHost}
				},
			},
		},
		Judge: judgeWorkload,
		Pass: func(c *hop.Case) string {
			var parts []string
			switch unit := workloadUnit(c); {
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
	return list(workloadRows.judge(judged{c: c, f: workloadUnit(c)}))
}

func workloadUnit(c *hop.Case) *diag.Fact { return c.Fact(diag.HopAppRuntimeLiveness, hop.StepUnit) }
func workloadPort(c *hop.Case) *diag.Fact { return c.Fact(diag.HopAppRuntimeLiveness, hop.StepPort) }

// workloadRows are about the unit, and some about another fact.
var workloadRows = rows{
	{when: func(j judged) bool { return unitGuessedWrong(j) && workloadPort(j.c).Passed() }},
	{when: unitGuessedWrong,
		then: func(j judged) diag.Finding {
			return reading.Unmapped(j.f, "the platform names no unit of the workload, and %s has no %s (allocation.app_unit)",
				j.c.Subject.NodeHost, target(j))
		}},
	{when: func(j judged) bool { return world.InTransition(j.f) },
		then: func(j judged) diag.Finding { return world.Starting(j.f) }},
	{when: func(j judged) bool { return reading.Stopped(j.f) },
		then: fails(diag.SigAppStopped, "the workload %s does not run: %s%s", target, saw, heldByOther)},
	{of: workloadPort,
		when: func(j judged) bool { return !j.f.Passed() && served(j.c) },
		then: warns("", "the workload's port %s does not answer at 127.0.0.1, but the workload is served by %s", appPort,
			servedBy)},
	{of: workloadPort,
		when: func(j judged) bool { return !j.f.Passed() },
		then: fails(diag.SigAppStopped, "the workload's port %s does not answer on the node: %s%s", appPort, saw,
			listensApart)},
	{when: func(j judged) bool { return !j.f.Passed() },
		then: undecided("the workload's unit could not be checked: %s", saw)},
	{of: runningsAllocation,
		when: credentialBad,
		then: fails(diag.SigAppCredentialFailing, "%s runs, but the platform says that its credential is refused repeatedly",
			appUnit)},
	{of: runningsAllocation,
		when: func(j judged) bool { return observedAgo(j) > staleObservation },
		then: warns(diag.SigAppObservationStale, "the workload runs; the platform's last look at it is %s old",
			func(j judged) string { return diag.Age(observedAgo(j)) })},
}

func appPort(j judged) string     { return world.AppPort(j.c) }
func appUnit(j judged) string     { return world.AppUnit(j.c) }
func heldByOther(j judged) string { return world.HeldByOther(j.c) }

// unitGuessedWrong reports whether the platform names no unit, and the node has none of the conventional name.
func unitGuessedWrong(j judged) bool { return j.f.Failure == diag.UnitMissing && guessedUnit(j.c) }

// served reports whether the workload answers elsewhere than at the loopback address.
func served(c *hop.Case) bool {
	unit := workloadUnit(c)
	return unit.Passed() &&
		(world.ListensAt(unit, world.AppPort(c)) || c.Fact(diag.HopAppUserRoute, hop.StepRoute).Passed())
}

func listensApart(j judged) string {
	if unit := workloadUnit(j.c); unit.Passed() && world.ListensApart(unit) {
		return fmt.Sprintf("; %s runs in its own network namespace", unit.Request.Target)
	}
	return ""
}

// runningsAllocation returns the answer about the allocation; nil if whether its workload runs was not measured.
func runningsAllocation(c *hop.Case) *diag.Fact {
	if workloadUnit(c) == nil {
		return nil
	}
	return c.Fact(diag.HopAllocationBinding, hop.StepAllocation)
}

func credentialBad(j judged) bool {
	healthy, err := strconv.ParseBool(world.AllocationField(j.c, "allocation.app_credential_healthy"))
	return err == nil && !healthy
}

// observedAgo returns how old the platform's last observation of the workload is; 0 if it is not known.
func observedAgo(j judged) time.Duration {
	at, err := time.Parse(time.RFC3339Nano, world.AllocationField(j.c, "allocation.app_last_observed_at"))
	if err != nil {
		return 0
	}
	return platformTime(j.c, j.f).Sub(at)
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
func servedBy(j judged) string {
	if unit := workloadUnit(j.c); world.ListensAt(unit, world.AppPort(j.c)) {
		return "a listener at " + strings.Join(unit.Unit.Listening, ", ")
	}
	return fmt.Sprintf("the product URL, which answers HTTP %d",
		reading.Status(j.c.Fact(diag.HopAppUserRoute, hop.StepRoute)))
}
