//go:build linux

package inprocess

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

const maintenancePage = "<html><head><title>Maintenance</title></head><body>We will be back soon.</body></html>"

// at returns a change to one door.
func at(which int, change func(d *door)) func(*testing.T, *behind, *[3]door) {
	return func(_ *testing.T, _ *behind, doors *[3]door) { change(&doors[which]) }
}

// distrusting makes the ingress trust a CA that signed nothing here.
func distrusting(change func(d *door)) func(*testing.T, *behind, *[3]door) {
	return func(t *testing.T, _ *behind, doors *[3]door) {
		d := &doors[ingressDoor]
		d.ca = otherCA(t)
		change(d)
	}
}

// cells is the table.
func cells() []cell {
	all := healthyCells()
	for _, version := range []string{"1.2", "1.3"} {
		all = append(all, certificateCells(version)...)
	}
	all = append(all,
		cell{name: "another CA, optional", want: drift, do: distrusting(func(d *door) { d.clients = certOptional })},
		cell{name: "another CA, refuses in HTTP", want: drift, cannot: noHTTPVerdict,
			do: distrusting(func(d *door) { d.clients = certOr403 })},
		cell{name: "ingress: a rule of its own", want: ownRule, do: at(ingressDoor, func(d *door) {
			d.status, d.page = http.StatusForbidden, "<html><body>Your request was blocked.</body></html>"
		})},
		cell{name: "ingress: a rule of its own, in JSON", want: ownRule, do: at(ingressDoor, func(d *door) {
			d.status, d.page, d.kind = http.StatusForbidden, `{"message":"Forbidden"}`, "application/json"
		}), cannot: map[string]string{"apache2": "its own pages are HTML"}},
		cell{name: "ingress: a rule of its own, with a code", want: ruleWithCode, do: at(ingressDoor, func(d *door) {
			d.status, d.page, d.kind = http.StatusForbidden, `{"error":{"code":"forbidden"}}`, "application/json"
		}), cannot: map[string]string{"apache2": "its own pages are HTML"}},
		cell{name: "ingress asks for no certificate", want: notAsked,
			do: at(ingressDoor, func(d *door) { d.clients = "" })},
		cell{name: "terminal: health page unrouted", want: worksButPage, do: at(terminalDoor, func(d *door) {
			d.only, d.status = "/healthz", http.StatusNotFound
		})},
		cell{name: "terminal: health page broken", want: worksButPage, do: at(terminalDoor, func(d *door) {
			d.only, d.status = "/healthz", http.StatusServiceUnavailable
		})},
		cell{name: "ingress: health page broken", want: worksButPage, do: at(ingressDoor, func(d *door) {
			d.clients, d.only, d.status = certOptional, "/healthz", http.StatusServiceUnavailable
		})},
		cell{name: "ingress: a limit of its own", want: ownRule,
			do: at(ingressDoor, func(d *door) { d.status = http.StatusBadRequest })},
		cell{name: "certificate not passed on", want: notPassedOn("the platform behind it saw no certificate"),
			do: at(ingressDoor, func(d *door) { d.withholds = true })},
		cell{name: "ingress's secret not passed on", want: notPassedOn("not recognize the request as its ingress's"),
			do: at(ingressDoor, func(d *door) { d.secretly = true })},
		cell{name: "api: a rule of its own", want: undecided(byEdge + ", operator access"),
			do: at(apiDoor, func(d *door) { d.status, d.page = http.StatusForbidden, maintenancePage })},
		cell{name: "api: backend " + halfBackend, want: api(halfAnAnswer), do: breaksOff(apiDoor)},
		cell{name: "ingress: backend " + halfBackend, want: nodeAPI(halfAnAnswer), do: breaksOff(ingressDoor)},
		cell{name: "ingress: no such name", want: blames(diag.HopNodeRuntimeAPI, diag.SigAPIUnreachable,
			byAPI, diag.ReasonControlPlaneUnreachable, "no TLS connection .*: (unrecognized name|internal error)"),
			do: at(ingressDoor, func(d *door) { d.unnamed = true }), cannot: everyName},
		cell{name: "ingress: 401", want: nodeAPI("a login, which no agent can pass"),
			do: at(ingressDoor, func(d *door) { d.status, d.page = http.StatusUnauthorized, "<html>Log in.</html>" })},
		cell{name: "stale bundle", want: staleBundle, do: func(t *testing.T, b *behind, _ *[3]door) {
			write(t, filepath.Join(b.node, "ca-bundle.crt"), string(b.platform.SigningCA()))
		}},
		cell{name: "subprotocol kept back", want: noChoice, cannot: keepsHead,
			do: at(terminalDoor, func(d *door) { d.noChoice = true })},
		cell{name: "upgrade refused", want: noUpgrade, do: at(terminalDoor, func(d *door) { d.noUpgrade = true })},
	)
	for which, l := range legs {
		all = append(all, answerCells(which, l)...)
	}
	return all
}

