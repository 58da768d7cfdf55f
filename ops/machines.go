package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/remote"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
)

// machines are a drill's machines by id, each with its own connection.
type machines map[string]*remote.Machine

// machines returns the machines; it does not connect.
func (s *Site) machines(of []chaos.Machine) machines {
	all := machines{}
	for _, m := range of {
		all[m.ID] = remote.New(remote.Config{Node: s.machineConfig(m), Programs: vantage.HelperDirs(s.Libexec),
			Build: s.Build})
	}
	return all
}

// withHere returns the machines, and this machine.
func (all machines) withHere() map[string]drill.Machine {
	with := map[string]drill.Machine{"": remote.Local()}
	for id, m := range all {
		with[id] = m
	}
	return with
}

func (all machines) close() {
	for _, m := range all {
		_ = m.Close() // every error was already returned by a call
	}
}

// ready creates what the plan needs for this run only, and makes the plan again with it; nil if the plan needs nothing.
func (d *Drill) ready(plan chaos.Plan, facts chaos.Facts) func(context.Context) (chaos.Plan, error) {
	if len(plan.Material) == 0 {
		return nil
	}
	return func(ctx context.Context) (chaos.Plan, error) {
		own, err := d.Session.site.authority()
		if err != nil {
			return chaos.Plan{}, err
		}
		facts.Material = map[string]chaos.Material{}
		for _, m := range plan.Material {
			if facts.Material[m.Mint.Key()], err = d.Session.mint(ctx, m.Mint, own); err != nil {
				return chaos.Plan{}, fmt.Errorf("%s: %w", m.Mint, err)
			}
		}
		return d.Make(facts, plan.Run), nil
	}
}

// authority returns the CA that the profile provides for drills; nil if there is none.
func (s *Site) authority() (*chaos.Authority, error) {
	c := s.Profile.Chaos
	if c.CACert == "" || c.CAKey == "" {
		return nil, nil
	}
	cert, err := profile.ReadOwn(c.CACert)
	if err != nil {
		return nil, fmt.Errorf("chaos.ca_cert: %w", err)
	}
	key, err := profile.ReadOwn(c.CAKey)
	if err != nil {
		return nil, fmt.Errorf("chaos.ca_key: %w", err)
	}
	own, err := chaos.ParseAuthority(cert, key)
	if err != nil {
		return nil, fmt.Errorf("chaos.ca_cert, chaos.ca_key: %w", err)
	}
	return own, nil
}

// mint creates one thing that only the platform or the operator can issue.
func (s *Session) mint(ctx context.Context, m chaos.Mint, own *chaos.Authority) (chaos.Material, error) {
	switch m.What {
	case chaos.MintBearer:
		if s.env.Token.IsZero() {
			return chaos.Material{}, errors.New("no operator token: auth.token_file in the profile")
		}
		return chaos.Material{Mint: m, Text: "Authorization: Bearer " + s.env.Token.Reveal() + "\n"}, nil
	case chaos.MintToken:
		of := *s
		of.of.Node, of.env.Subject.NodeID = m.Node, m.Node
		b, err := of.issueBundle(ctx, "a drill wants a current recovery token", false)
		if err != nil {
			return chaos.Material{}, err
		}
		return chaos.Material{Mint: m, Text: b.Token}, nil
	}
	return m.Make(own, time.Now())
}
