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
	NodeCA        string      // PEM text of Profile.Trust.NodeCA, for a control with the active bundle
}

// vars are the values for path templates.
func (e *Env) vars() map[string]string {
	return map[string]string{
		"node_id": e.Subject.NodeID, "allocation_id": e.Subject.AllocationID,
		"session_id": e.Subject.SessionID, "correlation_id": e.CorrelationID,
	}
}

// path fills a path template with this walk's ids and more.
func (e *Env) path(name string, more map[string]string) string {
	v := e.vars()
	maps.Copy(v, more)
	return e.Profile.Mapping.Path(name, v)
}

// header is what every request of this walk carries.
func (e *Env) header() map[string]string {
	return map[string]string{"X-Correlation-Id": e.CorrelationID, "X-GPUaaS-Probe": "preflight"}
}

// api is a request to the operator API, with the token and the envelope's fields extracted.
func (e *Env) api(method, path string, vars map[string]string, fields ...string) diag.Request {
	return diag.Request{
		Op: diag.OpHTTP, Method: method, Target: join(e.Profile.APIBase, e.path(path, vars)),
		Resolve: e.Profile.APIResolveAddress, CABundle: e.Profile.Trust.OperatorCA,
		Header: e.header(), Token: e.Token,
		Extract: e.Profile.Mapping.Extract(append(fields, "error.code", "error.message")...),
	}
}

// API is a GET of a named path of the operator API, for commands that read beside a walk; the zero Request where this
// platform has no such path, or the profile no API.
func (e *Env) API(path string, vars map[string]string, fields ...string) diag.Request {
	if e.Profile.APIBase == "" || e.path(path, vars) == "" {
		return diag.Request{}
	}
	return e.api("GET", path, vars, fields...)
}

// asAgent is a request that a node sends as its agent would: with the agent's bundle and certificate, to an endpoint
// that the running agent's environment names.
func (e *Env) asAgent(op diag.Op, endpoint, path string) diag.Request {
	return diag.Request{
		Op: op, Target: "${" + endpoint + "}" + path,
		CABundle: e.agentFile("ca-bundle.crt"), Cert: e.agentFile("cert.pem"), Key: e.agentFile("key.pem"),
		Header: e.header(), Extract: e.Profile.Mapping.Extract("error.code", "error.message"),
	}
}

// agentFile is a path in the agent's folder on the node.
func (e *Env) agentFile(name string) string {
	return strings.TrimRight(e.Profile.Agent.Dir, "/") + "/" + name
}

// sameEndpoint reports whether two URLs name the same scheme, host and port. What cannot be compared is the same:
// nothing is claimed of it.
func sameEndpoint(a, b string) bool {
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	if a == "" || b == "" || errA != nil || errB != nil {
		return true
	}
	return secure(ua.Scheme) == secure(ub.Scheme) && hostPort(ua) == hostPort(ub)
}

func secure(scheme string) bool { return scheme == "https" || scheme == "wss" }

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if secure(u.Scheme) {
			port = "443"
		}
	}
	return strings.ToLower(u.Hostname()) + ":" + port
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
	return hostPort(u)
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
