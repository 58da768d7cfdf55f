package reading

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// Names of counter-probes that judges read, in addition to the search for a proof.
const (
	CounterHostView     = "host-view"
	CounterPinned       = "pinned"
	CounterActiveBundle = "active-bundle"
	CounterFromOperator = "from-operator"
	CounterOtherFamily  = "other-family"
	CounterProfileURL   = "profile-url"
	CounterOtherRoute   = "other-route"
	CounterBare         = "bare"

	CounterOtherListener = "other-listener"
)

// NetworkCounters returns the counter-probes for a failing network probe, by the phase in which it failed: a pinned
// address and other name servers for the look-up, another listener for the connection, the active bundle and the
// login's view for the trust. Each changes one input of the failing request.
func NetworkCounters(e *hop.Env, f *diag.Fact) []hop.Counter {
	if op := f.Request.Op.Row(); !op.Connects() || op.Once {
		return nil
	}
	req := f.Request
	req.TimeoutMS = hop.CounterTimeoutMS
	req.Poll = nil
	if req.Method != "" && req.Method != "GET" {
		return nil // a counter-probe must not do anything twice
	}
	counters := hostNetwork(f)
	switch f.Phase {
	case "dns":
		return append(append(counters, nameCounters(e, f, req)...), NameServers(e, f, req)...)
	case "tcp":
		return append(append(counters, nameCounters(e, f, req)...), TCPCounters(e, f)...)
	case "trust", "tls":
		named := nameCounters(e, f, req)
		if len(named) == 0 { // otherwise the login's view is among them
			named = HostView(f)
		}
		counters = append(counters, named...)
		if other := otherFamily(f); other != "" {
			pinned := req
			pinned.Resolve = other
			counters = append(counters, hop.Counter{Name: CounterOtherFamily, From: f.Vantage, Request: pinned})
		}
		if f.Vantage == hop.Node && e.NodeCA != "" {
			req.CAInline = e.NodeCA // replaces the bundle's path
			counters = append(counters, hop.Counter{Name: CounterActiveBundle, From: f.Vantage, Request: req})
		}
	}
	return counters
}

// nameCounters returns the counter-probes for a name that has no address, or not the profile's: the profile's address,
// pinned, and on a node the look-up in a login's view, without the mounts that cover files for the agent.
func nameCounters(e *hop.Env, f *diag.Fact, req diag.Request) []hop.Counter {
	pin := PinFor(e, f)
	if req.Resolve != "" || f.DNS == nil || f.DNS.Source == "literal" || slices.Contains(f.DNS.Addresses, pin) {
		return nil
	}
	var counters []hop.Counter
	if f.Vantage == hop.Node {
		plain := req
		plain.View = diag.ViewHost
		counters = append(counters, hop.Counter{Name: CounterHostView, From: hop.Node, Request: plain})
	}
	if pin != "" {
		req.Resolve = pin
		counters = append(counters, hop.Counter{Name: CounterPinned, From: f.Vantage, Request: req})
	}
	return counters
}

// PinFor returns the profile's address for the endpoint of f, or else for its host at another port.
func PinFor(e *hop.Env, f *diag.Fact) string {
	p, asked := e.Profile, Target(f)
	byHost := ""
	for _, known := range [...]struct{ url, pin string }{
		{p.NodeRuntimeAPIURL, p.NodeRuntimeResolveAddress},
		{p.NodeTerminalURL, p.NodeTerminalResolveAddress},
		{p.APIBase, p.APIResolveAddress},
		{p.TerminalBase, p.TerminalResolveAddress},
	} {
		switch {
		case known.pin == "" || HostOf(known.url) == "" || HostOf(known.url) != HostOf(asked):
		case hop.SameEndpoint(known.url, asked):
			return known.pin
		case byHost == "":
			byHost = known.pin
		}
	}
	return byHost
}

// FromOperator repeats a node's request from the operator, pinned to the address that the node tried: it locates a
// fault, and never proves its cause.
func FromOperator(e *hop.Env, f *diag.Fact, pin string) []hop.Counter {
	if Rung(f.Phase) <= Rung("env") || !namesEndpoint(e, Target(f)) {
		return nil // the target is not known, or only the node knows it
	}
	pin = cmp.Or(pin, RemoteIP(f))
	req := f.Request
	req.Target, req.View, req.Cert, req.Key, req.CABundle = Target(f), "", "", "", ""
	req.CAInline, req.Resolve, req.TimeoutMS = e.NodeCA, pin, hop.CounterTimeoutMS
	return []hop.Counter{{Name: CounterFromOperator, From: hop.Operator, Request: req}}
}

