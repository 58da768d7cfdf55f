package agent

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/credstore"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
)

// enrollment is one attempt: its path and its token.
type enrollment struct {
	cfg      Config
	creds    credentials
	instance string
	profile  string
	token    diag.Secret
	recovery bool
}

// run requests a certificate with the node-bound token and stores the response as a new generation. The key is
// generated here and never leaves this node. room reports whether the reserve was needed on a full disk.
func (e enrollment) run(ctx context.Context) (o Outcome, room bool) {
	var key crypto.Signer
	var text []byte
	room, err := withReserve(e.cfg.Reserve, func() (err error) {
		key, text, err = e.creds.Key(time.Now())
		return err
	})
	if err != nil {
		return blockedBy(err), room
	}
	csr, err := certificateRequest(e.cfg.NodeID, key)
	if err != nil {
		return blockedBy(err), room
	}
	var answer wire.EnrollResponse
	o = e.ask(ctx, csr, &answer)
	if !o.OK() {
		return o, room
	}
	if err := usable(answer, key, e.cfg.NodeID); err != nil {
		o.Reason, o.Failure, o.Detail = diag.RecRecoveryEnrollmentBlocked, diag.FileMismatch, scrubbed(err)
		return o, room
	}
	note := e.trust(ctx, &answer)
	more, err := withReserve(e.cfg.Reserve, func() error { return e.keep(answer, text) })
	room = room || more
	if err != nil {
		b := blockedBy(err)
		o.Reason, o.Failure, o.Detail = b.Reason, b.Failure, b.Detail
		return o, room
	}
	o.Detail = fmt.Sprintf("generation %d", answer.Generation) + note
	if answer.APIURL != "" && answer.APIURL != e.cfg.APIURL.String() {
		o.Detail += ", the platform names another API URL: " + answer.APIURL
	}
	return o, room
}

// ask makes the exchange. A refusal that does not concern this node's identity is reported as a blocked
// enrollment.
func (e enrollment) ask(ctx context.Context, csr string, answer *wire.EnrollResponse) Outcome {
	a := bareAPI(e.cfg, e.creds, e.instance, e.recovery)
	defer a.close()
	o := a.do(ctx, call{method: http.MethodPost, path: wire.PathEnroll, token: e.token, out: answer,
		in:      wire.EnrollRequest{NodeID: e.cfg.NodeID, NodeInstanceID: e.instance, CSR: csr, Profile: e.profile},
		timeout: enrollTimeout, fallback: diag.RecRecoveryEnrollmentBlocked})
	r, typed := enrollDenials[o.Code]
	aboutNode := r == diag.RecIdentityRevoked || r == diag.RecClonedIdentity
	switch {
	case typed && aboutNode && !o.Asked: // a public edge cannot revoke an identity
		o.Reason, o.Failure = diag.RecEndpointProfileDrift, diag.MTLSNotRequested
	case typed && (o.Status == 401 || o.Status == 403):
		o.Reason = r
	case o.Reason == diag.RecIdentityRejected:
		o.Reason = diag.RecRecoveryEnrollmentBlocked
	}
	return o
}

// enrollDenials are the typed denials that an enrollment may get.
var enrollDenials = map[string]diag.RecordReason{
	wire.DenyRevoked:         diag.RecIdentityRevoked,
	wire.DenyFenced:          diag.RecIdentityRevoked,
	wire.DenyRetired:         diag.RecIdentityRevoked,
	wire.DenyCloned:          diag.RecClonedIdentity,
	wire.DenyProfileMismatch: diag.RecEndpointProfileDrift,
	wire.DenyTokenExpired:    diag.RecRecoveryTokenExpired,
	wire.DenyTokenConsumed:   diag.RecRecoveryEnrollmentBlocked,
	wire.DenyNotNodeBound:    diag.RecRecoveryEnrollmentBlocked,
}

// blockedBy returns the outcome of an enrollment that failed on this node's disk.
func blockedBy(err error) Outcome {
	if full(err) {
		return Outcome{Reason: diag.RecDiskFull, Failure: diag.DiskFull, Detail: scrubbed(err)}
	}
	return Outcome{Reason: diag.RecRecoveryEnrollmentBlocked, Failure: diag.FileUnreadable, Detail: scrubbed(err)}
}

