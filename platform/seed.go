package platform

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaasctl/platform/store"
)

// seed creates the nodes and allocations of the seed file that are missing, and stores new enrollment tokens.
func (p *Platform) seed(ctx context.Context) error {
	if p.cfg.Seed == "" {
		return nil
	}
	s, err := LoadSeed(p.cfg.Seed)
	if err != nil {
		return err
	}
	now := p.now()
	for _, n := range s.Nodes {
		row := store.Node{ID: n.ID, Status: store.NodeActive, Hostname: n.Hostname, PrivateIP: n.PrivateIP, ProviderClass: n.ProviderClass,
			GuestAgentStatus: n.GuestAgentStatus, EnvironmentProfile: n.EnvironmentProfile, CreatedAt: now}
		if n.GuestAgentStatus != "" {
			row.GuestAgentAt = now
		}
		if err := p.store.SeedNode(ctx, row); err != nil {
			return fmt.Errorf("seed node %s: %w", n.ID, err)
		}
		if n.EnrollmentTokenFile == "" {
			continue
		}
		token, err := readSecret(n.EnrollmentTokenFile)
		if err != nil {
			return fmt.Errorf("seed node %s: load enrollment token: %w", n.ID, err)
		}
		err = p.store.AddToken(ctx, store.Token{NodeID: n.ID, Digest: store.Digest(token.Reveal()), IssuedAt: now,
			ExpiresAt: now.Add(seconds(p.cfg.Policy.RecoveryTokenMaxAge))})
		if err != nil {
			return fmt.Errorf("seed node %s: store enrollment token: %w", n.ID, err)
		}
	}
	for _, a := range s.Allocations {
		row := store.Allocation{ID: a.ID, NodeID: a.NodeID, State: a.State, OSUser: a.OSUser, WorkflowID: a.WorkflowID, UpdatedAt: now,
			App: store.App{Kind: a.App.Kind, Unit: a.App.Unit, Port: a.App.Port, ProductURL: a.App.ProductURL}}
		if err := p.store.SeedAllocation(ctx, row); err != nil {
			return fmt.Errorf("seed allocation %s: %w", a.ID, err)
		}
	}
	return nil
}