// noHTTPVerdict is for a server that judges certificates only during the handshake.
var noHTTPVerdict = map[string]string{"caddy": "it judges certificates in the handshake alone"}

func healthyCells() []cell {
	well := expectation{outcome: diag.OutcomePass, reason: diag.ReasonNone}
	clients := func(how string) func(*testing.T, *behind, *[3]door) {
		return at(ingressDoor, func(d *door) { d.clients = how })
	}
	return []cell{
		{name: "healthy", want: well},
		{name: "healthy, TLS 1.2", want: well, do: at(ingressDoor, func(d *door) { d.tls = "1.2" })},
		{name: "healthy, certificate optional", want: well, do: clients(certOptional)},
		{name: "healthy, closes without a certificate", want: well, do: clients(certOrClose),
			cannot: map[string]string{"apache2": "it always answers"}},
		{name: "healthy, refuses in HTTP", want: well, do: clients(certOr403), cannot: noHTTPVerdict},
	}
}

const (
	byAPI      = "control plane API, edge and route profile"
	byEdge     = "edge and route profile"
	byPKI      = "PKI, edge profile"
	byOperator = "operator access"
	byGateway  = "terminal gateway, edge"
)

// blames returns a verdict that blames a hop.
func blames(hop diag.HopID, signal diag.Signal, owner string, reason diag.ReasonCode, says string) expectation {
	return expectation{diag.OutcomeFail, hop, signal, owner, reason, says}
}

// undecided returns a verdict that blames no hop and does not pass.
func undecided(owner string) expectation {
	return expectation{outcome: diag.OutcomeInconclusive, owner: owner, reason: diag.ReasonNone}
}

// denied returns a verdict about the node's certificate.
func denied(reason diag.ReasonCode, says string) expectation {
	return blames(diag.HopNodeRecoveryStatus, diag.SigAuthFailed, "PKI, node enrollment", reason, says)
}

// notPassedOn returns a verdict about an edge that does not pass on what the platform needs.
func notPassedOn(says string) expectation {
	return blames(diag.HopNodeRecoveryStatus, diag.SigAuthFailed, byEdge+", control plane API",
		diag.ReasonControlPlaneUnreachable, "requests the node's certificate, gets it, and does not pass it on: .*"+says)
}

