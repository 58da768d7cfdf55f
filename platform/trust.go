package platform

import (
	"context"

	"github.com/gpuaas/gpuaasctl/platform/store"
)

// checkTrust says loudly, at the start and whenever it changes, that the node ingress does not trust the CA that signs
// node certificates. Only one caller at a time: the start, then the sweep.
func (p *Platform) checkTrust(ctx context.Context) {
	t := p.pki.trust()
	for _, e := range t.Errors {
		p.log.Error("trust check", "error", e)
	}
	if t.IngressTrustsSigningCA == nil {
		return
	}
	mismatch := !*t.IngressTrustsSigningCA
	if mismatch == p.mistrusted {
		return
	}
	kind := store.TrustRestored
	if mismatch {
		kind = store.TrustMismatch
		p.log.Error("node ingress does not trust the signing CA: it will reject every certificate issued now; repair that before any node is enrolled again",
			"signing_ca", t.SigningCA, "ingress_cas", t.IngressCAs)
	} else {
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
