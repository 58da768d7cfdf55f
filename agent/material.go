package agent

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Material is what one self-check found on this node: facts. judge says what they mean.
type Material struct {
	Files   string  // changes when one of the files changes
	Problem Outcome // why the pair cannot be used at all: cert_missing, cert_key_mismatch; no reason when it can
	Trust   Outcome // why the bundle cannot be used at all
	Spare   string  // the generation that could take a damaged one's place
	Never   bool    // this node never had a certificate

	Names               []string // the certificate's own: common name, and DNS names
	NotBefore, NotAfter time.Time
	Serial              string // lower-case hex
	Issuer              string // sha256 of the issuing CA, lower-case hex; "" where the node does not know it
	IssuerProblem       string // why the chain beside the certificate cannot be right

	Generation int64
	Profile    string // as the last enrollment said
	HandedOut  string // the API URL that the last enrollment handed out

	Token    TokenFacts
	Bundle   string // digest of the trust bundle
	Recovery string // digest of the recovery trust bundle
	Apart    bool   // the recovery path is another one than the runtime's
}

// operator names everything that an operator can change to lift a suppression.
func (m *Material) operator() string {
	return strings.Join([]string{m.Token.Digest, m.Bundle, m.Recovery, m.Serial}, ",")
}

// judge says what is wrong with the credential, before the platform is asked. sure is false where only this node's own
// clock stands against it. A skewed clock is named before anything that it makes of the dates.
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
		// Nobody issues certificates for later: it is the clock that is behind.
		o.Reason, o.Failure = diag.RecClockSkew, diag.ClockSkew
		o.Detail = "the certificate begins at " + said(m.NotBefore) + " and was issued already; this clock says " + said(c.Own)
	case own != platform && platform != diag.RecCertExpired:
		o.Reason, o.Failure = diag.RecClockSkew, diag.ClockSkew
		o.Detail = "the certificate is good from " + said(m.NotBefore) + " to " + said(m.NotAfter) +
			"; this clock says " + said(c.Own) + ", the platform's " + said(c.Platform())
	case platform == diag.RecCertExpired:
		o.Reason, o.Failure, sure = platform, diag.MTLSCertExpired, c.Known
		o.Detail = "the certificate ended at " + said(m.NotAfter) + "; the time is " + said(c.Platform())
	case platform == diag.RecCertNotYetValid:
		o.Reason, o.Failure = platform, diag.MTLSCertNotYetValid
		o.Detail = "the certificate begins at " + said(m.NotBefore) + "; the time is " + said(c.Platform())
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

// renewAt is when the last third of the certificate's life begins.
func (m *Material) renewAt() time.Time {
	return m.NotAfter.Add(-m.NotAfter.Sub(m.NotBefore) / 3)
}

// drifted says how the URL that this agent runs with differs from what the last enrollment handed out; "" when it does
// not, or nothing was handed out.
func (m *Material) drifted(running string) string {
	a, err1 := url.Parse(running)
	b, err2 := url.Parse(m.HandedOut)
	if err1 != nil || err2 != nil || m.HandedOut == "" || strings.EqualFold(a.Host, b.Host) {
		return ""
	}
	return fmt.Sprintf("this agent runs with %s; the last enrollment handed out %s", a.Host, b.Host)
}
