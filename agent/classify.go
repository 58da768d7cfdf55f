package agent

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/wire"
)

// failureWord names why an exchange brought no answer. A file that is missing is a credential: nothing was sent then.
func failureWord(ctx context.Context, err error) diag.Failure {
	if errors.Is(err, fs.ErrNotExist) {
		return diag.FileMissing
	}
	return probe.ClassifyExchange(ctx, err)
}

// denials gives the record's reason of each typed denial.
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

// reasonFor gives the record's reason of an exchange that failed. fallback is the loop's own reason, for answers
// that say nothing about why; asked says whether the listener ever asked for this node's certificate.
func reasonFor(o Outcome, asked bool, local func(time.Time) diag.RecordReason, now time.Time, fallback diag.RecordReason) diag.RecordReason {
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
		if r := local(now); r != "" { // what refused does not say why; the certificate itself may
			return r
		}
		return diag.RecIdentityRejected
	case o.Status == 401 || o.Status == 403:
		if r, ok := denials[o.Code]; ok && (asked || o.Code == wire.DenyTokenExpired || o.Code == wire.DenyTokenConsumed) {
			return r
		}
		if o.Code == "" { // nobody's word: a refusal by something in between
			return fallback
		}
		return diag.RecIdentityRejected
	case o.Status != 0:
		return fallback
	case w == diag.FileMissing:
		return diag.RecServerTLSUntrusted // the trust bundle; a missing certificate is found before anything is asked
	}
	return diag.RecAPIUnreachable
}

// scrubbed is err in its own words, without URLs' queries and without what looks like a secret.
func scrubbed(err error) string { return probe.Scrub(err.Error()) }
