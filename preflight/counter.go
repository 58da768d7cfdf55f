package preflight

import (
	"net"
	"net/url"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// counterTimeoutMS bounds one counter-probe: it is asked of something that should answer at once.
const counterTimeoutMS = 2500

// The counter-probes that judges look at, beside the search for a proof.
const (
	counterHostView     = "host-view"
	counterPinned       = "pinned"
	counterFromOperator = "from-operator"
	counterOtherFamily  = "other-family"
	counterProfileURL   = "profile-url"
	counterOtherRoute   = "other-route"
)

// ladderCounters are the counter-probes that any failing network probe deserves, by the phase in which it failed:
// a pinned address for the look-up, another port for the connection, the active bundle for the trust. Each is the
// failing request with one input changed.
func ladderCounters(e *Env, f *diag.Fact) []Counter {
	switch f.Request.Op {
	case diag.OpTCP, diag.OpTLS, diag.OpHTTP, diag.OpWS:
	default:
		return nil
	}
	req := f.Request
	req.TimeoutMS = counterTimeoutMS
	req.Poll = nil
	if req.Method != "" && req.Method != "GET" {
		return nil // a counter-probe must not do anything twice
	}
	switch f.Phase {
	case "dns":
		return nameCounters(e, f, req)
	case "tcp":
		return append(nameCounters(e, f, req), tcpCounters(f)...)
	case "trust", "tls":
		counters := nameCounters(e, f, req)
		if other := otherFamily(f); other != "" {
			pinned := req
			pinned.Resolve = other
			counters = append(counters, Counter{Name: counterOtherFamily, From: f.Vantage, Request: pinned})
		}
		if f.Vantage == Node && e.NodeCA != "" {
			req.CAInline = e.NodeCA // takes the place of the bundle's path
			counters = append(counters, Counter{Name: "active-bundle", From: f.Vantage, Request: req})
		}
		return counters
	}
	return nil
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

// tcpCounters compare the port that fails with another one at the same address, by two bare connections.
func tcpCounters(f *diag.Fact) []Counter {
	if f.TCP == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(f.TCP.Remote)
	if err != nil {
		return nil
	}
	// sshd answers on nearly every host; DNS and the web on the platform's.
	counters := []Counter{}
	for _, p := range []string{port, "22", "53", "443"} {
		if p == port && len(counters) > 0 {
			continue
		}
		counters = append(counters, Counter{Name: "port-" + p, From: f.Vantage, Request: diag.Request{
			Op: diag.OpTCP, Target: net.JoinHostPort(host, p), TimeoutMS: counterTimeoutMS,
		}})
	}
	return counters
}

// fromOperator repeats a node's request from the operator, pinned to the address that the node tried: it says where a
// fault is, and is never a proof of why.
func fromOperator(e *Env, f *diag.Fact, pin string) []Counter {
	if rung(f.Phase) <= rung("env") {
		return nil // nobody knows what to ask for
	}
	if pin == "" {
		pin = remoteIP(f)
	}
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
	if f.Target != "" {
		return f.Target
	}
	return f.Request.Target
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
