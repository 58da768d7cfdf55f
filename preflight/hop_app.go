package preflight

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

const (
	// staleObservation is the age at which the platform's last check of a workload is stale. It is a warning only: a
	// missing observation is not evidence about the workload.
	staleObservation = 5 * time.Minute
)

// appRuntimeLiveness: does the workload itself run on the node, and does its port answer there?
func appRuntimeLiveness() Hop {
	id := diag.HopAppRuntimeLiveness
	needs, after := []diag.HopID{diag.HopNodeOpsAccess}, []string{factID(diag.HopAllocationBinding, stepAllocation)}
	return Hop{
		ID: id, Budget: 6 * time.Second, OfWorkload: true,
		Steps: []Step{
			{
				Name: stepUnit, From: Node, Timeout: 4 * time.Second, Needs: needs, After: after,
				Fields: []string{"allocation.app_unit"},
				When: func(c *Case) string {
					return otherNodeText(c, reasonIfEmpty(appUnit(c), "the workload's unit is not known"))
				},
				Ask: func(_ *Env, c *Case) diag.Request { return diag.Request{Op: diag.OpUnit, Target: appUnit(c)} },
				Excused: func(c *Case, f *diag.Fact) bool {
					return f.Failure == diag.UnitMissing && guessedUnit(c) && c.Fact(id, stepPort).Passed()
				},
			},
			{
				Name: stepPort, From: Node, Timeout: 3 * time.Second, Needs: needs, After: after,
				Fields: []string{"allocation.app_port|allocation.app_endpoint"},
				When: func(c *Case) string {
					return otherNodeText(c, reasonIfEmpty(appPort(c), "the workload's port is not known"))
				},
				Ask: func(_ *Env, c *Case) diag.Request {
					// The workload listens in the machine's network namespace, even if the agent has its own.
					return diag.Request{Op: diag.OpTCP, Target: net.JoinHostPort("127.0.0.1", appPort(c)), View: diag.ViewHost}
				},
				Excused: func(c *Case, _ *diag.Fact) bool {
					unit := c.Fact(id, stepUnit)
					return unit.Passed() && (listensAt(unit, appPort(c)) || c.Fact(diag.HopAppUserRoute, stepRoute).Passed())
				},
			},
		},
		Judge: judgeWorkload,
		Pass: func(c *Case) string {
			var parts []string
			switch unit := c.Fact(id, stepUnit); {
			case !unit.Passed():
			case unit.Unit != nil && unit.Unit.Sub == "exited": // a oneshot that has ended well
				parts = append(parts, appUnit(c)+" has ended well, and has no process")
			default:
				parts = append(parts, appUnit(c)+" runs")
			}
			if c.Fact(id, stepPort) != nil {
				parts = append(parts, "port "+appPort(c)+" answers on the node"+heldByOther(c))
			}
			return strings.Join(parts, ", ")
		},
	}
}

// judgeWorkload judges the unit and the port, then what the platform reports of a workload that runs.
func judgeWorkload(c *Case) []diag.Finding {
	unit, port := c.Fact(diag.HopAppRuntimeLiveness, stepUnit), c.Fact(diag.HopAppRuntimeLiveness, stepPort)
	switch {
	case unit != nil && unit.Failure == diag.UnitMissing && guessedUnit(c):
		if port.Passed() {
			return nil
		}
		return []diag.Finding{unmapped(unit, "the platform names no unit of the workload, and %s has no %s "+
			"(allocation.app_unit)", c.Subject.NodeHost, unit.Request.Target)}
	case unit != nil && inTransition(unit):
		return []diag.Finding{starting(unit)}
	case unit != nil && (unit.Failure == diag.UnitInactive || unit.Failure == diag.UnitFailed ||
		unit.Failure == diag.UnitMissing || unit.Failure == diag.ProcessStopped):
		return []diag.Finding{fail(diag.SigAppStopped, unit, "the workload %s does not run: %s%s", unit.Request.Target,
			saw(unit), heldByOther(c))}
	case port != nil && !port.Passed() && unit.Passed() &&
		(listensAt(unit, appPort(c)) || c.Fact(diag.HopAppUserRoute, stepRoute).Passed()):
		return []diag.Finding{warn("", port, "the workload's port %s does not answer at 127.0.0.1, but the "+
			"workload is served by %s", appPort(c), servedBy(c, unit))}
	case port != nil && !port.Passed():
		out := fail(diag.SigAppStopped, port, "the workload's port %s does not answer on the node: %s", appPort(c), saw(port))
		if unit.Passed() && listensApart(unit) {
			out.Text += fmt.Sprintf("; %s runs in its own network namespace", unit.Request.Target)
		}
		return []diag.Finding{out}
	case unit != nil && !unit.Passed():
		return []diag.Finding{undecided(unit, "the workload's unit could not be checked: %s", saw(unit))}
	case unit == nil:
		return nil // whether it runs was not measured
	}
	f, seen := c.Fact(diag.HopAllocationBinding, stepAllocation), allocationField(c, "allocation.app_last_observed_at")
	healthy, err := strconv.ParseBool(allocationField(c, "allocation.app_credential_healthy"))
	if f != nil && err == nil && !healthy {
		return []diag.Finding{fail(diag.SigAppCredentialFailing, f,
			"%s runs, but the platform says that its credential is refused repeatedly", appUnit(c))}
	}
	at, err := time.Parse(time.RFC3339Nano, seen)
	if f == nil || err != nil {
		return nil
	}
	age := platformTime(c, f).Sub(at)
	if age <= staleObservation {
		return nil
	}
	return []diag.Finding{warn(diag.SigAppObservationStale, f,
		"the workload runs; the platform's last look at it is %s old", diag.Age(age))}
}

// platformTime returns when the platform gave an answer, by its own clock if that is known. A date may be an edge's.
func platformTime(c *Case, f *diag.Fact) time.Time {
	read := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	if now := timeOf(read, "node.now"); !now.IsZero() {
		return now.Add(f.At.Sub(read.At.Time))
	}
	if f.HTTP != nil && !f.HTTP.Date.IsZero() {
		return f.HTTP.Date.Time
	}
	if offset, _, known := platformOffset(c); known {
		return f.At.Add(offset)
	}
	return f.At.Time
}

// guessedUnit reports whether the platform does not name the workload's unit, so that appUnit is only the convention.
func guessedUnit(c *Case) bool { return allocationField(c, "allocation.app_unit") == "" }

// servedBy describes where a workload answers that does not answer at the loopback address.
func servedBy(c *Case, unit *diag.Fact) string {
	if listensAt(unit, appPort(c)) {
		return "a listener at " + strings.Join(unit.Unit.Listening, ", ")
	}
	return fmt.Sprintf("the product URL, which answers HTTP %d", status(c.Fact(diag.HopAppUserRoute, stepRoute)))
}
