package hops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// The steps: an endpoint, and from where.
const (
	stepAPIOperator      = "api_operator"
	stepTerminalOperator = "terminal_operator"
	stepAPINode          = "api_node"
	stepTerminalNode     = "terminal_node"
)

// smallSegments is what every path carries: the segment of IPv4's least packet of 576 bytes.
const (
	smallSegments        = 536
	counterSmallSegments = "small-segments"
)

// pathTimeout is how long a handshake may take: a lost packet is sent again thrice within it.
const pathTimeout = 3 * time.Second

// networkPath: do packets of every size get through to the endpoints, and at every address of their names?
func networkPath() hop.Hop {
	return hop.Hop{
		ID: diag.HopNetworkPath, Budget: 10 * time.Second,
		Causes: hop.Causes{ExplainedBy: []diag.HopID{diag.HopControlPlaneAccess}},
		Steps: []hop.Step{
			pathStep(stepAPIOperator, hop.Operator, "api_base", func(p *profile.Profile) (url, pin string) {
				return p.APIBase, p.APIResolveAddress
			}),
			pathStep(stepTerminalOperator, hop.Operator, "terminal_base", func(p *profile.Profile) (url, pin string) {
				return p.TerminalBase, p.TerminalResolveAddress
			}),
			pathStep(stepAPINode, hop.Node, "node_runtime_api_url", func(p *profile.Profile) (url, pin string) {
				if p.NodeRuntimeAPIURL == "" && p.Agent.Absent() {
					return p.APIBase, "" // what the operator uses, as the node's own programs would
				}
				return p.NodeRuntimeAPIURL, p.NodeRuntimeResolveAddress
			}),
			pathStep(stepTerminalNode, hop.Node, "node_terminal_url", func(p *profile.Profile) (url, pin string) {
				return p.NodeTerminalURL, p.NodeTerminalResolveAddress
			}),
		},
		Judge: judgePath,
		Pass:  passPath,
		Counter: func(_ *hop.Env, _ *hop.Case, failing *diag.Fact) []hop.Counter {
			if !stalls(failing) {
				return nil
			}
			req := failing.Request
			req.MSS = smallSegments
			return []hop.Counter{{Name: counterSmallSegments, From: failing.Vantage, Request: req}}
		},
	}
}

// pathStep measures the path from a vantage to an endpoint of the profile, which key sets.
func pathStep(name, from, key string, endpoint func(*profile.Profile) (url, pin string)) hop.Step {
	s := hop.Step{
		Name: name, From: from, Timeout: pathTimeout, Excused: carried,
		Needs: hop.Needs{NoAPI: true, Profile: hop.SkipIf(func(p *profile.Profile) string {
			if url, _ := endpoint(p); url == "" {
				return "the profile has no " + key
			}
			return ""
		})},
		Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
			url, pin := endpoint(&e.Profile)
			req := diag.Request{Op: diag.OpPath, Target: hop.EndpointOf(url), Resolve: pin, View: diag.ViewHost}
			if from == hop.Operator {
				req.CABundle, req.View = e.Profile.Trust.OperatorCA, ""
			}
			return req
		},
	}
	if from == hop.Node {
		s.Needs.Hops = append(s.Needs.Hops, diag.HopNodeOpsAccess)
	}
	return s
}

// carried reports whether packets got through, whatever else is wrong: which certificate a server shows, or that it
// asks for one, is for other hops.
func carried(_ *hop.Case, f *diag.Fact) bool {
	return (reading.InPhase(f, "tls", "mtls") && !stalls(f)) || reading.InPhase(f, "trust", "cert")
}

// stalls reports whether a connection was made, and the handshake on it got no answer.
func stalls(f *diag.Fact) bool { return reading.InPhase(f, "tls") && f.Failure == diag.Timeout }

// judgePath returns a finding for each path.
func judgePath(c *hop.Case) (out []diag.Finding) {
	for i := range c.Hop(diag.HopNetworkPath).Steps {
		step := c.Hop(diag.HopNetworkPath).Steps[i].Name
		f := c.Fact(diag.HopNetworkPath, step)
		if f == nil {
			continue
		}
		small := c.Counter(diag.HopNetworkPath, step, counterSmallSegments)
		switch {
		case stalls(f) && small != nil && (small.Passed() || carried(c, small)):
			found := reading.Fail(diag.SigLargePacketsLost, f, "large packets are lost between %s and %s: a handshake stalls, "+
				"and the same with segments of %d bytes gets through", placeOf(f), reading.Where(f), smallSegments)
			found.Side, found.Direct = diag.SideNetwork, true // the pair itself shows it, whatever else was not measured
			out = append(out, found)
		case f.Passed() || reading.InPhase(f, "mtls"):
		case askedElsewhere(c, f):
			if !carried(c, f) {
				out = append(out, reading.Undecided(f, "the path from %s to %s could not be measured: %s", placeOf(f),
					reading.Where(f), reading.Saw(f)))
			}
		default:
			out = append(out, judgeEndpoint(f))
		}
		out = append(out, pathWarnings(f)...)
	}
	slices.SortStableFunc(out, func(a, b diag.Finding) int { return rankOf(a.Status) - rankOf(b.Status) })
	return out
}

