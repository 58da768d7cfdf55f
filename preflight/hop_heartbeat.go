package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const stepReadModel = "read_model"

// nodeHeartbeat: how old is the platform's last word from the agent? A stale heartbeat is never a dead workload.
func nodeHeartbeat() Hop {
	id := diag.HopNodeHeartbeat
	return Hop{
		ID: id, Title: "node heartbeat is current", Layer: diag.LayerManagement, Budget: 5 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
		Behind:      []diag.HopID{diag.HopNodeTaskRoundtrip}, // a platform that takes no task writes down no heartbeat either
		Steps: []Step{{
			Name: stepReadModel, From: Operator, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopControlPlaneAccess},
			Ask: func(e *Env, _ *Case) diag.Request {
				return e.api("GET", profile.PathNode, nil, "node.now", "node.last_seen_at", "node.status", "node.health",
					"node.instance_id", "node.private_ip", "node.provider_class", "node.guest_agent_status",
					"node.environment_profile", "node.agent_version", "node.agent_api_url", "node.agent_terminal_url",
					"node.cert_serial", "node.cert_not_after", "node.cert_issuer_fingerprint", "node.cert_generation", "node.recovery_reason", "node.recovery_state",
					"node.stale_tasks", "node.lost_results", "node.latest_operation_type", "node.latest_operation_status",
					"node.identity", "node.boot_id", "node.agent_posture", "node.agent_desired_version", "node.agent_addresses",
					"node.record_state", "node.record_last_reason", "node.recovery_current_token",
					"node.last_denial_code", "node.last_denial_at",
					"node.check_heartbeat", "node.check_issuer", "node.check_task_wait", "node.check_task", "node.check_backlog")
			},
		}},
		Judge: func(c *Case) []diag.Finding {
			f := c.Fact(id, stepReadModel)
			if f == nil {
				return nil
			}
			stale := time.Duration(c.Policy(policyStaleAfter)) * time.Second
			age, known := heartbeatAge(c)
			switch {
			case status(f) == 404:
				return []diag.Finding{undecided(f, "the platform knows no node %s", c.Subject.NodeID)}
			case !f.Passed():
				return []diag.Finding{undecided(f, "the node could not be read: %s", saw(f))}
			case !known && (c.Field(id, stepReadModel, "node.last_seen_at") != "" || f.HTTP == nil || len(f.HTTP.Fields) == 0):
				return []diag.Finding{undecided(f, "the answer has no time of a last heartbeat that can be read (see mapping.fields in the profile)")}
			case !known:
				return []diag.Finding{fail(diag.SigHeartbeatStale, f, "the platform has never heard from the agent of %s", c.Subject.NodeID)}
			case age > stale:
				out := fail(diag.SigHeartbeatStale, f, "last heartbeat %s ago, stale after %s", ago(age), stale)
				out.Culprit = culpritSilentNode
				claim(c, &out, claimMachine)
				return []diag.Finding{out}
			}
			return nil
		},
		Pass: func(c *Case) string {
			age, _ := heartbeatAge(c)
			return fmt.Sprintf("last heartbeat %s ago, stale after %ds", ago(age), c.Policy(policyStaleAfter))
		},
	}
}

// heartbeatAge is measured by the platform's own clock: its "now", else the answer's Date, else the operator's time.
func heartbeatAge(c *Case) (time.Duration, bool) {
	f := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	seen := c.Time(diag.HopNodeHeartbeat, stepReadModel, "node.last_seen_at")
	if f == nil || seen.IsZero() {
		return 0, false
	}
	return platformNow(c).Sub(seen), true
}

// platformNow is when the read model was read, by the platform's own clock as far as it says; zero when it was not.
func platformNow(c *Case) time.Time {
	f := c.Fact(diag.HopNodeHeartbeat, stepReadModel)
	if f == nil {
		return time.Time{}
	}
	now := c.Time(diag.HopNodeHeartbeat, stepReadModel, "node.now")
	if now.IsZero() && f.HTTP != nil {
		now = f.HTTP.Date.Time
	}
	if now.IsZero() {
		now = f.At.Time
	}
	return now
}

// heartbeatFresh reports whether the platform hears the agent, as far as is known.
func heartbeatFresh(c *Case) bool {
	age, known := heartbeatAge(c)
	return known && age <= time.Duration(c.Policy(policyStaleAfter))*time.Second
}

// culpritSilentNode is at fault where a node's heartbeats have ended, and nothing better is known: what else is missing
// from such a node is the same fault.
const culpritSilentNode = "node silent"

// silentNode reports whether the heartbeats have ended.
func silentNode(c *Case) bool {
	_, known := heartbeatAge(c)
	return known && !heartbeatFresh(c)
}

// sshSilent reports whether nothing at all answers SSH on a node whose heartbeats have ended: no refusal either.
func sshSilent(c *Case) bool {
	f := c.Fact(diag.HopNodeOpsAccess, stepSSH)
	if f == nil || !silentNode(c) {
		return false
	}
	return f.Failure.Silent() || f.Failure == diag.TCPNoRoute || f.Failure == diag.TCPNetUnreachable
}
