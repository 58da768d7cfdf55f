package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

const stepSSH = "ssh"

// nodeOpsAccess: can the operator log in? A broken login says nothing about the agent.
func nodeOpsAccess() Hop {
	id := diag.HopNodeOpsAccess
	return Hop{
		ID: id, Title: "operator logs in to the node", Layer: diag.LayerManagement, Budget: 12 * time.Second,
		Steps: []Step{{
			Name: stepSSH, From: Node, Timeout: 10 * time.Second,
			Ask: func(e *Env, _ *Case) diag.Request { return diag.Request{Op: diag.OpSSH, Target: e.Subject.NodeHost} },
		}},
		Judge: func(c *Case) []diag.Finding {
			f := c.Fact(id, stepSSH)
			if f.Passed() || f == nil {
				return nil
			}
			sig, text := diag.SigOpsSSHFailed, fmt.Sprintf("no login on %s: %s", c.Subject.NodeHost, saw(f))
			if f.Detail != "" {
				text += ": " + f.Detail
			}
			guest := c.Field(diag.HopNodeHeartbeat, stepReadModel, "node.guest_agent_status")
			if guest == "down" || guest == "stopped" || guest == "unreachable" {
				sig, text = diag.SigOpsAccessUnhealthy, text+"; the provider says that the guest agent is "+guest
			}
			if heartbeatFresh(c) {
				text += "; the agent itself reports, so it is not down"
			}
			return []diag.Finding{fail(sig, f, "%s", text)}
		},
		Pass: func(c *Case) string {
			s := c.Fact(id, stepSSH).SSH
			if s == nil {
				return "logged in"
			}
			return fmt.Sprintf("%s@%s, probes run by the %s agent", s.User, c.Subject.NodeHost, s.Helper)
		},
	}
}
