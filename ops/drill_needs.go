package ops

import (
	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/profile"
)

// AbsentHops returns the hops that a walk in the environment leaves out, whatever the operator gives it; p has its
// defaults.
func AbsentHops(hops *hop.Chain, p profile.Profile) []chaos.AbsentHop {
	var gone []chaos.AbsentHop
	subject := hop.NewSubject(p, "node", "node", "allocation", "")
	for _, row := range hops.NewPlan(p, subject, hop.Options{Session: true, Token: true, SSH: true}).Hops {
		if row.Skip != "" {
			gone = append(gone, chaos.AbsentHop{Hop: row.ID, Why: row.Skip})
		}
	}
	return gone
}

// HopNeeds returns what each hop needs of an environment: it is left out where that alone is missing.
func HopNeeds(hops *hop.Chain) map[diag.HopID][]chaos.Need {
	needs := map[diag.HopID][]chaos.Need{}
	for _, without := range [...]struct {
		need chaos.Need
		take func(p *profile.Profile)
	}{
		{chaos.NeedAgent, func(p *profile.Profile) { p.Agent = profile.Agent{Present: new(false)} }},
		{chaos.NeedAllocation, func(p *profile.Profile) { p.Allocation.Present = new(false) }},
		{chaos.NeedAPI, func(p *profile.Profile) { p.APIBase = "" }},
		{chaos.NeedTerminal, func(p *profile.Profile) { p.TerminalBase = "" }},
		{chaos.NeedPlatform, func(p *profile.Profile) { p.PlatformSSH = profile.SSH{} }},
		{chaos.NeedNodeAPI, func(p *profile.Profile) { p.NodeRuntimeAPIURL = "" }},
	} {
		p := profile.Profile{
			APIBase: "https://api.example.test", TerminalBase: "https://term.example.test",
			NodeRuntimeAPIURL: "https://node-api.example.test", NodeTerminalURL: "https://term.example.test:18443",
			PlatformSSH: profile.SSH{Host: "platform"}, App: profile.App{Websocket: "/ws", HeadersPath: "/headers"},
		}
		whole := AbsentHops(hops, p.WithDefaults())
		without.take(&p)
		for _, gone := range AbsentHops(hops, p.WithDefaults()) {
			if !holds(whole, gone.Hop) {
				needs[gone.Hop] = append(needs[gone.Hop], without.need)
			}
		}
	}
	return needs
}

func holds(all []chaos.AbsentHop, h diag.HopID) bool {
	for _, a := range all {
		if a.Hop == h {
			return true
		}
	}
	return false
}
