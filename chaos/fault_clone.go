package chaos

import (
	"path"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// cloneParams are the parameters of clone.
type cloneParams struct {
	Of string `yaml:"of" json:"of" jsonschema_description:"the node whose identity a second machine takes"`
}

// clone makes a second machine run as the same node. It gets a new key, signed by the environment's own CA: no
// private key is copied between the machines.
func clone() Kind {
	return kind(Kind{
		Name: "clone", Title: "give a second machine the node's identity", Tier: step.TierBoot, On: []Role{RolePeer},
		needs: []Need{NeedAgent},
		About: "The agent of another machine runs with the node's id and a certificate in its name (profile: " +
			"chaos.ca_cert, chaos.ca_key).",
	}, func(p *cloneParams) []problem {
		return required("of", p.Of != "")
	}, func(p *cloneParams, c *Case) Questions {
		dir := c.Profile.Agent.Dir
		return Questions{Tools: []string{"grep"}, Units: []string{c.Profile.Agent.Unit},
			Files: []string{path.Join(dir, "cert.pem"), path.Join(dir, "key.pem")}, Mints: []Mint{p.mint()}}
	}, func(p *cloneParams, c *Case) (Made, *step.Refusal) {
		if p.Of == c.Machine.ID {
			return Made{}, step.Refuse(step.RefusedUnsupported, "%s is that node already", c.Machine.ID)
		}
		m := c.minted(p.mint())
		unit := c.Profile.Agent.Unit
		changes, no := c.dropIn(unitOverlay{
			unit: unit, env: []string{"GPUAAS_NODE_ID=" + p.Of}, unset: []string{tokenKey},
			overlays: []overlay{{path: c.certFile(), text: m.Text}, {path: c.keyFile(), text: m.Key, secret: true}},
		})
		if no != nil {
			return Made{}, no
		}
		return Made{
			Title: c.Machine.ID + " says that it is " + p.Of, Changes: changes,
			Scope:  step.Scope{Files: []string{c.Profile.Agent.Dir}, Units: []string{unit}},
			Verify: []step.Check{c.environ(unit, "GPUAAS_NODE_ID", p.Of)},
		}, c.needTools("grep")
	})
}

func (p *cloneParams) mint() Mint {
	return Mint{What: MintCert, Node: p.Of, From: Duration(-time.Hour), Until: Duration(24 * time.Hour), By: BySigning}
}
