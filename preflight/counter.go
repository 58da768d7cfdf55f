package preflight

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Names of counter-probes that judges read, in addition to the search for a proof.
const (
	counterHostView     = "host-view"
	counterPinned       = "pinned"
	counterFromOperator = "from-operator"
	counterOtherFamily  = "other-family"
	counterProfileURL   = "profile-url"
	counterOtherRoute   = "other-route"
	counterBare         = "bare"

	counterOtherListener = "other-listener"
)

// networkCounters returns the counter-probes for a failing network probe, by the phase in which it failed: a pinned
// address and other name servers for the look-up, another listener for the connection, the active bundle and the
// login's view for the trust. Each changes one input of the failing request.
func networkCounters(e *Env, f *diag.Fact) []Counter {
	if op := f.Request.Op.Row(); !op.Connects() || op.Once {
		return nil
	}
	req := f.Request
	req.TimeoutMS = counterTimeoutMS
	req.Poll = nil
	if req.Method != "" && req.Method != "GET" {
		return nil // a counter-probe must not do anything twice
	}
	counters := hostNetwork(f)
	switch f.Phase {
	case "dns":
		return append(append(counters, nameCounters(e, f, req)...), nameServers(e, f, req)...)
	case "tcp":
		return append(append(counters, nameCounters(e, f, req)...), tcpCounters(e, f)...)
	case "trust", "tls":
		named := nameCounters(e, f, req)
		if len(named) == 0 { // otherwise the login's view is among them
			named = hostView(f)
		}
		counters = append(counters, named...)
		if other := otherFamily(f); other != "" {
			pinned := req
			pinned.Resolve = other
			counters = append(counters, Counter{Name: counterOtherFamily, From: f.Vantage, Request: pinned})
		}
		if f.Vantage == Node && e.NodeCA != "" {
			req.CAInline = e.NodeCA // replaces the bundle's path
			counters = append(counters, Counter{Name: "active-bundle", From: f.Vantage, Request: req})
		}
	}
	return counters
}

// nameCounters returns the counter-probes for a name that has no address, or not the profile's: the profile's address,
// pinned, and on a node the look-up in a login's view, without the mounts that cover files for the agent.
func nameCounters(e *Env, f *diag.Fact, req diag.Request) []Counter {
	pin := pinFor(e, f)
	if req.Resolve != "" || f.DNS == nil || f.DNS.Source == "literal" || slices.Contains(f.DNS.Addresses, pin) {
		return nil
	}
	var counters []Counter
	if f.Vantage == Node {
		plain := req
		plain.View = diag.ViewHost
		counters = append(counters, Counter{Name: counterHostView, From: Node, Request: plain})
	}
	if pin != "" {
		req.Resolve = pin
		counters = append(counters, Counter{Name: counterPinned, From: f.Vantage, Request: req})
	}
	return counters
}

// pinFor returns the profile's address for the endpoint of f, or else for its host at another port.
func pinFor(e *Env, f *diag.Fact) string {
	p, asked := e.Profile, target(f)
	byHost := ""
	for _, known := range [...]struct{ url, pin string }{
		{p.NodeRuntimeAPIURL, p.NodeRuntimeResolveAddress},
		{p.NodeTerminalURL, p.NodeTerminalResolveAddress},
		{p.APIBase, p.APIResolveAddress},
		{p.TerminalBase, p.TerminalResolveAddress},
	} {
		switch {
		case known.pin == "" || hostOf(known.url) == "" || hostOf(known.url) != hostOf(asked):
		case sameEndpoint(known.url, asked):
			return known.pin
		case byHost == "":
			byHost = known.pin
		}
	}
	return byHost
}

// fromOperator repeats a node's request from the operator, pinned to the address that the node tried: it locates a
// fault, and never proves its cause.
func fromOperator(e *Env, f *diag.Fact, pin string) []Counter {
	if rung(f.Phase) <= rung("env") || !namesEndpoint(e, target(f)) {
		return nil // the target is not known, or only the node knows it
	}
	pin = cmp.Or(pin, remoteIP(f))
	req := f.Request
	req.Target, req.View, req.Cert, req.Key, req.CABundle = target(f), "", "", "", ""
	req.CAInline, req.Resolve, req.TimeoutMS = e.NodeCA, pin, counterTimeoutMS
	return []Counter{{Name: counterFromOperator, From: Operator, Request: req}}
}

