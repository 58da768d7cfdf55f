package hop

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Env is what a step may ask with: the profile, the secrets and the ids of this walk. Judges never see it.
type Env struct {
	Profile       profile.Profile // with defaults
	Subject       diag.Subject
	CorrelationID string
	Token         diag.Secret   // operator bearer token
	Cookie        diag.Secret   // edge cookie
	Known         *diag.Secrets // every answer is cleaned of them; nil: those of Secrets
	// Scrub removes secrets from an error text of the platform; if it is nil, such texts are dropped.
	Scrub  func(string) string
	Hops   *Chain // the chain to walk; nil: the built-in one
	NodeCA string // PEM text of Profile.Trust.NodeCA, for counter-probes with the active bundle
	// ReadOnly leaves out the test writes to the node's disks. ReusesVantage: earlier walks have used the node's
	// vantage, so requests make new connections, and each walk measures every phase.
	ReadOnly, ReusesVantage bool
}

// Secrets returns a set of this walk's secrets, which knows what is none.
func (e *Env) Secrets() *diag.Secrets {
	s := &diag.Secrets{}
	s.Open(e.Profile.APIBase, e.Subject.NodeID, e.Subject.NodeHost, e.Subject.AllocationID, e.Subject.SessionID,
		e.Subject.CorrelationID, e.CorrelationID)
	s.Add((&diag.Request{Token: e.Token, Cookie: e.Cookie}).Secrets()...)
	return s
}

// vars returns the values for path templates.
func (e *Env) vars() map[string]string {
	return map[string]string{
		"node_id": e.Subject.NodeID, "allocation_id": e.Subject.AllocationID, "correlation_id": e.CorrelationID,
	}
}

// PathURL returns the URL of a request to the platform, and is the only function that does: base and the named path,
// filled with this walk's ids and more. It is "" if the profile has no such base or the platform no such path: then
// nothing may be sent. A session's id comes only from more: --session-id names the session of a failing request, not
// this walk's.
func (e *Env) PathURL(base, path string, more map[string]string) string {
	v := e.vars()
	maps.Copy(v, more)
	filled := e.Profile.Mapping.Path(path, v)
	if base == "" || filled == "" {
		return ""
	}
	return Join(base, filled)
}

// Addressed returns req, addressed to the named path; the zero request if the platform lacks the path.
func (e *Env) Addressed(req diag.Request, base, path string, more map[string]string) diag.Request {
	if req.Target = e.PathURL(base, path, more); req.Target == "" {
		return diag.Request{}
	}
	return req
}

// TestWriteBytes returns the size of the test write to a disk, in bytes; 0 for none.
func (e *Env) TestWriteBytes() int {
	if e.ReadOnly {
		return 0
	}
	return diagnosticWrite
}

// URL returns the named path of the operator API, with this walk's ids filled in; "" if the platform lacks the path or
// the API is not known.
func (e *Env) URL(path string) string { return e.PathURL(e.Profile.APIBase, path, nil) }

// Headers returns the headers of every request of this walk.
func (e *Env) Headers() map[string]string {
	return map[string]string{"X-Correlation-Id": e.CorrelationID, "X-GPUaaS-Probe": "preflight"}
}

// Request returns a request to the operator API, with the token, that extracts fields and the error envelope; the zero
// request if this platform has no such path, or the profile no API.
func (e *Env) Request(method, path string, vars map[string]string, fields ...string) diag.Request {
	return e.Addressed(diag.Request{
		Op: diag.OpHTTP, Method: method,
		Resolve: e.Profile.APIResolveAddress, CABundle: e.Profile.Trust.OperatorCA,
		Header: e.Headers(), Token: e.Token, InsecureHTTP: e.Profile.InsecureHTTP,
		Extract: e.Profile.Mapping.Extract(append(fields, FieldErrorCode, "error.message")...),
	}, e.Profile.APIBase, path, vars)
}

// API returns a GET of a named path of the operator API, for commands that read outside a walk; the zero Request if
// this platform has no such path, or the profile no API.
func (e *Env) API(path string, vars map[string]string, fields ...string) diag.Request {
	return e.Request("GET", path, vars, fields...)
}

// AsAgent returns a request that a node sends as its agent would: with the agent's bundle and certificate, to a path
// below the URL that the agent has at a setting; the zero request if this platform has no such path, or the agent no
// such setting.
func (e *Env) AsAgent(op diag.Op, at profile.Setting, path string, vars map[string]string) diag.Request {
	a := &e.Profile.Agent
	return e.Addressed(diag.Request{
		Op: op, CABundle: a.Bundle(), Cert: a.Cert, Key: a.Key,
		Header: e.Headers(), Extract: e.Profile.Mapping.Extract(FieldErrorCode, "error.message"),
	}, at.Ref(), path, vars)
}

// SameEndpoint reports whether two URLs name the same scheme, host and port. URLs that cannot be compared count as the
// same, so that no difference is claimed.
func SameEndpoint(a, b string) bool {
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

// Plain reports whether a URL is without TLS; false for text without a scheme.
func Plain(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (strings.EqualFold(u.Scheme, "http") || strings.EqualFold(u.Scheme, "ws"))
}

func secure(scheme string) bool { return scheme == "https" || scheme == "wss" }

// portOf returns the port of a URL, or its scheme's if it names none.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case secure(u.Scheme):
		return "443"
	}
	return "80"
}

// EndpointOf returns the scheme, host and port of a URL, for people.
func EndpointOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	return u.Scheme + "://" + u.Host
}

// PathOf returns the path of a URL, "/" if it has none.
func PathOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Path == "" {
		return "/"
	}
	return u.EscapedPath()
}

// HostPortOf returns host:port of a URL, "" if it has no host.
func HostPortOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Hostname()) + ":" + portOf(u)
}

// Join appends a path to a base URL.
func Join(base, path string) string { return strings.TrimRight(base, "/") + path }

// Clip joins the first three of names: enough to recognise a list by.
func Clip(names []string) string {
	names = slices.Clone(names)
	if len(names) > 3 {
		names = append(names[:3], "...")
	}
	return strings.Join(names, ", ")
}

// CounterTimeoutMS bounds one counter-probe: its target should answer at once.
const CounterTimeoutMS = 2500

// pinned is one endpoint of the profile, and the profile's address for it.
type pinned struct{ URL, Pin string }

// Listeners returns the profile's endpoints that a vantage uses.
func (e *Env) Listeners(vantage string) []pinned {
	p := e.Profile
	if vantage == Node {
		return []pinned{
			{p.NodeRuntimeAPIURL, p.NodeRuntimeResolveAddress}, {p.NodeTerminalURL, p.NodeTerminalResolveAddress},
		}
	}
	return []pinned{{p.APIBase, p.APIResolveAddress}, {p.TerminalBase, p.TerminalResolveAddress}}
}
