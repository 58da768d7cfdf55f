package preflight

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Env is what a step may ask with: the profile, the secrets, the ids of this walk. Judges never see it.
type Env struct {
	Profile       profile.Profile // with defaults
	Subject       diag.Subject
	CorrelationID string
	Token         diag.Secret // operator bearer token
	Cookie        diag.Secret // edge cookie
	// Scrub removes secrets from an error text of the platform. Without it such texts are dropped.
	Scrub  func(string) string
	NodeCA string // PEM text of Profile.Trust.NodeCA, for a control with the active bundle
	// ReadOnly leaves the write on the node's disks out. Kept: earlier walks have used the node's vantage. Requests
	// then make new connections, so that each walk measures every phase.
	ReadOnly, Kept bool
}

// vars are the values for path templates.
func (e *Env) vars() map[string]string {
	return map[string]string{
		"node_id": e.Subject.NodeID, "allocation_id": e.Subject.AllocationID, "correlation_id": e.CorrelationID,
	}
}

// at is the one place where a request to the platform gets its URL: base and the named path, filled with this walk's
// ids and more. It is "" where the profile has no such base, or the platform no such path: then nothing may be sent. A
// session's id is never this walk's by default: --session-id names the session of a failing request.
func (e *Env) at(base, path string, more map[string]string) string {
	v := e.vars()
	maps.Copy(v, more)
	filled := e.Profile.Mapping.Path(path, v)
	if base == "" || filled == "" {
		return ""
	}
	return join(base, filled)
}

// to is req, addressed to the named path; the zero request where the platform lacks it.
func (e *Env) to(req diag.Request, base, path string, more map[string]string) diag.Request {
	if req.Target = e.at(base, path, more); req.Target == "" {
		return diag.Request{}
	}
	return req
}

// writes is how many bytes this walk may write on a disk to try it.
func (e *Env) writes() int {
	if e.ReadOnly {
		return 0
	}
	return diagnosticWrite
}

// URL is the named path of the operator API, with this walk's ids filled in; "" where the platform lacks the path or
// the API is not known.
func (e *Env) URL(path string) string { return e.at(e.Profile.APIBase, path, nil) }

// header is what every request of this walk carries.
func (e *Env) header() map[string]string {
	return map[string]string{"X-Correlation-Id": e.CorrelationID, "X-GPUaaS-Probe": "preflight"}
}

// api is a request to the operator API, with the token and the envelope's fields extracted; the zero request where this
// platform has no such path, or the profile no API.
func (e *Env) api(method, path string, vars map[string]string, fields ...string) diag.Request {
	return e.to(diag.Request{
		Op: diag.OpHTTP, Method: method,
		Resolve: e.Profile.APIResolveAddress, CABundle: e.Profile.Trust.OperatorCA,
		Header: e.header(), Token: e.Token,
		Extract: e.Profile.Mapping.Extract(append(fields, "error.code", "error.message")...),
	}, e.Profile.APIBase, path, vars)
}

// API is a GET of a named path of the operator API, for commands that read beside a walk; the zero Request where this
// platform has no such path, or the profile no API.
func (e *Env) API(path string, vars map[string]string, fields ...string) diag.Request {
	return e.api("GET", path, vars, fields...)
}

// asAgent is a request that a node sends as its agent would: with the agent's bundle and certificate, to a path of an
// endpoint that the running agent's environment names; the zero request where this platform has no such path.
func (e *Env) asAgent(op diag.Op, endpoint, path string, vars map[string]string) diag.Request {
	return e.to(diag.Request{
		Op:       op,
		CABundle: e.agentFile("ca-bundle.crt"), Cert: e.agentFile("cert.pem"), Key: e.agentFile("key.pem"),
		Header: e.header(), Extract: e.Profile.Mapping.Extract("error.code", "error.message"),
	}, "${"+endpoint+"}", path, vars)
}

// agentFile is a path in the agent's folder on the node.
func (e *Env) agentFile(name string) string {
	return strings.TrimRight(e.Profile.Agent.Dir, "/") + "/" + name
}

// sameEndpoint reports whether two URLs name the same scheme, host and port. What cannot be compared is the same:
// nothing is claimed of it.
func sameEndpoint(a, b string) bool {
	if a == b {
		return true
	}
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	if a == "" || b == "" || errA != nil || errB != nil {
		return true
	}
	return secure(ua.Scheme) == secure(ub.Scheme) && portOf(ua) == portOf(ub) &&
		strings.EqualFold(ua.Hostname(), ub.Hostname())
}

func secure(scheme string) bool { return scheme == "https" || scheme == "wss" }

// portOf is the port of a URL, that of its scheme where it names none.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case secure(u.Scheme):
		return "443"
	}
	return "80"
}

// endpointOf is the scheme, host and port of a URL, for people.
func endpointOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	return u.Scheme + "://" + u.Host
}

// pathOf is the path of a URL, "/" where it has none.
func pathOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Path == "" {
		return "/"
	}
	return u.EscapedPath()
}

// hostPortOf is host:port of a URL, "" when it has none.
func hostPortOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Hostname()) + ":" + portOf(u)
}

func join(base, path string) string { return strings.TrimRight(base, "/") + path }

// clip joins the first three of names: enough to recognise a list by.
func clip(names []string) string {
	names = slices.Clone(names)
	if len(names) > 3 {
		names = append(names[:3], "...")
	}
	return strings.Join(names, ", ")
}

// MintTerminal is the request for a terminal of the subject's allocation; the zero Request where this platform mints
// none.
func MintTerminal(e *Env) diag.Request {
	return named(mintTerminal(e), diag.HopTerminalTokenMint, stepMint)
}

// OpenTerminal is the request that opens the terminal which a MintTerminal was answered with, as a browser does; the
// zero Request where the answer names none.
func OpenTerminal(e *Env, mint diag.Fact) diag.Request {
	c := NewCase(e.Subject, diag.Plan{}, "", []diag.Fact{mint})
	return named(askSession(e, c), diag.HopBrowserTerminalWS, stepSession)
}

// named is r under the id that a step's request has in a walk; a zero Request stays so.
func named(r diag.Request, hop diag.HopID, step string) diag.Request {
	if r.Op != "" {
		r.ID = factID(hop, step)
	}
	return r
}
