package platform

import (
	"context"

	"github.com/gpuaas/gpuaasctl/platform/store"
)

// recallTrust takes over what the process before this one said of the trust, so that a repair by a restart is said, too.
func (p *Platform) recallTrust(ctx context.Context) error {
	var newest [2]int64
	for i, kind := range []string{store.TrustRestored, store.TrustMismatch} {
		rows, err := p.store.Recent(ctx, kind, 1)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			newest[i] = rows[0].At.UnixMilli()
		}
	}
	p.mistrusted = newest[1] > newest[0]
	return nil
}

// checkTrust says loudly, at each start and whenever it changes, that the node ingress does not trust the CA that signs
// node certificates. Only one caller at a time: the start, then the sweep.
func (p *Platform) checkTrust(ctx context.Context, starting bool) {
	t := p.pki.trust()
	for _, e := range t.Errors {
		p.log.Error("trust check", "error", e)
	}
	if t.IngressTrustsSigningCA == nil {
		return
	}
	mismatch := !*t.IngressTrustsSigningCA
	if mismatch && (starting || !p.mistrusted) {
		p.log.Error("node ingress does not trust the signing CA: it will reject every certificate issued now; repair that before any node is enrolled again",
			"signing_ca", t.SigningCA, "ingress_cas", t.IngressCAs)
	}
	if mismatch == p.mistrusted {
		return
	}
	kind := store.TrustMismatch
	if !mismatch {
		kind = store.TrustRestored
		p.log.Info("node ingress trusts the signing CA again", "signing_ca", t.SigningCA)
	}
	err := p.store.Record(ctx, store.Evidence{At: p.now(), Kind: kind, CorrelationID: store.NewID("trust-"),
		Detail: map[string]any{"signing_ca": t.SigningCA, "ingress_cas": t.IngressCAs}})
	if err != nil {
		p.log.Error("record evidence", "error", err) // and again at the next look
		return
	}
	p.mistrusted = mismatch
}
