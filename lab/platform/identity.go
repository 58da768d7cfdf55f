package platform

import (
	"context"
	"crypto/subtle"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// codeNoCertificate is the error code of a request without a client certificate from the ingress. It is not a
// typed denial: the node is unknown.
const codeNoCertificate = "client_certificate_required"

// operator admits requests with the operator's token.
func (p *Platform) operator(next web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := p.checkOperator(r); err != nil {
			return err
		}
		return next(w, r)
	}
}

func (p *Platform) checkOperator(r *http.Request) error {
	token := web.Bearer(r)
	if token.IsZero() {
		return web.Errorf(http.StatusUnauthorized, "unauthorized", "the operator's bearer token is missing")
	}
	if subtle.ConstantTimeCompare([]byte(store.Digest(token.Reveal())), []byte(store.Digest(p.token.Reveal()))) != 1 {
		return web.Errorf(http.StatusUnauthorized, "invalid_token", "the operator's bearer token is wrong")
	}
	return nil
}

// codeNoIngress is the error code of a node API request that did not come through the node ingress.
const codeNoIngress = "ingress_required"

// fromIngress admits requests that the node ingress sent: any program on this machine can reach the listener and
// set the headers in which the ingress names the client. A request without the ingress's secret is not evidence
// about any node.
func (p *Platform) fromIngress(next http.Handler) http.Handler {
	want := store.Digest(p.ingress.Reveal())
	refuse := web.Handler(func(_ http.ResponseWriter, r *http.Request) error {
		p.log.Warn("a request that did not come through the node ingress was refused", "listener", "node_api", "peer",
			r.RemoteAddr)
		return web.Errorf(http.StatusForbidden, codeNoIngress, "node requests come through the node ingress")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := store.Digest(r.Header.Get(wire.HeaderIngress))
		r.Header.Del(wire.HeaderIngress) // the handlers do not need it
		if subtle.ConstantTimeCompare([]byte(given), []byte(want)) != 1 {
			refuse.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// caller is the sender of a node request.
type caller struct {
	cert     *x509.Certificate
	instance string // from the request's header, "" if absent
	remote   string
	shown    string // the challenge that the request shows, "" if absent
}

// callerFrom returns the sender of a node request, without its certificate.
func callerFrom(r *http.Request) caller {
	return caller{instance: r.Header.Get(wire.HeaderNodeInstance), remote: web.Remote(r),
		shown: r.Header.Get(wire.HeaderChallenge)}
}

// source returns the caller as the host that it claims to be.
func (c caller) source(instance string) store.Source {
	s := store.Source{InstanceID: instance, Remote: c.remote}
	if c.cert != nil {
		s.Serial = serialText(c.cert)
	}
	return s
}

type callerKey struct{}

// callerOf returns the caller that the node middleware identified.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// presented returns the client certificate that the ingress passed on, or an error that says why there is none.
func presented(r *http.Request) (*x509.Certificate, error) {
	verify := r.Header.Get(wire.HeaderClientVerify)
	switch reason, failed := strings.CutPrefix(verify, "FAILED:"); {
	case failed && strings.Contains(reason, "expired"):
		return nil, web.Errorf(http.StatusUnauthorized, wire.DenyExpired, "the ingress rejected the client certificate: %s",
			reason)
	case failed:
		return nil, web.Errorf(http.StatusUnauthorized, wire.DenyNotNodeBound,
			"the ingress rejected the client certificate: %s", reason)
	case verify != "SUCCESS":
		return nil, web.Errorf(http.StatusUnauthorized, codeNoCertificate, "the ingress saw no client certificate")
	}
	text, err := url.PathUnescape(r.Header.Get(wire.HeaderClientCert)) // not QueryUnescape: base64 contains +
	if err == nil {
		if block, _ := pem.Decode([]byte(text)); block != nil {
			if c, err := x509.ParseCertificate(block.Bytes); err == nil {
				return c, nil
			}
		}
	}
	return nil, web.Errorf(http.StatusUnauthorized, codeNoCertificate, "the ingress passed no readable client certificate")
}

// denied returns why a request may not act as the node, or nil if it may. anyProfile skips the check of the
// environment profile that the node named last: for a request that names one itself.
func (p *Platform) denied(ctx context.Context, nodeID string, from caller, anyProfile bool) *web.Error {
	if err := p.deniedCert(ctx, nodeID, from.cert); err != nil {
		return err
	}
	n, err := p.store.Node(ctx, nodeID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return web.Errorf(http.StatusForbidden, wire.DenyNotNodeBound, "there is no such node")
	case err != nil:
		return lookupFailed(err)
	case n.Identity != "":
		return web.Errorf(http.StatusForbidden, n.Identity, "the node's identity is %s", n.Identity)
	case !anyProfile && store.OtherProfile(n.ReportedProfile, p.profileOf(n)):
		return web.Errorf(http.StatusForbidden, wire.DenyProfileMismatch,
			"the node named another environment profile than the active one")
	}
	switch fenced, err := p.store.Fenced(ctx, nodeID, from.source(from.instance)); {
	case err != nil:
		return lookupFailed(err)
	case fenced:
		return web.Errorf(http.StatusForbidden, wire.DenyFenced, "this host is fenced")
	}
	return nil
}

// deniedStream is denied for the gateway, which terminates mutual TLS itself.
func (p *Platform) deniedStream(r *http.Request, nodeID string, c *x509.Certificate) *web.Error {
	from := callerFrom(r)
	from.cert = c
	denied := p.denied(r.Context(), nodeID, from, false)
	if denied == nil {
		p.noteSource(r, nodeID, from)
	}
	return denied
}

// deniedGeneration denies a certificate whose successor has been in use for a while: a node stores a certificate
// before it uses it, so a later user of the old one is delayed or has a copy.
func (p *Platform) deniedGeneration(ctx context.Context, c store.Cert) *web.Error {
	used, err := p.store.NewerUsed(ctx, c.NodeID, c.Generation)
	switch {
	case err != nil:
		return lookupFailed(err)
	case used.IsZero() || p.now().Sub(used) < seconds(p.cfg.Policy.CredentialOverlap):
		return nil
	}
	return web.Errorf(http.StatusForbidden, wire.DenyNotNodeBound,
		"the client certificate is no longer this node's: a newer one is in use since %s", used.Format(timeText))
}

func lookupFailed(err error) *web.Error {
	return &web.Error{Status: http.StatusInternalServerError, Code: "internal_error",
		Message: "the platform could not look the node up", Err: err}
}

// deniedCert returns why a certificate may not act as the node, regardless of the node's state.
func (p *Platform) deniedCert(ctx context.Context, nodeID string, c *x509.Certificate) *web.Error {
	if err := p.pki.verifyNode(c, p.now()); err != nil {
		var invalid x509.CertificateInvalidError
		if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
			return web.Errorf(http.StatusUnauthorized, wire.DenyExpired, "the client certificate is not valid now (%s to %s)",
				c.NotBefore.UTC().Format(timeText), c.NotAfter.UTC().Format(timeText))
		}
		return web.Errorf(http.StatusUnauthorized, wire.DenyNotNodeBound,
			"the client certificate is not one that this platform's signing CA gave to a node")
	}
	if !boundTo(c, nodeID) {
		return web.Errorf(http.StatusForbidden, wire.DenyNotNodeBound, "the client certificate is not bound to this node")
	}
	issued, err := p.store.Cert(ctx, serialText(c))
	switch {
	case err == nil && !issued.RevokedAt.IsZero():
		return web.Errorf(http.StatusForbidden, wire.DenyRevoked, "the client certificate was revoked")
	case err == nil && !issued.SupersededAt.IsZero(): // not "revoked": a host that gets a token may recover
		return web.Errorf(http.StatusForbidden, wire.DenyNotNodeBound,
			"the client certificate is no longer this node's: an operator asked for a new identity")
	case err == nil:
		return p.deniedGeneration(ctx, issued)
	// an unknown serial of our own CA is accepted: the signature is authoritative
	case !errors.Is(err, store.ErrNotFound):
		return lookupFailed(err)
	}
	return nil
}
