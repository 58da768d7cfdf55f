package platform

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/wire"
)

// recoveryToken mints a node-bound enrollment token that says what it is for: the row to store, and the text, which
// is said once.
func (p *Platform) recoveryToken(n store.Node, now time.Time) (store.Token, diag.Secret, error) {
	row := store.Token{NodeID: n.ID, Profile: p.profileOf(n), IssuedAt: now, ExpiresAt: now.Add(seconds(p.cfg.Policy.RecoveryTokenMaxAge))}
	text, err := wire.Token(wire.TokenClaims{NodeID: n.ID, Profile: row.Profile, IssuedAt: now.UTC(), ExpiresAt: row.ExpiresAt.UTC()}, newToken().Reveal())
	if err != nil {
		return store.Token{}, diag.Secret{}, err
	}
	row.Digest = store.Digest(text)
	return row, diag.NewSecret(text), nil
}

// profileOf is the environment profile that is active for a node: its own, else the platform's; "" is any.
func (p *Platform) profileOf(n store.Node) string {
	if n.EnvironmentProfile != "" {
		return n.EnvironmentProfile
	}
	return p.cfg.EnvironmentProfile
}

// activeProfile is profileOf by id; of a node that does not exist it is the platform's.
func (p *Platform) activeProfile(ctx context.Context, nodeID string) string {
	n, err := p.store.Node(ctx, nodeID)
	if err != nil {
		return p.cfg.EnvironmentProfile
	}
	return p.profileOf(n)
}