// certificateRequest returns a PEM-encoded certificate request.
func certificateRequest(node string, key crypto.Signer) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: node}}, key)
	if err != nil {
		return "", fmt.Errorf("make a certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// usable checks the platform's response before it replaces anything on disk.
func usable(answer wire.EnrollResponse, key crypto.Signer, node string) error {
	certs := parseCerts([]byte(answer.Certificate))
	// every public key type of the standard library has this method
	public, _ := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	switch {
	case len(certs) == 0:
		return errors.New("the platform's answer holds no certificate")
	case public == nil || !public.Equal(certs[0].PublicKey):
		return errors.New("the platform's certificate is for another key")
	case !slices.Contains(names(certs[0]), node):
		return fmt.Errorf("the platform's certificate is for %s", strings.Join(names(certs[0]), ", "))
	case answer.CABundle != "" && len(parseCerts([]byte(answer.CABundle))) == 0:
		return errors.New("the platform's trust bundle holds no certificate")
	}
	return nil
}

// trust drops the bundle of the response if the existing one verifies the runtime listener and the new one does
// not: the new one would cut the node off after its token is spent. It returns a note if it did.
func (e enrollment) trust(ctx context.Context, answer *wire.EnrollResponse) (note string) {
	old, _ := os.ReadFile(e.creds.Path(fileBundle))
	if answer.CABundle == "" || answer.CABundle == string(old) || e.verifies(ctx, []byte(answer.CABundle)) ||
		!e.verifies(ctx, old) {
		return ""
	}
	answer.CABundle = ""
	return ", the trust bundle here is kept: the platform's own does not cover its listener"
}

// verifies reports whether bundle verifies the runtime listener's certificate.
func (e enrollment) verifies(ctx context.Context, bundle []byte) bool {
	d := dialer{creds: e.creds, dial: e.cfg.Dial, bare: true, pool: x509.NewCertPool()}
	if !d.pool.AppendCertsFromPEM(bundle) {
		return false
	}
	port := cmp.Or(e.cfg.APIURL.Port(), "443")
	c, err := d.DialTLS(ctx, "tcp", net.JoinHostPort(e.cfg.APIURL.Hostname(), port))
	if err != nil {
		return false
	}
	_ = c.Close() // only the handshake was needed
	return true
}

// keep stores the response as a new generation. If it has no bundle, the existing bundle stays.
func (e enrollment) keep(answer wire.EnrollResponse, key []byte) error {
	set := credstore.Set{Cert: []byte(answer.Certificate), Key: key, Bundle: []byte(answer.CABundle), Meta: credstore.Meta{
		Generation: answer.Generation, Profile: answer.Profile, APIURL: answer.APIURL, TerminalURL: answer.TerminalURL,
		IssuedAt: time.Now().UTC(), Origin: "enrolled",
	}}
	if len(set.Bundle) == 0 {
		set.Bundle, _ = os.ReadFile(e.creds.Path(fileBundle))
	}
	_, err := e.creds.Put(set)
	return err
}

// token returns the current enrollment token: the one in the environment file if that has changed since the
// process was started, otherwise the process's own. So a rotated token needs no restart.
func (r *runtime) token() diag.Secret {
	if token, changed := tokenIn(r.cfg.EnvFile, r.envSeen); changed {
		return token
	}
	return r.cfg.Token
}

// tokenIn returns the token in an environment file, if the file can be read and has changed since the stamp seen.
func tokenIn(envFile, seen string) (token diag.Secret, changed bool) {
	if stamp(envFile) == seen {
		return token, false
	}
	text, err := os.ReadFile(envFile)
	if err != nil {
		return token, false
	}
	return diag.NewSecret(hostprobe.ParseEnvFile(string(text))[KeyToken]), true
}

// enroll makes one attempt, if it can be written to the ledger first: a crash loop must not lose count of its
// attempts.
func (r *runtime) enroll(e Enroll) {
	token := r.token()
	if last := e.Ledger.Attempts[len(e.Ledger.Attempts)-1]; tokenFacts(token).Digest != last.Token {
		r.background(func() What {
			return EnrollDone{Outcome: Outcome{Reason: diag.RecRecoveryEnrollmentBlocked,
				Detail: "not tried: since it was looked at, another token was put in its place"}}
		})
		return
	}
	if err := r.ledger.save(e.Ledger, r.cfg.Reserve); err != nil {
		o := blockedBy(err)
		o.Detail = "not tried: " + o.Detail
		r.background(func() What { return EnrollDone{Outcome: o} })
		return
	}
	r.background(func() What {
		attempt := enrollment{cfg: r.cfg, creds: r.creds, instance: r.node.instance, profile: e.Profile, token: token,
			recovery: e.Recovery}
		// a stop waits briefly for it: a certificate that was issued but not stored would have to be requested again
		o, room := attempt.run(r.posts)
		return EnrollDone{Outcome: o, Room: room}
	})
}

// askClock asks the node API for its time, by the runtime path and then by the recovery path.
func (r *runtime) askClock() Outcome {
	var o Outcome
	for _, recovery := range [...]bool{false, true} {
		a := bareAPI(r.cfg, r.creds, r.node.instance, recovery)
		o = a.askClock(r.work)
		a.close()
		if o.Dated || (r.cfg.RecoveryURL == nil && r.cfg.RecoveryCA == "") {
			break
		}
	}
	return o
}

func (r *runtime) fallBack() (o Outcome) {
	_, err := withReserve(r.cfg.Reserve, func() error {
		_, err := r.creds.RollBack(good(r.cfg.NodeID, time.Now()))
		return err
	})
	if err != nil {
		o = blockedBy(err)
	}
	return o
}
