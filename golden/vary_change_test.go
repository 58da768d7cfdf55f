package golden

import (
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// The lists of what a probe may meet, by how far the recorded one came.

var loginChanges = []change{
	ended(diag.Timeout, "banner", ""), ended(diag.SSHAuth, "auth", ""), ended(diag.SSHHostKey, "host_key", ""),
	ended(diag.SSHExec, "exec", ""), ended(diag.SSHSetup, "config", ""), ended(diag.SSHJump, "jump", ""),
	ended(diag.TCPRefused, "tcp", "ECONNREFUSED"), ended(diag.TCPTimeout, "tcp", ""), ended(diag.DNSNXDomain, "dns", ""),
	ended(diag.HostExhausted, "tcp", "EMFILE"),
}

var networkChanges = []change{
	ended(diag.DNSNXDomain, "dns", ""), ended(diag.DNSTimeout, "dns", ""),
	ended(diag.TCPRefused, "tcp", "ECONNREFUSED"), ended(diag.TCPTimeout, "tcp", ""), ended(diag.TCPReset, "tcp", ""),
	ended(diag.TCPNoRoute, "tcp", "EHOSTUNREACH"),
	{"denied by a packet filter", func(f *diag.Fact) {
		endIn(f, diag.TCPDenied, "tcp", "EPERM")
		f.Denial = &diag.DenialFacts{PacketFilters: []string{"ip filter output"}}
	}, false},
	{"denied by a filter of the process", func(f *diag.Fact) {
		endIn(f, diag.TCPDenied, "tcp", "EPERM")
		f.Denial = &diag.DenialFacts{Seccomp: "filter"}
	}, false},
	{"out of files", exhaustedAt(diag.OpenFiles, diag.ScopeProcess), false},
	{"out of ports", exhaustedAt(diag.LocalPorts, diag.ScopeNetwork), false},
	{"out of memory", exhaustedAt(diag.Memory, diag.ScopeMachine), false},
	{"over a reused connection", func(f *diag.Fact) {
		if f.TCP != nil {
			f.TCP.Reused = true
		}
	}, false},
	{"with segments sent again", func(f *diag.Fact) {
		if f.TCP != nil {
			f.TCP.Resent = new(int64(1))
		}
	}, false},
	{"with a gap in the answer", func(f *diag.Fact) {
		if f.TCP != nil {
			f.TCP.Gap = true
		}
	}, false},
}

func exhaustedAt(what diag.Resource, scope diag.Scope) func(*diag.Fact) {
	return func(f *diag.Fact) {
		endIn(f, diag.HostExhausted, "tcp", "EMFILE")
		f.Shortage = &diag.ShortageFacts{Resource: what, Scope: scope, Limit: new(int64(1024)), Used: new(int64(1024))}
	}
}

var tlsChanges = []change{
	ended(diag.TLSUnknownCA, "tls", ""), ended(diag.TLSClosed, "tls", ""),
	ended(diag.MTLSUnknownCA, "mtls", ""), ended(diag.MTLSCertRequired, "mtls", ""),
	ended(diag.MTLSCertExpired, "mtls", ""),
	{"tls_expired in tls", func(f *diag.Fact) {
		chain := f.TLS.Chain
		endIn(f, diag.TLSExpired, "tls", "")
		if len(chain) > 0 {
			chain[0].NotAfter = diag.Time{Time: f.At.Add(-time.Hour)}
		}
		f.TLS = &diag.TLSFacts{Chain: chain}
	}, false},
}

var httpChanges = []change{
	ended(diag.HTTPTimeout, "http", ""), ended(diag.HTTPClosed, "http", ""), ended(diag.HTTPMalformed, "http", ""),
	answered("500 unsigned", 500, "text/plain", "", diag.HTTPStatus),
	answered("502 of an edge", 502, "text/html", "", diag.HTTPEdgePage),
	answered("503 of the platform", 503, "application/json", "unavailable", diag.HTTPStatus),
	answered("400 unsigned", 400, "application/json", "", diag.HTTPStatus),
	answered("401 unsigned", 401, "application/json", "", diag.HTTPStatus),
	answered("401 of the platform", 401, "application/json", "token_expired", diag.HTTPStatus),
	answered("403 unsigned", 403, "application/json", "", diag.HTTPStatus),
	answered("403 page", 403, "text/html", "", diag.HTTPEdgePage),
	answered("403 revoked", 403, "application/json", "node_revoked", diag.HTTPStatus),
	answered("404 unsigned", 404, "application/json", "", diag.HTTPStatus),
	answered("404 of the platform", 404, "application/json", "node_not_found", diag.HTTPStatus),
	answered("409 of the platform", 409, "application/json", "allocation_not_active", diag.HTTPStatus),
	answered("429", 429, "application/json", "rate_limited", diag.HTTPRateLimited),
	answered("login page", 302, "text/html", "", diag.HTTPEdgeAuth),
	{"from a cache", func(f *diag.Fact) { f.HTTP.Cached = "Age: 30" }, false},
	{"by another server", func(f *diag.Fact) { f.HTTP.Server = "other" }, false},
}

// answered returns a change to a fact whose probe got another HTTP answer.
func answered(name string, status int, kind, code string, failure diag.Failure) change {
	return change{name, func(f *diag.Fact) {
		http := *f.HTTP
		endIn(f, failure, "http", "")
		f.HTTP = &diag.HTTPFacts{Status: status, ContentType: kind, Server: http.Server, Date: http.Date, ErrorCode: code}
		if f.Request.Op == diag.OpWS || f.Request.Op == diag.OpSession {
			f.Failure, f.Phase, f.WS = diag.WSUpgradeRejected, "ws", &diag.WSFacts{Status: status}
		}
	}, false}
}