var (
	drift = blames(diag.HopNodeRecoveryStatus, diag.SigIngressCADrift, byPKI, diag.ReasonCertUntrustedByIngress,
		"^the certificate is good and was signed by CN=gpuaas test nodes, and the node ingress trusts only O=Acme Co$")
	worksButPage = expectation{outcome: diag.OutcomeWarn, reason: diag.ReasonNone}
	expired      = denied(diag.ReasonRecoveryTokenMissing, "mtls_cert_expired")
	foreign      = denied(diag.ReasonRecoveryTokenMissing, "the ingress refuses the node's certificate: .* issued by "+
		"CN=gpuaas test strangers, and certificates of CN=gpuaas test nodes are asked for")
	revoked = blames(diag.HopNodeRecoveryStatus, diag.SigAuthFailed, byEdge+", PKI, node enrollment",
		diag.ReasonIdentityRejectedRecoverable, "refuses the node's certificate: .*; the terminal gateway accepts the same")
	notAsked = blames(diag.HopNodeRecoveryStatus, diag.SigEndpointProfileDrift, byEdge+", environment profile",
		diag.ReasonControlPlaneUnreachable, "did not ask for the node's certificate in its handshake, and the profile names")
	staleBundle = blames(diag.HopNodeRuntimeAPI, diag.SigAPITLSFailed, byPKI, diag.ReasonServerTLSUntrusted,
		"does not trust .* tls_unknown_ca")
	ownRule = blames(diag.HopNodeRecoveryStatus, diag.SigAPIUnreachable, byEdge+", control plane API",
		diag.ReasonControlPlaneUnreachable, "nothing of the platform, and the terminal gateway accepts the same certificate")
	ruleWithCode = blames(diag.HopNodeRecoveryStatus, diag.SigAPIUnreachable, byEdge+", control plane API",
		diag.ReasonControlPlaneUnreachable, "the code forbidden, which is not known to be the platform's, and the terminal")
	noUpgrade = blames(diag.HopBrowserTerminalWS, diag.SigUpgradeFailed, byGateway, diag.ReasonTerminalGatewayDown,
		"HTTP 426")
	noChoice = blames(diag.HopBrowserTerminalWS, diag.SigUpgradeFailed, byGateway, diag.ReasonTerminalGatewayDown,
		"accepts none of the offered subprotocols")
)

// halfAnAnswer is the result of an interrupted response: some servers mark it as complete.
const halfAnAnswer = `http_(closed|malformed) in http \(HTTP 200\)|HTTP 50[234]`

// breaksOff gives a door a backend that interrupts each response.
func breaksOff(which int) func(*testing.T, *behind, *[3]door) {
	return func(t *testing.T, _ *behind, doors *[3]door) { doors[which].backend = serve(t, halfBackend) }
}

// keepsHead is for servers that pass on the header of a response to an upgrade unchanged.
var keepsHead = map[string]string{"apache2": "it changes no header of a 101", "caddy": "it changes no header of a 101"}

// everyName is for servers that have a certificate for any name.
var everyName = map[string]string{"apache2": "it has a default host", "caddy": "it has a default certificate"}

// certificateCells are about the node's certificate at an ingress that requires one during the handshake.
func certificateCells(version string) []cell {
	old := platformtest.IssueOptions{NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)}
	issued := func(o platformtest.IssueOptions) func(*testing.T, *behind, *[3]door) {
		return func(t *testing.T, b *behind, doors *[3]door) { doors[ingressDoor].tls = version; b.issue(t, o) }
	}
	return []cell{
		{name: "another CA, TLS " + version, want: drift, do: distrusting(func(d *door) { d.tls = version })},
		{name: "expired, TLS " + version, want: expired, do: issued(old)},
		{name: "certificate of strangers, TLS " + version, want: foreign,
			do: issued(platformtest.IssueOptions{OtherCA: true})},
		{name: "revoked, TLS " + version, want: revoked, do: func(t *testing.T, b *behind, doors *[3]door) {
			doors[ingressDoor].tls, doors[ingressDoor].crl = version, b.revoke(t)
		}, cannot: map[string]string{"caddy": "it reads no revocation lists"}},
	}
}

// leg is one of the listeners with the expected verdict of its faults.
type leg struct {
	name                                                 string
	broken, own503, throttled, page, login, moved, http2 expectation
}