// The counter-probes below change the listener, the route or the kind of a request. None goes to an address and port
// that neither the profile nor an answer names: behind a load balancer another port is another machine, and such a
// request looks like a port scan.

// MaxServers bounds how many of the profile's name servers are queried.
const MaxServers = 3

// namesEndpoint reports whether the profile has an endpoint at this host and port.
func namesEndpoint(e *hop.Env, raw string) bool {
	for _, vantage := range []string{hop.Operator, hop.Node} {
		for _, l := range e.Listeners(vantage) {
			if l.URL != "" && hop.HostPortOf(l.URL) == hop.HostPortOf(raw) {
				return true
			}
		}
	}
	return false
}

// TCPCounters compare the listener that fails with the profile's other one, by two bare connections.
func TCPCounters(e *hop.Env, f *diag.Fact) []hop.Counter {
	if f.TCP == nil {
		return nil
	}
	bare := func(name, at string) hop.Counter {
		return hop.Counter{Name: name, From: f.Vantage, Request: diag.Request{Op: diag.OpTCP, Target: at,
			TimeoutMS: hop.CounterTimeoutMS}}
	}
	for _, l := range e.Listeners(f.Vantage) {
		host, port, err := net.SplitHostPort(hop.HostPortOf(l.URL))
		if err != nil || hop.SameEndpoint(l.URL, Target(f)) {
			continue
		}
		host = cmp.Or(l.Pin, host)
		if at := net.JoinHostPort(host, port); at != f.TCP.Remote {
			return []hop.Counter{bare(CounterBare, f.TCP.Remote), bare(CounterOtherListener, at)}
		}
	}
	return nil
}

// HostView repeats a node's request with the files as a login sees them: mounts may cover the agent's.
func HostView(f *diag.Fact) []hop.Counter {
	if f.Vantage != hop.Node || f.Request.View != "" {
		return nil
	}
	req := f.Request
	req.View, req.TimeoutMS = diag.ViewHost, hop.CounterTimeoutMS
	return []hop.Counter{{Name: CounterHostView, From: hop.Node, Request: req}}
}

// NameServers returns a counter-probe for each of the profile's name servers, at most MaxServers, for a node.
func NameServers(e *hop.Env, f *diag.Fact, req diag.Request) []hop.Counter {
	var counters []hop.Counter
	for i, server := range e.Profile.NodeNameServers {
		if f.Vantage != hop.Node || i == MaxServers {
			break
		}
		req.Resolver = server
		counters = append(counters, hop.Counter{Name: NameServerCounter(i), From: hop.Node, Request: req})
	}
	return counters
}

// NameServerCounter names the counter-probe that asks the i-th of the profile's name servers.
func NameServerCounter(i int) string { return "name-server-" + strconv.Itoa(i+1) }

// Plainly repeats an upgrade request as a plain request.
func Plainly(f *diag.Fact) []hop.Counter {
	if f.Request.Op != diag.OpWS {
		return nil
	}
	req := f.Request
	req.Op, req.TimeoutMS = diag.OpHTTP, hop.CounterTimeoutMS
	return []hop.Counter{{Name: "plain", From: f.Vantage, Request: req}}
}

// OpWords names the kind of a request, for the text of a proof.
func OpWords(op diag.Op) string {
	switch op {
	case diag.OpWS:
		return "an upgrade to a WebSocket"
	case diag.OpHTTP:
		return "a plain request"
	}
	return string(op)
}

// CounterHostNetwork repeats a request from the machine's network namespace.
const CounterHostNetwork = "host-network"

// hostNetwork repeats, in the machine's network namespace, a probe that failed in the agent's own.
func hostNetwork(f *diag.Fact) []hop.Counter {
	if !f.OwnNetwork || !InPhase(f, "dns", "tcp", "tls", "http", "ws") {
		return nil
	}
	req := f.Request
	req.Network, req.TimeoutMS = diag.ViewHost, hop.CounterTimeoutMS
	return []hop.Counter{{Name: CounterHostNetwork, From: f.Vantage, Request: req}}
}