// askedElsewhere reports whether another hop of the walk asks an endpoint from the same place, and judges its name,
// connection and certificate.
func askedElsewhere(c *hop.Case, f *diag.Fact) bool {
	switch _, step, _ := strings.Cut(f.ID, "/"); step {
	case stepAPIOperator:
		return measures(c, diag.HopControlPlaneAccess)
	case stepTerminalOperator:
		return measures(c, diag.HopTerminalPublicRoute)
	case stepAPINode:
		return measures(c, diag.HopNodeRuntimeAPI)
	}
	return measures(c, diag.HopNodeTerminalReachability)
}

// measures reports whether the plan has a hop that was not left out.
func measures(c *hop.Case, id diag.HopID) bool { return c.Planned(id).Skip == "" }

// judgeEndpoint judges name, connection and certificate of an endpoint where no other hop does.
func judgeEndpoint(f *diag.Fact) diag.Finding {
	if f.Failure == diag.TLSUnknownCA || reading.InPhase(f, "trust") { // its programs may bring their own trust
		return reading.Warn(diag.SigEndpointFails, f, "from %s, %s shows a certificate that the machine's own trust "+
			"does not cover: %s", placeOf(f), reading.Where(f), reading.Saw(f))
	}
	if f.Failure.Local() || f.Failure.Operator() {
		return reading.Undecided(f, "%s could not be asked from %s: %s", reading.Where(f), placeOf(f), reading.Saw(f))
	}
	return reading.Fail(diag.SigEndpointFails, f, "%s does not work from %s: %s", reading.Where(f), placeOf(f),
		reading.Saw(f))
}

// pathWarnings are of addresses that take no connections beside one that does, and of the interface.
func pathWarnings(f *diag.Fact) (out []diag.Finding) {
	if f.Path == nil {
		return nil
	}
	var dead []string
	alive := 0
	for _, a := range f.Path.Addresses {
		switch a.Failure {
		case diag.OK:
			alive++
		case diag.TCPTimeout, diag.TCPRefused, diag.TCPReset, diag.TCPNoRoute: // not what this machine lacks itself
			dead = append(dead, a.Remote+" ("+a.Failure.Words()+")")
		}
	}
	if len(dead) > 0 && alive > 0 {
		out = append(out, reading.Warn(diag.SigAddressDead, f, "%d of the %d addresses of %s that %s dialled take no "+
			"connections: %s", len(dead), len(f.Path.Addresses), reading.HostOf(f.Request.Target), placeOf(f),
			strings.Join(dead, ", ")))
	}
	var link []string
	if w := f.Path.While; w != nil {
		if w.Errors > 0 {
			link = append(link, fmt.Sprintf("%d errors while it was measured", w.Errors))
		}
		if w.CarrierChanges > 0 {
			link = append(link, fmt.Sprintf("the link went down or up %s while it was measured",
				reading.Times(int(w.CarrierChanges))))
		}
	}
	if f.Path.Duplex == "half" {
		link = append(link, "it is half duplex")
	}
	if len(link) > 0 {
		out = append(out, reading.Warn(diag.SigLinkFaulty, f, "the interface %s of %s, which leads to %s: %s",
			f.Path.Interface, placeOf(f), reading.Where(f), strings.Join(link, ", ")))
	}
	return out
}

// placeOf names the vantage of a fact.
func placeOf(f *diag.Fact) string {
	if f.Vantage == hop.Node {
		return "the node"
	}
	return "here"
}

// passPath says what was measured of each path.
func passPath(c *hop.Case) string {
	var parts []string
	for i := range c.Hop(diag.HopNetworkPath).Steps {
		f := c.Fact(diag.HopNetworkPath, c.Hop(diag.HopNetworkPath).Steps[i].Name)
		if f == nil || f.Path == nil {
			continue
		}
		text := fmt.Sprintf("%s to %s", placeOf(f), reading.Where(f))
		if f.TLS == nil {
			text += ", which has no TLS, so that only small packets are shown to get through"
		}
		if n := len(f.Path.Addresses); n > 1 {
			text += fmt.Sprintf(", at %d addresses", n)
		}
		if f.Path.PathMTU > 0 {
			text += fmt.Sprintf(", path MTU %d", f.Path.PathMTU)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