// legs are in the order of the doors.
var legs = [...]leg{
	{
		name:      "api",
		broken:    api(`answers \S+ in http \(HTTP 50[234]\)|http_not_http`),
		throttled: undecided("operator access, edge and route profile"),
		page:      undecided(byEdge + ", operator access"),
		login:     undecided(byOperator),
		moved:     api("HTTP 302 to moved.invalid/elsewhere"),
		http2:     api("ALPN"),
	}, {
		name:      "terminal",
		broken:    behindEdge,
		own503:    route(`does not work: .* \(HTTP 503\)`),
		throttled: undecided("operator access, edge and route profile"),
		page: blames(diag.HopBrowserTerminalWS, diag.SigUpgradeFailed, byEdge+", terminal gateway",
			diag.ReasonTerminalGatewayDown, "HTTP 200"),
		login: undecided(byOperator),
		moved: route("HTTP 302 to moved.invalid/elsewhere"),
		http2: route("ALPN"),
	}, {
		name:   "ingress",
		broken: nodeAPI(`\(HTTP 50[234]\)|http_not_http`),
		throttled: blames(diag.HopNodeRecoveryStatus, diag.SigEdgeRateLimited, byEdge, diag.ReasonEdgeRateLimited,
			"throttles this node's task wait"),
		page:  nodeAPI("a web page instead of the node API's response: HTTP 200"),
		login: nodeAPI("a login, which no agent can pass"),
		moved: undecided(byEdge + ", operator access"),
		http2: nodeAPI("ALPN"),
	},
}

func api(says string) expectation {
	return blames(diag.HopControlPlaneAccess, diag.SigControlPlaneUnreachable, byAPI, diag.ReasonNone, says)
}

func route(says string) expectation {
	return blames(diag.HopTerminalPublicRoute, diag.SigPublicRouteMissing, byEdge, diag.ReasonTerminalGatewayDown, says)
}

// behindEdge is the verdict for an edge that passes a request on and gets no answer.
var behindEdge = blames(diag.HopTerminalPublicRoute, diag.SigPublicRouteMissing, "terminal gateway, "+byEdge,
	diag.ReasonTerminalGatewayDown, `does not work: .* \(HTTP 50[24]\)`)

func nodeAPI(says string) expectation {
	return blames(diag.HopNodeRecoveryStatus, diag.SigAPIUnreachable, byAPI, diag.ReasonControlPlaneUnreachable, says)
}

// oneProtocol names the servers that accept HTTP/1.1 as well when they are configured for HTTP/2.
var oneProtocol = map[string]string{
	"nginx": "it always takes HTTP/1.1, too", "caddy": "it wants HTTP/1.1 beside it",
	"apache2": "it falls back to HTTP/1.1", "go": "it falls back to HTTP/1.1",
}

// answerCells are about responses of a door that does not lead to a platform.
func answerCells(which int, l leg) []cell {
	var all []cell
	// A server responds the same at each of its listeners.
	backends := [...]string{deadBackend, garbageBackend, silentBackend}
	for _, kind := range backends[:[...]int{apiDoor: 3, terminalDoor: 1, ingressDoor: 2}[which]] {
		all = append(all, cell{name: l.name + ": backend " + kind, want: l.broken, own503: l.own503,
			do: func(t *testing.T, _ *behind, doors *[3]door) {
				doors[which].backend, doors[which].impatient = serve(t, kind), true
			}})
	}
	answers := func(status int, page string) func(*testing.T, *behind, *[3]door) {
		return at(which, func(d *door) { d.status, d.page = status, page })
	}
	if which == apiDoor {
		all = append(all, cell{name: l.name + ": maintenance page", want: l.broken,
			do: answers(http.StatusServiceUnavailable, maintenancePage)})
	}
	return append(all,
		cell{name: l.name + ": throttled", want: l.throttled, do: answers(http.StatusTooManyRequests, "")},
		cell{name: l.name + ": maintenance page that says 200", want: l.page, do: answers(http.StatusOK, maintenancePage)},
		cell{name: l.name + ": login", want: l.login,
			do: at(which, func(d *door) { d.redirect = "https://login.invalid/login" })},
		cell{name: l.name + ": moved", want: l.moved,
			do: at(which, func(d *door) { d.redirect = "https://moved.invalid/elsewhere" })},
		cell{name: l.name + ": HTTP/2 only", want: l.http2, cannot: oneProtocol,
			do: at(which, func(d *door) { d.h2 = true })},
	)
}
