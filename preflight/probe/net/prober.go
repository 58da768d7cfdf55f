// Package net measures over the network: a request's way through name look-up, connection, TLS, HTTP, WebSocket and
// session, each phase with its facts. probe.Prober runs it at a vantage.
//
// More than 25 files: each phase has its own, and what only Linux has is apart.
package net

import (
	"context"
	"net"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// Prober measures over the network. The zero value measures with this host's network and name servers.
type Prober struct {
	// Dial replaces the network dialer, for connections through a jump host and for tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Lookup finds fields in answers; if nil, only paths of names and list indices joined by dots are supported.
	Lookup Lookup

	// AskServer queries one name server for a fully qualified name, in more detail than the host's own look-up. If nil,
	// no server is queried separately. An error is why there is no answer.
	AskServer func(ctx context.Context, server, name string) (diag.DNSAnswer, error)

	// ProxyOf returns the variable of the environment that names a proxy for an address, and that proxy; "" for none. The
	// prober does not use it: the fact says so. nil: none is known.
	ProxyOf func(secure bool, address string) string

	names   nameFiles  // paths of name service files, for tests
	pool    pool       // connections kept between requests of one prober
	dialing dialing    // connections that are being made
	offers  offers     // connections that are opened ahead
	asked   askedNames // names for which every name server was queried
}

// Operation returns the measurement of an operation; nil if it is none of the network's.
func (p *Prober) Operation(op diag.Op) measure.Operation {
	switch op {
	case diag.OpDNS:
		return p.dns
	case diag.OpGetent:
		return p.getent
	case diag.OpTCP:
		return p.tcp
	case diag.OpTLS:
		return p.tls
	case diag.OpPath:
		return p.path
	case diag.OpHTTP:
		return p.http
	case diag.OpWS:
		return p.ws
	case diag.OpSession:
		return p.session
	}
	return nil
}
