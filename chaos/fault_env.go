package chaos

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// envParams are the parameters of env.
type envParams struct {
	Unit  string            `yaml:"unit,omitempty" json:"unit,omitempty" jsonschema_description:"default: the agent's"`
	Set   map[string]string `yaml:"set,omitempty" json:"set,omitempty"`
	Unset []string          `yaml:"unset,omitempty,flow" json:"unset,omitempty"`
}

var envName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// envKind changes a unit's environment variables. The unit's own EnvironmentFile= would override Environment= in a
// drop-in, so the drop-in adds a later EnvironmentFile=.
func envKind() Kind {
	return kind(Kind{
		Name: "env", Title: "change a service's environment variables", Tier: step.TierBoot,
		On: []Role{RoleNode, RolePlatform, RolePeer},
		About: "A drop-in with an EnvironmentFile= in /run, which wins over the unit's own, and a restart. The unit's own " +
			"file stays as it is.",
	}, func(p *envParams) []problem {
		found := required("set", len(p.Set)+len(p.Unset) > 0)
		for _, k := range append(sortedKeys(p.Set), p.Unset...) {
			v := p.Set[k]
			found = slices.Concat(found, want("set", envName().MatchString(k), k+" is not the name of a variable"),
				want("set."+k, !strings.ContainsAny(v, "\n\x00\"'\\") && v == strings.TrimSpace(v),
					"a value has no quotes, no line breaks and no blanks around it"))
		}
		return found
	}, func(p *envParams, c *Case) Questions {
		return Questions{Tools: []string{"grep"}, Units: []string{c.unit(p.Unit)}}
	}, func(p *envParams, c *Case) (Made, *step.Refusal) {
		o := unitOverlay{unit: c.unit(p.Unit), unset: p.Unset}
		for _, k := range sortedKeys(p.Set) {
			o.env = append(o.env, k+"="+p.Set[k])
		}
		changes, no := c.dropIn(o)
		if no != nil {
			return Made{}, no
		}
		made := Made{Title: o.unit + " runs with " + strings.Join(slices.Concat(o.env, less(p.Unset)), ", "),
			Changes: changes, Scope: step.Scope{Units: []string{o.unit}}}
		if c.tool("grep") != "" {
			for _, k := range sortedKeys(p.Set) {
				made.Verify = append(made.Verify, c.environ(o.unit, k, p.Set[k]))
			}
			for _, k := range p.Unset {
				made.Verify = append(made.Verify, c.noEnviron(o.unit, k))
			}
		}
		return made, nil
	})
}

// environ checks that the environment of a unit's main process has the variable with that value. It prints
// nothing, since the environment also holds secrets.
func (c *Case) environ(unit, name, value string) step.Check {
	return c.inEnviron(unit, "its process has "+name+"="+value, "-qzxF", name+"="+value, 0)
}

// noEnviron checks that the variable is absent there.
func (c *Case) noEnviron(unit, name string) step.Check {
	return c.inEnviron(unit, "its process has no "+name, "-qz", "^"+name+"=", 1)
}

func (c *Case) inEnviron(unit, title, how, pattern string, exit int) step.Check {
	return step.Check{
		Name: title, Unit: unit, Within: verifyWithin,
		Exec: step.Exec{Argv: []string{c.tool("grep"), how, "--", pattern, "/proc/" + step.MainPID + "/environ"},
			Exits: []int{exit}},
	}
}

func less(names []string) []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = "no " + n
	}
	return all
}

func (p *envParams) ofAgent() bool { return p.Unit == "" }
