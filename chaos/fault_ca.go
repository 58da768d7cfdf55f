package chaos

import (
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// caParams are the parameters of ca.
type caParams struct {
	File   string   `yaml:"file" json:"file" jsonschema_description:"a file of trusted authorities"`
	SeenBy []string `yaml:"seenBy,flow" json:"seenBy" jsonschema:"minItems=1" jsonschema_description:"units that trust by it; restarted"`
}

// caKind makes services trust another CA.
func caKind() Kind {
	return kind(Kind{
		Name: "ca", Title: "make services trust another CA", Tier: step.TierBoot,
		On: []Role{RoleNode, RolePlatform, RolePeer},
		About: "The certificate of an unknown CA is laid over a bundle, as the named units see it. They are " +
			"restarted.",
	}, func(p *caParams) []problem {
		return append(absolute("file", p.File), required("seenBy", len(p.SeenBy) > 0)...)
	}, func(p *caParams, _ *Case) Questions {
		return Questions{Tools: []string{"openssl"}, Files: []string{p.File}, Units: unitsOf(p.SeenBy),
			Mints: []Mint{{What: MintCA}}}
	}, func(p *caParams, c *Case) (Made, *step.Refusal) {
		made, no := c.covered(p.SeenBy, overlay{path: p.File, text: c.minted(Mint{What: MintCA}).Text})
		if no != nil {
			return Made{}, no
		}
		made.Title = strings.Join(p.SeenBy, ", ") + " trust by " + p.File + " an unknown authority"
		made.Verify = nil
		if c.tool("openssl") != "" {
			for _, u := range p.SeenBy {
				made.Verify = append(made.Verify,
					step.Check{Name: u + " reads the other authority", Unit: unitOf(u), Within: verifyWithin, Has: StrangerName,
						Exec: step.Exec{Argv: []string{c.tool("openssl"), "x509", "-noout", "-subject", "-in", p.File}}})
			}
		}
		return made, nil
	})
}

// StrangerName is the common name of the CA that no bundle contains.
const StrangerName = "a CA that nobody knows"
