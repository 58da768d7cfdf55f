package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// TokenFacts is what can be known of an enrollment token without asking anybody, and without the token.
type TokenFacts struct {
	Digest string // 16 hex digits of its sha256, to tell tokens apart; "" when there is none
	Typed  bool   // it says what it is for
	Claims wire.TokenClaims
}

func tokenFacts(token diag.Secret) TokenFacts {
	if token.IsZero() {
		return TokenFacts{}
	}
	sum := sha256.Sum256([]byte(token.Reveal()))
	f := TokenFacts{Digest: hex.EncodeToString(sum[:8])}
	f.Claims, f.Typed = wire.ParseToken(token.Reveal())
	return f
}

// Clocks are this node's clock and what is known of the platform's.
type Clocks struct {
	Own   time.Time
	Skew  time.Duration // the platform's clock minus this one
	Known bool          // whether Skew was ever measured
}

// Platform is the platform's time; this node's where nothing is known, or the two agree.
func (c Clocks) Platform() time.Time {
	if c.Skew.Abs() <= maxSkew {
		return c.Own
	}
	return c.Own.Add(c.Skew)
}

// timeText is how times stand in sentences.
const timeText = "2006-01-02 15:04:05Z"

func said(t time.Time) string { return t.UTC().Format(timeText) }

// refusal says why a token may not be used for node in profile ("" for any); the zero Outcome means that it is current.
// A node that never had a certificate may use a token that says nothing of itself.
func (f *TokenFacts) refusal(c Clocks, node, profile string, never bool) Outcome {
	var o Outcome
	switch platform, ends := c.Platform(), f.Claims.ExpiresAt; {
	case f.Digest == "":
		o.Reason, o.Detail = diag.RecRecoveryTokenMissing, "no token; expected one for node "+node
	case !f.Typed && never:
	case !f.Typed:
		o.Reason, o.Detail = diag.RecRecoveryTokenMissing, "the token does not say for what it is; expected one for node "+node
	case f.Claims.NodeID != node:
		o.Reason, o.Detail = diag.RecRecoveryEnrollmentBlocked, fmt.Sprintf("the token is for node %q; expected %s", f.Claims.NodeID, node)
	case profile != "" && f.Claims.Profile != profile:
		o.Reason, o.Detail = diag.RecRecoveryEnrollmentBlocked, fmt.Sprintf("the token is for profile %q; expected %s", f.Claims.Profile, profile)
	case !c.Own.Before(ends) && platform.Before(ends):
		o.Reason = diag.RecClockSkew
		o.Detail = "the token is good until " + said(ends) + " by the platform's clock, and ended by this one, which says " + said(c.Own)
	case !c.Own.Before(ends):
		o.Reason, o.Detail = diag.RecRecoveryTokenExpired, "the token ended at "+said(ends)+"; this clock says "+said(c.Own)
	case !platform.Before(ends):
		o.Reason, o.Detail = diag.RecRecoveryTokenExpired, "the token ended at "+said(ends)+"; the platform's clock says "+said(platform)
	}
	return o
}
