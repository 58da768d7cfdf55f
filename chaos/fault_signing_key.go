package chaos

import "github.com/gpuaas/gpuaasctl/chaos/step"

// signingKeyParams are the parameters of signing-key.
type signingKeyParams struct {
	File string `yaml:"file" json:"file" jsonschema_description:"the platform's key for signing tasks"`
	Unit string `yaml:"unit" json:"unit" jsonschema_description:"who signs; restarted"`
}

// signingKey makes the platform sign tasks with a key that no agent knows. The real key is neither read nor moved.
func signingKey() Kind {
	return kind(Kind{
		Name: "signing-key", Title: "sign tasks with a key that nodes do not have", Tier: step.TierBoot,
		On:    []Role{RolePlatform},
		About: "A fresh ed25519 key is laid over the platform's own, as the platform sees it, and the platform is restarted.",
	}, func(p *signingKeyParams) []problem {
		return append(absolute("file", p.File), required("unit", p.Unit != "")...)
	}, func(p *signingKeyParams, _ *Case) Questions {
		return Questions{Tools: []string{"cmp", "systemctl"}, Units: []string{unitOf(p.Unit)}, Files: []string{p.File},
			Mints: []Mint{{What: MintKey}}}
	}, func(p *signingKeyParams, c *Case) (Made, *step.Refusal) {
		made, no := c.covered([]string{p.Unit}, overlay{path: p.File, text: c.minted(Mint{What: MintKey}).Text, secret: true})
		if no != nil {
			return Made{}, no
		}
		made.Title = unitOf(p.Unit) + " signs tasks by an unknown key"
		made.Verify = []step.Check{
			{Name: "it reads the other key", Unit: unitOf(p.Unit), Within: verifyWithin,
				Exec: step.Exec{Argv: []string{c.tool("cmp"), "-s", p.File, c.runPath("0")}}},
			{Name: "it runs with it", Within: verifyWithin,
				Exec: step.Exec{Argv: []string{c.tool("systemctl"), "is-active", unitOf(p.Unit)}}},
		}
		return made, c.needTools("cmp", "systemctl")
	})
}
