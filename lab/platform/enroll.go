package platform

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// enrollRetry is how long an enrollment may be repeated with the same key: the first response may have been lost
// after the token was consumed.
const enrollRetry = 2 * time.Minute

// undoTime bounds work that must be done after a caller has disconnected.
const undoTime = 2 * time.Second

// timeText is the format of times in messages.
const timeText = "2006-01-02 15:04:05Z"

// detached returns a context with a short timeout that is not canceled with its parent.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTime)
}

// enroll exchanges a node-bound token and a certificate request for a certificate, the trust bundle and the
// endpoints.
func (p *Platform) enroll(w http.ResponseWriter, r *http.Request) error {
	var in wire.EnrollRequest
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	c, generation, err := p.issue(r, in)
	if err != nil {
		var denial *web.Error
		if errors.As(err, &denial) {
			p.recordEnrollDenial(r, in, denial)
		}
		return err
	}
	p.recovered(r.Context(), store.AuditKey{ActorType: actorNode, ActorID: in.NodeID, Action: actionEnroll})
	p.metrics.add("enrollments_total")
	return web.Answer(w, http.StatusOK, wire.EnrollResponse{
		Certificate: string(certPEM(c)) + string(p.pki.caPEM), CABundle: string(p.pki.nodeCABundle),
		APIURL: p.cfg.Endpoints.APIURL, TerminalURL: p.cfg.Endpoints.TerminalURL, Generation: generation,
		NotAfter: c.NotAfter.UTC(), Profile: p.activeProfile(r.Context(), in.NodeID),
	})
}

// issue checks and consumes the token, and signs the certificate.
func (p *Platform) issue(r *http.Request, in wire.EnrollRequest) (*x509.Certificate, int64, error) {
	token := web.Bearer(r)
	if token.IsZero() || in.NodeID == "" {
		return nil, 0, web.Errorf(http.StatusUnauthorized, "unauthorized", "enrollment needs a node id and a bearer token")
	}
	csr, err := parseCSR(in.CSR)
	if err != nil {
		return nil, 0, &web.Error{Status: http.StatusBadRequest, Code: "csr_invalid",
			Message: "the certificate request is not acceptable", Err: err}
	}
	if cn := csr.Subject.CommonName; cn != "" && cn != in.NodeID {
		return nil, 0, web.Errorf(http.StatusForbidden, wire.DenyNotNodeBound, "the certificate request names another node")
	}
	var cert *x509.Certificate
	row, err := p.store.Enroll(r.Context(), store.Enrollment{
		NodeID: in.NodeID, InstanceID: in.NodeInstanceID, Remote: web.Remote(r),
		Profile: p.activeProfile(r.Context(), in.NodeID), NodeProfile: in.Profile,
		CorrelationID: web.CorrelationID(r.Context()), TokenDigest: store.Digest(token.Reveal()),
		KeyDigest: fmt.Sprintf("%x", sha256.Sum256(csr.RawSubjectPublicKeyInfo)), At: p.now(), Retry: enrollRetry,
		Fresh: min(seconds(p.cfg.Policy.HeartbeatStaleAfter), quiet),
	}, func(generation int64) (row store.Cert, err error) {
		cert, row, err = p.pki.sign(in.NodeID, generation, csr.PublicKey, p.now(), seconds(p.cfg.Policy.CertTTL))
		return row, err
	})
	if errors.Is(err, store.ErrDoubt) {
		p.log.Error("another host than the one that is alive enrolls as a node: it is quarantined until an operator decides",
			"node_id", in.NodeID, "node_instance_id", web.Clipped(in.NodeInstanceID), "remote", web.Remote(r))
		p.metrics.add("clones_detected_total")
		p.reclassified(r.Context(), in.NodeID)
		return nil, 0, web.Errorf(http.StatusForbidden, wire.DenyCloned, "another host is using this node's identity")
	}
	if err != nil {
		return nil, 0, p.enrollDenial(r.Context(), in.NodeID, err)
	}
	return cert, row.Generation, nil
}

