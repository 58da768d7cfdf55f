package preflight

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag"
)

// counterTimeoutMS bounds one counter-probe: it is asked of something that should answer at once.
const counterTimeoutMS = 2500

// The counter-probes that judges read, beside the search for a proof.
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

// ladderCounters are the counter-probes that any failing network probe deserves, by the phase in which it failed: a
// pinned address and other name servers for the look-up, another listener for the connection, the active bundle and the
// login's view for the trust. Each is the failing request with one input changed.
func ladderCounters(e *Env, f *diag.Fact) []Counter {
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
		if len(named) == 0 { // else the login's view is among them
			named = hostView(f)
		}
		counters = append(counters, named...)
		if other := otherFamily(f); other != "" {
			pinned := req
			pinned.Resolve = other
			counters = append(counters, Counter{Name: counterOtherFamily, From: f.Vantage, Request: pinned})
		}
		if f.Vantage == Node && e.NodeCA != "" {
			req.CAInline = e.NodeCA // takes the place of the bundle's path
			counters = append(counters, Counter{Name: "active-bundle", From: f.Vantage, Request: req})
		}
	}
	return counters
}

// nameCounters pin the address that the profile knows, where the name has none or another one, and on a node look the
// name up as a login does, which sees the files that nothing was bound over.
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

// pinFor is the address that the profile knows for the endpoint of f, or else for its host at another port.
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
	if rung(f.Phase) <= rung("env") || !e.names(target(f)) {
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

// target is what was really asked for, with ${NAME} expanded.
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

// This file has the counter-probes that change the listener, the route or the kind of a request. None asks at an
// address and port that neither the profile nor an answer names: behind a load balancer another port is another
// machine, and to others such a question is a port scan.

// maxServers bounds how many of the profile's name servers are asked.
const maxServers = 3

// pinned is one endpoint of the profile, and the address that it knows for it.
type pinned struct{ url, pin string }

// listeners are the profile's endpoints that a vantage has business with.
func (e *Env) listeners(vantage string) []pinned {
	p := e.Profile
	if vantage == Node {
		return []pinned{
			{p.NodeRuntimeAPIURL, p.NodeRuntimeResolveAddress}, {p.NodeTerminalURL, p.NodeTerminalResolveAddress},
		}
	}
	return []pinned{{p.APIBase, p.APIResolveAddress}, {p.TerminalBase, p.TerminalResolveAddress}}
}

// names reports whether the profile has an endpoint at this host and port.
func (e *Env) names(raw string) bool {
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

// hostView is a node's request as a login sees its files: the agent's may be bound over.
func hostView(f *diag.Fact) []Counter {
	if f.Vantage != Node || f.Request.View != "" {
		return nil
	}
	req := f.Request
	req.View, req.TimeoutMS = diag.ViewHost, counterTimeoutMS
	return []Counter{{Name: counterHostView, From: Node, Request: req}}
}

// nameServers ask each of the profile's name servers by itself.
func nameServers(e *Env, f *diag.Fact, req diag.Request) []Counter {
	var counters []Counter
	for i, server := range e.Profile.NodeNameServers {
		if f.Vantage != Node || i == maxServers {
			break
		}
		req.Resolver = server
		counters = append(counters, Counter{Name: "name-server-" + strconv.Itoa(i+1), From: Node, Request: req})
	}
	return counters
}

// otherListener shows the node's certificate, which f's listener refuses, to the other one.
func (e *Env) otherListener(f *diag.Fact, base, path string, vars map[string]string) []Counter {
	asked := f.Failure != diag.MTLSNotRequested // else f's listener is at fault, whatever the other one does
	if !asked || !refusesCert(f) || base == "" || sameEndpoint(target(f), base) {
		return nil
	}
	req := e.to(f.Request, base, path, vars)
	req.TimeoutMS = counterTimeoutMS
	return []Counter{{Name: counterOtherListener, From: f.Vantage, Request: req}}
}

// tookCertificate reports whether a listener asked for a certificate, got one, and answered what it answers to nodes
// that it lets in.
func tookCertificate(f *diag.Fact) bool {
	return asksForCert(f) && f.TLS.CertSent != "" && (good(f) || letIn(f) || code(f) == "upgrade_required")
}

// otherRoute asks the edge that answered f for another name of the profile: the route, and not the edge, is at fault
// where that is answered. Nothing is asked where the two may be two edges, and no query is shown to another name.
func (e *Env) otherRoute(f *diag.Fact, pin, base, basePin, path string) []Counter {
	if f.HTTP == nil || base == "" || edgeOf(target(f), pin) != edgeOf(base, basePin) ||
		hostPortOf(target(f)) == hostPortOf(base) ||
		!f.Request.Query.IsZero() {
		return nil
	}
	req := e.to(f.Request, base, path, nil)
	req.TimeoutMS = counterTimeoutMS
	return []Counter{{Name: counterOtherRoute, From: f.Vantage, Request: req}}
}

// plainly asks by a plain request what an upgrade was asked for.
func plainly(f *diag.Fact) []Counter {
	if f.Request.Op != diag.OpWS {
		return nil
	}
	req := f.Request
	req.Op, req.TimeoutMS = diag.OpHTTP, counterTimeoutMS
	return []Counter{{Name: "plain", From: f.Vantage, Request: req}}
}

// opWords reports what kind of request an op is, in the text of a proof.
func opWords(op diag.Op) string {
	switch op {
	case diag.OpWS:
		return "an upgrade to a WebSocket"
	case diag.OpHTTP:
		return "a plain request"
	}
	return string(op)
}
