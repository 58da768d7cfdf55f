package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	netprobe "github.com/gpuaas/gpuaasctl/preflight/probe/net"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// retryPolicy sets the delay before a retry. The cap is a multiple of the heartbeat interval, so that an
// environment with a shorter interval also recovers sooner.
type retryPolicy struct {
	base         time.Duration
	capIntervals int
}

// defaultRetry is for failures that resolve by themselves, such as a network outage or an API restart.
var defaultRetry = retryPolicy{base: 500 * time.Millisecond, capIntervals: 2}

// slowRetry is for enrollments. Each attempt costs two ledger writes, and a platform that returns after a day must
// not be hit by all of its nodes at once.
var slowRetry = retryPolicy{base: 5 * time.Second, capIntervals: 20}

// retryPolicies are for failures that need an operator, or that frequent retries make worse.
var retryPolicies = map[diag.RecordReason]retryPolicy{
	diag.RecServerTLSUntrusted:        {2 * time.Second, 4},
	diag.RecEndpointProfileDrift:      {5 * time.Second, 8},
	diag.RecIdentityRejected:          {2 * time.Second, 8},
	diag.RecIdentityRevoked:           {5 * time.Second, 20},
	diag.RecClonedIdentity:            {5 * time.Second, 20},
	diag.RecEdgeRateLimited:           {5 * time.Second, 8},
	diag.RecCertExpired:               {2 * time.Second, 8},
	diag.RecCertNotYetValid:           {2 * time.Second, 8},
	diag.RecCertKeyMismatch:           {2 * time.Second, 8},
	diag.RecCertMissing:               {2 * time.Second, 8},
	diag.RecRecoveryTokenMissing:      {5 * time.Second, 8},
	diag.RecRecoveryTokenExpired:      {5 * time.Second, 20},
	diag.RecRecoveryEnrollmentBlocked: {5 * time.Second, 20},
	diag.RecClockSkew:                 {5 * time.Second, 20},
	diag.RecRecoverySuppressed:        {5 * time.Second, 20},
}

// maxRetryAfter bounds Retry-After: one response cannot silence a node for longer.
const maxRetryAfter = time.Hour

// stableIntervals is the number of heartbeat intervals without a failure after which the agent resets its
// attempts. A single success does not reset them, or a flapping endpoint would get as many requests as a healthy
// one.
const stableIntervals = 2

// Backoff counts attempts per reason. It is a value: its methods return the next one.
type Backoff struct {
	Attempts  map[diag.RecordReason]int
	Good      bool
	GoodSince time.Duration
}

// Succeeded notes a success at the given time and resets all attempts once successes have lasted for stable.
func (b Backoff) Succeeded(at, stable time.Duration) Backoff {
	if !b.Good {
		b.Good, b.GoodSince = true, at
	}
	if at-b.GoodSince >= stable {
		b.Attempts = nil
	}
	return b
}

// Failed notes a failure. The ceiling never decreases between attempts for the same reason. The delay is drawn
// below it by roll in [0,1) (full jitter, at least a tenth of the ceiling) and is never shorter than Retry-After.
func (b Backoff) Failed(o Outcome, interval time.Duration,
	roll float64) (next Backoff, attempt int, delay, ceiling time.Duration) {
	b.Good = false
	b.Attempts = maps.Clone(b.Attempts)
	if b.Attempts == nil {
		b.Attempts = map[diag.RecordReason]int{}
	}
	b.Attempts[o.Reason]++
	attempt = b.Attempts[o.Reason]
	p, ok := retryPolicies[o.Reason]
	switch {
	case o.Slow:
		p = slowRetry
	case !ok:
		p = defaultRetry
	}
	limit := time.Duration(p.capIntervals) * interval
	ceiling = p.base
	for i := 1; i < attempt && ceiling < limit; i++ {
		ceiling *= 2
	}
	ceiling = min(ceiling, limit)
	floor := ceiling / 10
	delay = floor + time.Duration(roll*float64(ceiling-floor))
	return b, attempt, delay + min(max(o.RetryAfter, 0), maxRetryAfter), ceiling
}

// failureWord classifies an exchange that got no response. A missing file is a credential: no request was sent in
// that case.
func failureWord(ctx context.Context, err error) diag.Failure {
	if errors.Is(err, fs.ErrNotExist) {
		return diag.FileMissing
	}
	return netprobe.ClassifyExchange(ctx, err)
}

// denials maps each typed denial to the reason in the record.
var denials = map[string]diag.RecordReason{
	wire.DenyExpired:         diag.RecCertExpired,
	wire.DenyNotNodeBound:    diag.RecIdentityRejected,
	wire.DenyRevoked:         diag.RecIdentityRevoked,
	wire.DenyFenced:          diag.RecIdentityRevoked,
	wire.DenyRetired:         diag.RecIdentityRevoked,
	wire.DenyCloned:          diag.RecClonedIdentity,
	wire.DenyProfileMismatch: diag.RecEndpointProfileDrift,
	wire.DenyTokenExpired:    diag.RecRecoveryTokenExpired,
	wire.DenyTokenConsumed:   diag.RecRecoveryEnrollmentBlocked,
}

// reasonFor returns the record's reason for a failed exchange. fallback is the loop's own reason, used when the
// response names no cause; asked reports whether the listener ever requested this node's certificate.
func reasonFor(o Outcome, asked bool, local func(time.Time) diag.RecordReason, now time.Time,
	fallback diag.RecordReason) diag.RecordReason {
	switch w := o.Failure; {
	case strings.HasPrefix(string(w), "dns_"):
		return diag.RecDNSFailed
	case w == diag.TLSUnknownCA, w == diag.TLSExpired, w == diag.TLSNotYetValid, w == diag.TLSNameMismatch:
		return diag.RecServerTLSUntrusted
	case w == diag.HTTPRateLimited:
		return diag.RecEdgeRateLimited
	case w == diag.MTLSNotRequested:
		return diag.RecEndpointProfileDrift
	case strings.HasPrefix(string(w), "mtls_"):
		if r := local(now); r != "" { // the refusal names no cause; the certificate itself may show it
			return r
		}
		return diag.RecIdentityRejected
	case o.Status == 401 || o.Status == 403:
		if r, ok := denials[o.Code]; ok && (asked || o.Code == wire.DenyTokenExpired || o.Code == wire.DenyTokenConsumed) {
			return r
		}
		if o.Code == "" { // not from the platform: something in between refused the request
			return fallback
		}
		return diag.RecIdentityRejected
	case o.Status != 0:
		return fallback
	case w == diag.FileMissing:
		return diag.RecServerTLSUntrusted // the trust bundle: a missing certificate is found before any request is sent
	}
	return diag.RecAPIUnreachable
}

// scrubbed returns err's text without URL queries and without anything that looks like a secret.
func scrubbed(err error) string { return scrub.Text(err.Error()) }
