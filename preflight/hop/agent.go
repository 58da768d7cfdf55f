package hop

import (
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// AgentNames returns how the settings of the node's agent are named.
func (c *Case) AgentNames() diag.AgentNames { return diag.AgentNamesIn(c.Subject.Expected) }

// AgentSetting returns what the agent has at a setting, by the facts of its settings or by the profile that states it;
// "" if it is not known.
func (c *Case) AgentSetting(f *diag.Fact, name string) string {
	switch {
	case strings.Contains(name, "://"):
		return name
	case f == nil || f.Env == nil:
		return ""
	}
	return f.Env.Values[name]
}