// refusals maps the store's reasons to responses.
var refusals = [...]struct {
	of            error
	status        int
	code, message string
}{
	{store.ErrTokenUnknown, http.StatusUnauthorized, "unauthorized", "the enrollment token is not known"},
	{store.ErrTokenOtherNode, http.StatusForbidden, wire.DenyNotNodeBound,
		"the enrollment token is bound to another node"},
	{store.ErrTokenExpired, http.StatusUnauthorized, wire.DenyTokenExpired, "the enrollment token has expired"},
	{store.ErrTokenConsumed, http.StatusUnauthorized, wire.DenyTokenConsumed, "the enrollment token was used already"},
	{store.ErrProfile, http.StatusForbidden, wire.DenyProfileMismatch,
		"the token or the node is of another environment profile than the active one"},
	{store.ErrFenced, http.StatusForbidden, wire.DenyFenced, "this host is fenced"},
	{store.ErrHostBound, http.StatusForbidden, wire.DenyNotNodeBound,
		"this host is another node; that one has to be retired first"},
	{store.ErrInstance, http.StatusNotFound, "instance_not_found", "no such host ever used this node's identity"},
	{store.ErrInUse, http.StatusConflict, "node_in_use", "the node has allocations that are not released"},
	{store.ErrStanding, http.StatusConflict, "identity_accepted", "the node's identity is accepted already"},
	{store.ErrNotClaimed, http.StatusConflict, "task_not_claimed", "the task was not handed out"},
}

// refused converts the store's reasons to responses; it returns other errors unchanged.
func refused(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.of) {
			return web.Errorf(r.status, r.code, "%s", r.message)
		}
	}
	return err
}

// enrollDenial converts the store's reasons to denials; the code of one of them is in the node's row.
func (p *Platform) enrollDenial(ctx context.Context, nodeID string, err error) error {
	if !errors.Is(err, store.ErrNodeDenied) {
		return refused(err)
	}
	n, lookup := p.store.Node(ctx, nodeID)
	if lookup != nil {
		return lookup
	}
	return web.Errorf(http.StatusForbidden, n.Identity, "the node's identity is %s", n.Identity)
}

// ownDenials are responses to a caller with a token of the node: they count as the node's own. A caller that only
// names a node changes nothing about it.
var ownDenials = []string{wire.DenyTokenExpired, wire.DenyTokenConsumed, wire.DenyProfileMismatch, wire.DenyRevoked,
	wire.DenyRetired, wire.DenyCloned}

// recordEnrollDenial counts a denied enrollment. Since enrolling needs no certificate, a caller without a token of
// the node leaves one row of evidence per window, whatever name it uses.
func (p *Platform) recordEnrollDenial(r *http.Request, in wire.EnrollRequest, denial *web.Error) {
	ctx, own, rows := r.Context(), slices.Contains(ownDenials, denial.Code), strangerRows
	if own {
		rows = nodeRows
	}
	e, keep := p.denialEvidence(r, store.NodeEnrollDenied, in.NodeID, in.NodeInstanceID, denial, rows)
	e.Detail["node_instance_id"] = web.Clipped(in.NodeInstanceID)
	p.keepDenial(ctx, e, denial.Code, own, keep)
	p.failed(ctx, store.Audit{AuditKey: store.AuditKey{ActorType: actorNode, ActorID: p.knownNode(ctx, in.NodeID),
		Action: actionEnroll, Reason: denial.Code},
		NodeID: in.NodeID, Remote: web.Remote(r)})
	p.metrics.add("enrollments_denied_total", "reason", denial.Code)
}

// recoveryToken mints a node-bound enrollment token with a purpose. It returns the row to store, and the text,
// which is not stored.
func (p *Platform) recoveryToken(n store.Node, now time.Time) (store.Token, diag.Secret, error) {
	row := store.Token{NodeID: n.ID, Profile: p.profileOf(n), IssuedAt: now,
		ExpiresAt: now.Add(seconds(p.cfg.Policy.RecoveryTokenMaxAge))}
	text, err := wire.Token(wire.TokenClaims{NodeID: n.ID, Profile: row.Profile, IssuedAt: now.UTC(),
		ExpiresAt: row.ExpiresAt.UTC()}, newToken().Reveal())
	if err != nil {
		return store.Token{}, diag.Secret{}, err
	}
	row.Digest = store.Digest(text)
	return row, diag.NewSecret(text), nil
}

// profileOf returns the environment profile that is active for a node: its own, else the platform's; "" means any.
func (p *Platform) profileOf(n store.Node) string {
	return cmp.Or(n.EnvironmentProfile, p.cfg.EnvironmentProfile)
}

// activeProfile is profileOf for a node id; for an unknown node it returns the platform's.
func (p *Platform) activeProfile(ctx context.Context, nodeID string) string {
	n, err := p.store.Node(ctx, nodeID)
	if err != nil {
		return p.cfg.EnvironmentProfile
	}
	return p.profileOf(n)
}