func remoteIP(f *diag.Fact) string {
	if f.TCP == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(f.TCP.Remote)
	if err != nil {
		return ""
	}
	return host
}

// target returns the target that was really asked, with ${NAME} expanded.
func target(f *diag.Fact) string {
	return cmp.Or(f.Target, f.Request.Target)
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// The counter-probes below change the listener, the route or the kind of a request. None goes to an address and port
// that neither the profile nor an answer names: behind a load balancer another port is another machine, and such a
// request looks like a port scan.

// maxServers bounds how many of the profile's name servers are queried.
const maxServers = 3

// namesEndpoint reports whether the profile has an endpoint at this host and port.
func namesEndpoint(e *Env, raw string) bool {
	for _, vantage := range []string{Operator, Node} {
		for _, l := range e.listeners(vantage) {
			if l.url != "" && hostPortOf(l.url) == hostPortOf(raw) {
				return true
			}
		}
	}
	return false
}

// tcpCounters compare the listener that fails with the profile's other one, by two bare connections.
func tcpCounters(e *Env, f *diag.Fact) []Counter {
	if f.TCP == nil {
		return nil
	}
	bare := func(name, at string) Counter {
		return Counter{Name: name, From: f.Vantage, Request: diag.Request{Op: diag.OpTCP, Target: at,
			TimeoutMS: counterTimeoutMS}}
	}
	for _, l := range e.listeners(f.Vantage) {
		host, port, err := net.SplitHostPort(hostPortOf(l.url))
		if err != nil || sameEndpoint(l.url, target(f)) {
			continue
		}
		host = cmp.Or(l.pin, host)
		if at := net.JoinHostPort(host, port); at != f.TCP.Remote {
			return []Counter{bare(counterBare, f.TCP.Remote), bare(counterOtherListener, at)}
		}
	}
	return nil
}

// hostView repeats a node's request with the files as a login sees them: mounts may cover the agent's.
func hostView(f *diag.Fact) []Counter {
	if f.Vantage != Node || f.Request.View != "" {
		return nil
	}
	req := f.Request
	req.View, req.TimeoutMS = diag.ViewHost, counterTimeoutMS
	return []Counter{{Name: counterHostView, From: Node, Request: req}}
}

// nameServers returns a counter-probe for each of the profile's name servers, at most maxServers, for a node.
func nameServers(e *Env, f *diag.Fact, req diag.Request) []Counter {
	var counters []Counter
	for i, server := range e.Profile.NodeNameServers {
		if f.Vantage != Node || i == maxServers {
			break
		}
		req.Resolver = server
		counters = append(counters, Counter{Name: nameServerCounter(i), From: Node, Request: req})
	}
	return counters
}

func nameServerCounter(i int) string { return "name-server-" + strconv.Itoa(i+1) }

// plainly repeats an upgrade request as a plain request.
func plainly(f *diag.Fact) []Counter {
	if f.Request.Op != diag.OpWS {
		return nil
	}
	req := f.Request
	req.Op, req.TimeoutMS = diag.OpHTTP, counterTimeoutMS
	return []Counter{{Name: "plain", From: f.Vantage, Request: req}}
}

// opWords names the kind of a request, for the text of a proof.
func opWords(op diag.Op) string {
	switch op {
	case diag.OpWS:
		return "an upgrade to a WebSocket"
	case diag.OpHTTP:
		return "a plain request"
	}
	return string(op)
}

// counterHostNetwork repeats a request from the machine's network namespace.
const counterHostNetwork = "host-network"

// hostNetwork repeats, in the machine's network namespace, a probe that failed in the agent's own.
func hostNetwork(f *diag.Fact) []Counter {
	if !f.OwnNetwork || !inPhase(f, "dns", "tcp", "tls", "http", "ws") {
		return nil
	}
	req := f.Request
	req.Network, req.TimeoutMS = diag.ViewHost, counterTimeoutMS
	return []Counter{{Name: counterHostNetwork, From: f.Vantage, Request: req}}
}
