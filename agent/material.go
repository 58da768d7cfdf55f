package agent

import (
	"fmt"
	"net/url"
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
func (m Material) operator() string {
	return strings.Join([]string{m.Token.Digest, m.Bundle, m.Recovery, m.Serial}, ",")
}

// judge says what is wrong with the credential, before the platform is asked. sure is false where only this node's own
// clock stands against it. A skewed clock is named before anything that it makes of the dates.
func (m Material) judge(node string, c Clocks) (o Outcome, sure bool) {
	bound := false
	for _, name := range m.Names {
		bound = bound || name == node
	}
	own, platform := m.dated(c.Own), m.dated(c.Platform())
	skew := Outcome{Reason: diag.RecClockSkew, Failure: diag.ClockSkew}
	switch {
	case !m.Problem.OK():
		return m.Problem, true
	case !bound:
		return Outcome{Reason: diag.RecIdentityRejected, Failure: diag.FileMismatch,
			Detail: fmt.Sprintf("the certificate is for %s; expected %s", strings.Join(m.Names, ", "), node)}, true
	case own == diag.RecCertNotYetValid && !c.Known:
		// Nobody issues certificates for later: it is the clock that is behind.
		skew.Detail = fmt.Sprintf("the certificate begins at %s and was issued already; this clock says %s", said(m.NotBefore), said(c.Own))
		return skew, true
	case own != platform && platform != diag.RecCertExpired:
		skew.Detail = fmt.Sprintf("the certificate is good from %s to %s; this clock says %s, the platform's %s",
			said(m.NotBefore), said(m.NotAfter), said(c.Own), said(c.Platform()))
		return skew, true
	case platform == diag.RecCertExpired:
		return Outcome{Reason: platform, Failure: diag.MTLSCertExpired,
			Detail: fmt.Sprintf("the certificate ended at %s; the time is %s", said(m.NotAfter), said(c.Platform()))}, c.Known
	case platform == diag.RecCertNotYetValid:
		return Outcome{Reason: platform, Failure: diag.MTLSCertNotYetValid,
			Detail: fmt.Sprintf("the certificate begins at %s; the time is %s", said(m.NotBefore), said(c.Platform()))}, true
	}
	return Outcome{}, true
}

func (m Material) dated(at time.Time) diag.RecordReason {
	switch {
	case at.Before(m.NotBefore):
		return diag.RecCertNotYetValid
	case at.After(m.NotAfter):
		return diag.RecCertExpired
	}
	return ""
}

// renewAt is when the last third of the certificate's life begins.
func (m Material) renewAt() time.Time {
	return m.NotAfter.Add(-m.NotAfter.Sub(m.NotBefore) / 3)
}

// drifted says how the URL that this agent runs with differs from what the last enrollment handed out; "" when it does
// not, or nothing was handed out.
func (m Material) drifted(running string) string {
	a, err1 := url.Parse(running)
	b, err2 := url.Parse(m.HandedOut)
	if err1 != nil || err2 != nil || m.HandedOut == "" || strings.EqualFold(a.Host, b.Host) {
		return ""
	}
	return fmt.Sprintf("this agent runs with %s; the last enrollment handed out %s", a.Host, b.Host)
}
