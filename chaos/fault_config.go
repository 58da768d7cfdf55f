package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// configParams are the parameters of config.
type configParams struct {
	File  string `yaml:"file" json:"file"`
	Unit  string `yaml:"unit" json:"unit" jsonschema_description:"who reads it: restarted with the changed text laid over the file"`
	Edits []edit `yaml:"edits" json:"edits" jsonschema:"minItems=1"`
}

// edit replaces a text that occurs in the file exactly once.
type edit struct {
	Find    string `yaml:"find" json:"find" jsonschema:"minLength=1"`
	Replace string `yaml:"replace" json:"replace"`
}

// configKind changes a configuration file as seen by the unit that reads it: edge, ingress, gateway, DNS.
func configKind() Kind {
	return kind(Kind{
		Name: "config", Title: "change a service's configuration", Tier: step.TierBoot,
		On: []Role{RolePlatform, RoleNode, RolePeer},
		About: "Texts in a configuration file are replaced, each of which must be there exactly once. The file itself " +
			"stays as it is: the unit is restarted with another one laid over it.",
	}, func(p *configParams) []problem {
		found := slices.Concat(absolute("file", p.File), required("unit", p.Unit != ""),
			required("edits", len(p.Edits) > 0))
		for i, e := range p.Edits {
			found = append(found, want(fmt.Sprintf("edits[%d].find", i), e.Find != "" && e.Find != e.Replace,
				"want a text that is replaced by another one")...)
		}
		return found
	}, func(p *configParams, _ *Case) Questions {
		return Questions{Tools: []string{"cat", "systemctl"}, Units: []string{unitOf(p.Unit)}, Texts: []string{p.File}}
	}, func(p *configParams, c *Case) (Made, *step.Refusal) {
		f, no := c.needFile(p.File)
		if no != nil {
			return Made{}, no
		}
		text := f.Text
		for _, e := range p.Edits {
			if n := strings.Count(text, e.Find); n != 1 {
				return Made{}, step.Refuse(step.RefusedUnsupported,
					"%s on %s has %q %d times, not once: it is another configuration than the drill was written for", p.File,
					c.Machine.ID, e.Find, n)
			}
			text = strings.Replace(text, e.Find, e.Replace, 1)
		}
		unit := unitOf(p.Unit)
		changes, no := c.dropIn(unitOverlay{unit: unit, overlays: []overlay{{path: p.File, text: text, secret: f.private()}}})
		if no != nil {
			return Made{}, no
		}
		made := Made{Title: p.File + " is changed for " + unit, Changes: changes, Scope: step.Scope{Units: []string{unit}}}
		if c.tool("cat") != "" && !f.private() {
			made.Verify = append(made.Verify,
				c.seen(unit+" reads the changed file", unit, p.File, firstLine(p.Edits[0].Replace)))
		}
		if c.tool("systemctl") != "" {
			made.Verify = append(made.Verify,
				step.Check{Name: unit + " runs with it", Within: verifyWithin,
					Exec: step.Exec{Argv: []string{c.tool("systemctl"), "is-active", unit}}})
		}
		return made, nil
	})
}
