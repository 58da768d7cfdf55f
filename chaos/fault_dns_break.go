package chaos

import "github.com/gpuaas/gpuaasctl/chaos/step"

// dnsBreakParams are those of dns-break.
type dnsBreakParams struct {
	How  string `yaml:"how" json:"how" jsonschema:"enum=timeout,enum=refused" jsonschema_description:"timeout: answers do not come; refused: questions are rejected"`
	Name string `yaml:"name" json:"name" jsonschema_description:"a name that must not be found any more"`
}

// dnsBreak takes the DNS away. Silence is made by dropping what comes back: dropping what is sent would be told to the
// sender at once, and be another fault.
func dnsBreak() Kind {
	return kind(Kind{
		Name: "dns-break", Title: "take the DNS away", Tier: step.TierKernel, On: []Role{RoleNode, RolePeer},
		About: "Answers from port 53 are dropped on their way in, or questions are rejected. The hosts file still works.",
	}, func(p *dnsBreakParams) []problem {
		return append(word("how", p.How, "timeout", "refused"), required("name", p.Name != "")...)
	}, func(p *dnsBreakParams, _ *Case) Questions {
		return Questions{Tools: []string{"nft", "getent"}, Names: []string{p.Name}, Texts: []string{"/etc/hosts"}}
	}, func(p *dnsBreakParams, c *Case) (Made, *step.Refusal) {
		if no := c.needTools("nft"); no != nil {
			return Made{}, no
		}
		if len(c.Machine.Names[p.Name]) == 0 {
			return Made{}, step.Refuse(step.RefusedUnsupported, "%s leads nowhere on %s already", p.Name, c.Machine.ID)
		}
		if len(hostsOf(c.Machine.Files["/etc/hosts"].Text, p.Name)) > 0 {
			return Made{}, step.Refuse(step.RefusedUnsupported, "%s stands in the hosts file of %s, so the DNS is not asked for it", p.Name, c.Machine.ID)
		}
		everybody := []string{"0.0.0.0/0", "::/0"}
		b := &step.Block{Direction: "in", Proto: "any", Remote: everybody, Ports: []uint16{53}, Verdict: step.Drop}
		title := "no answer of the DNS comes in"
		if p.How == "refused" {
			b.Direction, b.Verdict, title = "out", step.Refused, "every question to the DNS is rejected"
		}
		made := Made{Title: title, Changes: []step.Change{{Block: b}}}
		if c.tool("getent") != "" && c.tool("timeout") != "" {
			made.Verify = []step.Check{{Name: p.Name + " is not found", Within: verifyWithin,
				Exec: step.Exec{Argv: []string{c.tool("timeout"), "3", c.tool("getent"), "ahosts", p.Name}, Exits: []int{2, 124}}}}
		}
		return made, nil
	})
}
