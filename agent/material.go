package agent

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Material holds the findings of one self-check. judge interprets them.
type Material struct {
	Files   string  // changes when one of the files changes
	Problem Outcome // why the pair cannot be used: cert_missing, cert_key_mismatch; no reason if it can
	Trust   Outcome // why the bundle cannot be used
	Spare   string  // the generation that could replace a damaged one
	Never   bool    // this node never had a certificate

	Names               []string // from the certificate: common name and DNS names
	NotBefore, NotAfter time.Time
	Serial              string // lower-case hex
	Issuer              string // sha256 of the issuing CA, lower-case hex; "" if the node does not know it
	IssuerProblem       string // why the chain next to the certificate cannot be right

	Generation int64
	Profile    string // as of the last enrollment
	HandedOut  string // the API URL in the response to the last enrollment

	Token    TokenFacts
	Bundle   string // digest of the trust bundle
	Recovery string // digest of the recovery trust bundle
	Apart    bool   // the recovery path differs from the runtime's
}

// operator fingerprints everything that an operator can change to lift a suppression.
func (m *Material) operator() string {
	return strings.Join([]string{m.Token.Digest, m.Bundle, m.Recovery, m.Serial}, ",")
}

// judge returns the problem with the credential, before any request to the platform. sure is false if only this
// node's own clock speaks for it. A skewed clock is reported before its effect on the dates.
func (m *Material) judge(node string, c Clocks) (o Outcome, sure bool) {
	bound := slices.Contains(m.Names, node)
	own, platform := m.dated(c.Own), m.dated(c.Platform())
	sure = true
	switch {
	case !m.Problem.OK():
		o = m.Problem
	case !bound:
		o.Reason, o.Failure = diag.RecIdentityRejected, diag.FileMismatch
		o.Detail = "the certificate is for " + strings.Join(m.Names, ", ") + "; expected " + node
	case own == diag.RecCertNotYetValid && !c.Known:
		// No certificate is issued for a later time, so the clock is behind.
		o.Reason, o.Failure = diag.RecClockSkew, diag.ClockSkew
		o.Detail = "the certificate begins at " + formatTime(m.NotBefore) + " and was issued already; this clock says " +
			formatTime(c.Own)
	case own != platform && platform != diag.RecCertExpired:
		o.Reason, o.Failure = diag.RecClockSkew, diag.ClockSkew
		o.Detail = "the certificate is good from " + formatTime(m.NotBefore) + " to " + formatTime(m.NotAfter) +
			"; this clock says " + formatTime(c.Own) + ", the platform's " + formatTime(c.Platform())
	case platform == diag.RecCertExpired:
		o.Reason, o.Failure, sure = platform, diag.MTLSCertExpired, c.Known
		o.Detail = "the certificate ended at " + formatTime(m.NotAfter) + "; the time is " + formatTime(c.Platform())
	case platform == diag.RecCertNotYetValid:
		o.Reason, o.Failure = platform, diag.MTLSCertNotYetValid
		o.Detail = "the certificate begins at " + formatTime(m.NotBefore) + "; the time is " + formatTime(c.Platform())
	}
	return o, sure
}

func (m *Material) dated(at time.Time) diag.RecordReason {
	switch {
	case at.Before(m.NotBefore):
		return diag.RecCertNotYetValid
	case at.After(m.NotAfter):
		return diag.RecCertExpired
	}
	return ""
}

// renewAt is the start of the last third of the certificate's lifetime.
func (m *Material) renewAt() time.Time {
	return m.NotAfter.Add(-m.NotAfter.Sub(m.NotBefore) / 3)
}

// drifted describes the difference between the URL that this agent uses and the one in the response to the last
// enrollment; "" if there is none, or no URL was returned.
func (m *Material) drifted(running string) string {
	a, err1 := url.Parse(running)
	b, err2 := url.Parse(m.HandedOut)
	if err1 != nil || err2 != nil || m.HandedOut == "" || strings.EqualFold(a.Host, b.Host) {
		return ""
	}
	return fmt.Sprintf("this agent runs with %s; the last enrollment handed out %s", a.Host, b.Host)
}

// TokenFacts is what is known about an enrollment token without a request, without the token itself.
type TokenFacts struct {
	Digest string // 16 hex digits of its sha256, to distinguish tokens; "" without a token
	Typed  bool   // it carries its purpose
	Claims wire.TokenClaims
}

func tokenFacts(token diag.Secret) TokenFacts {
	if token.IsZero() {
		return TokenFacts{}
	}
	f := TokenFacts{Digest: fmt.Sprintf("%.8x", sha256.Sum256([]byte(token.Reveal())))}
	f.Claims, f.Typed = wire.ParseToken(token.Reveal())
	return f
}

// Clocks holds this node's clock and its offset to the platform's.
type Clocks struct {
	Own   time.Time
	Skew  time.Duration // the platform's clock minus this one
	Known bool          // whether Skew was ever measured
}

// Platform returns the platform's time, or this node's if the offset is unknown or small.
func (c Clocks) Platform() time.Time {
	if c.Skew.Abs() <= maxSkew {
		return c.Own
	}
	return c.Own.Add(c.Skew)
}

// timeText is the format of times in messages.
const timeText = "2006-01-02 15:04:05Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeText) }

// refusal returns why a token may not be used for node in profile ("" for any); the zero Outcome means that it
// may. A node that never had a certificate may use a token without claims.
func (f *TokenFacts) refusal(c Clocks, node, profile string, never bool) Outcome {
	var o Outcome
	switch platform, ends := c.Platform(), f.Claims.ExpiresAt; {
	case f.Digest == "":
		o.Reason, o.Detail = diag.RecRecoveryTokenMissing, "no token; expected one for node "+node
	case !f.Typed && never:
	case !f.Typed:
		o.Reason, o.Detail = diag.RecRecoveryTokenMissing, "the token does not say for what it is; expected one for node "+
			node
	case f.Claims.NodeID != node:
		o.Reason, o.Detail = diag.RecRecoveryEnrollmentBlocked,
			fmt.Sprintf("the token is for node %q; expected %s", f.Claims.NodeID, node)
	case profile != "" && f.Claims.Profile != profile:
		o.Reason, o.Detail = diag.RecRecoveryEnrollmentBlocked,
			fmt.Sprintf("the token is for profile %q; expected %s", f.Claims.Profile, profile)
	case !c.Own.Before(ends) && platform.Before(ends):
		o.Reason = diag.RecClockSkew
		o.Detail = "the token is good until " + formatTime(ends) +
			" by the platform's clock, and ended by this one, which says " +
			formatTime(c.Own)
	case !c.Own.Before(ends):
		o.Reason, o.Detail = diag.RecRecoveryTokenExpired,
			"the token ended at "+formatTime(ends)+"; this clock says "+formatTime(c.Own)
	case !platform.Before(ends):
		o.Reason, o.Detail = diag.RecRecoveryTokenExpired,
			"the token ended at "+formatTime(ends)+"; the platform's clock says "+
				formatTime(platform)
	}
	return o
}
