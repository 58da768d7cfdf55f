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
	stepUnit  = "unit"
	stepPort  = "port"
	stepRoute = "route"

	// staleObservation is when the platform's last look at a workload is no longer news. It is a warning only: a
	// missing observation says nothing about the workload.
	staleObservation = 5 * time.Minute
)

// appRuntimeLiveness: does the workload itself run on the node, and does its port answer there?
func appRuntimeLiveness() Hop {
	id := diag.HopAppRuntimeLiveness
	needs, after := []diag.HopID{diag.HopNodeOpsAccess}, []string{factID(diag.HopAllocationBinding, stepAllocation)}
	return Hop{
		ID: id, Title: "workload runs on the node", Layer: diag.LayerRuntime, Budget: 6 * time.Second,
		Steps: []Step{
			{
				Name: stepUnit, From: Node, Timeout: 4 * time.Second, Needs: needs, After: after,
				Fields: []string{"allocation.app_unit"},
				When:   func(c *Case) string { return elsewhere(c, unless(appUnit(c), "the workload's unit is not known")) },
				Ask:    func(_ *Env, c *Case) diag.Request { return diag.Request{Op: diag.OpUnit, Target: appUnit(c)} },
			},
			{
				Name: stepPort, From: Node, Timeout: 3 * time.Second, Needs: needs, After: after,
				Fields: []string{"allocation.app_port|allocation.app_endpoint"},
				When:   func(c *Case) string { return elsewhere(c, unless(appPort(c), "the workload's port is not known")) },
				Ask: func(_ *Env, c *Case) diag.Request {
					return diag.Request{Op: diag.OpTCP, Target: net.JoinHostPort("127.0.0.1", appPort(c))}
				},
			},
		},
		Judge: func(c *Case) []diag.Finding {
			unit, port := c.Fact(id, stepUnit), c.Fact(id, stepPort)
			switch {
			case unit != nil && (unit.Failure == diag.UnitInactive || unit.Failure == diag.UnitFailed || unit.Failure == diag.UnitMissing || unit.Failure == diag.ProcessStopped):
				return []diag.Finding{fail(diag.SigAppStopped, unit, "the workload %s does not run: %s", unit.Request.Target, saw(unit))}
			case port != nil && !port.Passed():
				return []diag.Finding{fail(diag.SigAppStopped, port, "the workload's port %s does not answer on the node: %s", appPort(c), saw(port))}
			case unit != nil && !unit.Passed():
				return []diag.Finding{undecided(unit, "the workload's unit could not be looked at: %s", saw(unit))}
			case unit == nil:
				return nil // nobody looked whether it runs
			}
			f, seen := c.Fact(diag.HopAllocationBinding, stepAllocation), appField(c, "last_observed_at")
			if healthy, err := strconv.ParseBool(appField(c, "credential_healthy")); f != nil && err == nil && !healthy {
				return []diag.Finding{fail(diag.SigAppCredentialFailing, f, "%s runs, and the platform says that its credential is refused again and again", appUnit(c))}
			}
			at, err := time.Parse(time.RFC3339Nano, seen)
			if f == nil || err != nil || f.At.Sub(at) <= staleObservation {
				return nil
			}
			return []diag.Finding{warn(diag.SigAppObservationStale, f, "the workload runs; the platform's last look at it is %s old", ago(f.At.Sub(at)))}
		},
		Pass: func(c *Case) string {
			var parts []string
			if c.Fact(id, stepUnit) != nil {
				parts = append(parts, appUnit(c)+" runs")
			}
			if c.Fact(id, stepPort) != nil {
				parts = append(parts, "port "+appPort(c)+" answers on the node")
			}
			return strings.Join(parts, ", ")
		},
	}
}

// appUserRoute: does the workload's product URL lead to it?
func appUserRoute() Hop {
	id := diag.HopAppUserRoute
	return Hop{
		ID: id, Title: "workload's product URL answers", Layer: diag.LayerEdge, Budget: 7 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopAppRuntimeLiveness},
		Steps: []Step{{
			Name: stepRoute, From: Operator, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopAllocationBinding},
			After: []string{factID(diag.HopAllocationBinding, stepAllocation)}, Fields: []string{"allocation.app_product_url"},
			When: func(c *Case) string { return unless(appField(c, "product_url"), "the allocation has no product URL") },
			Ask: func(e *Env, c *Case) diag.Request {
				url, query := c.URL(diag.HopAllocationBinding, stepAllocation, "allocation.app_product_url")
				return diag.Request{
					Op: diag.OpHTTP, Target: url, Query: query, Resolve: e.Profile.AppResolveAddress,
					CABundle: e.Profile.Trust.OperatorCA, Header: e.header(), Cookie: e.Cookie,
				}
			},
		}},
		Judge: func(c *Case) []diag.Finding {
			f := c.Fact(id, stepRoute)
			switch {
			case f == nil || f.Passed():
				return nil
			case f.Failure == diag.HTTPEdgeAuth && f.Request.Cookie.IsZero():
				return []diag.Finding{undecided(f, "the edge asks for a login, and no edge cookie was given: not the browser-equivalent proof")}
			}
			out := fail(diag.SigAppRouteFailed, f, "the product URL at %s fails: %s", where(f), saw(f))
			out.Direct = inPhase(f, "dns", "tcp", "tls") // a dead workload is behind the edge, it cannot break this
			if !out.Direct && sshSilent(c) {
				out.Culprit = culpritSilentNode
			}
			return []diag.Finding{out}
		},
		Pass: func(c *Case) string {
			return fmt.Sprintf("%s answers %d", where(c.Fact(id, stepRoute)), status(c.Fact(id, stepRoute)))
		},
	}
}

// appField reads a field of the allocation's workload.
func appField(c *Case, name string) string {
	return c.Field(diag.HopAllocationBinding, stepAllocation, "allocation.app_"+name)
}

// appUnit is the workload's unit: as the platform names it, else by the convention of the reference agent.
func appUnit(c *Case) string {
	if u := appField(c, "unit"); u != "" {
		return u
	}
	if !c.Fact(diag.HopAllocationBinding, stepAllocation).Passed() {
		return ""
	}
	return "gpuaas-app-" + c.Subject.AllocationID + ".service"
}

// appPort is the workload's port: as the platform names it, else that of its endpoint.
func appPort(c *Case) string {
	if p := appField(c, "port"); p != "" {
		return p
	}
	_, port, err := net.SplitHostPort(hostPortOf(appField(c, "endpoint")))
	if err != nil {
		return ""
	}
	return port
}

// unless returns why when value is empty.
func unless(value, why string) string {
	if value == "" {
		return why
	}
	return ""
}

// elsewhere says that the allocation lives on another node than the one that is looked at, else otherwise: what is not
// here is no fault here.
func elsewhere(c *Case, otherwise string) string {
	node := c.Field(diag.HopAllocationBinding, stepAllocation, "allocation.node_id")
	if node != "" && c.Subject.NodeID != "" && node != c.Subject.NodeID {
		return "the allocation is on " + node
	}
	return otherwise
}
