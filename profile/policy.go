package profile

import (
	"fmt"
	"maps"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// PolicyRow is one policy key: its default, and how far a profile may change it. If a bound equals the default, the key
// may only be tightened.
type PolicyRow struct {
	Key      string
	Default  int64
	Min, Max int64
	Why      string // the reason for the bounds
}

// Policy keys, as in reports and profiles.
const (
	PolicyRecoveryTokenMaxAge = "node.recovery_token_max_age_seconds"
	PolicyHeartbeatStaleAfter = "node.heartbeat_stale_after_seconds"
	PolicyTaskSweepInterval   = "node.task_stale_sweep_interval_seconds"
	PolicyAuditDedupeWindow   = "audit.dedupe_window_seconds"
	PolicyHeartbeatInterval   = "node.heartbeat_interval_seconds"
	PolicyTaskWait            = "node.task_wait_seconds"
	PolicyDiskPressure        = "node.disk_pressure_percent"
	PolicyNodeStreamTimeout   = "terminal.node_stream_timeout_seconds"
	PolicyTerminalTokenTTL    = "terminal.token_ttl_seconds"
	PolicyChaosMinTTL         = "chaos.min_ttl_seconds"
	PolicyP0Detect            = "severity.p0_detect_seconds"
	PolicyP0Repair            = "severity.p0_repair_seconds"
	PolicyP1Detect            = "severity.p1_detect_seconds"
	PolicyP1Repair            = "severity.p1_repair_seconds"
	PolicyP2Detect            = "severity.p2_detect_seconds"
)

// PolicyRows is the closed list of policy keys.
var PolicyRows = [...]PolicyRow{
	{PolicyRecoveryTokenMaxAge, 86400, 60, 86400, "an older recovery token is a security boundary"},
	{PolicyHeartbeatStaleAfter, 120, 1, 300, "a silent node must be seen within the P1 detection budget, 5 minutes"},
	{PolicyTaskSweepInterval, 60, 1, 1800, "a stale task must be seen within the P2 detection budget, 30 minutes"},
	{PolicyAuditDedupeWindow, 300, 1, 86400, "a day of one repeated row is the longest that an audit may fold"},
	{PolicyHeartbeatInterval, 15, 1, 300, "slower than this, a live node looks stale"},
	{PolicyTaskWait, 25, 1, 300, "edges cut longer polls"},
	{PolicyDiskPressure, 90, 1, 90, "above this, recovery already competes for space"},
	{PolicyNodeStreamTimeout, 20, 1, 120, "no user waits longer for a terminal to connect"},
	{PolicyTerminalTokenTTL, 60, 1, 3600, "a terminal token is for one session"},
	{PolicyChaosMinTTL, 10, 10, 3600, "a shorter lease ends before a drill can be observed"},
	{PolicyP0Detect, 60, 1, 60, "a security boundary is watched by the minute"},
	{PolicyP0Repair, 900, 1, 900, "a P0 is repaired in 15 minutes, or is an incident"},
	{PolicyP1Detect, 300, 1, 300, "users feel a P1"},
	{PolicyP1Repair, 3600, 1, 3600, "users feel a P1"},
	{PolicyP2Detect, 1800, 1, 1800, "what is stale for longer is believed"},
}

// DefaultPolicy returns every policy key with its default, in a new map.
func DefaultPolicy() map[string]int64 {
	m := make(map[string]int64, len(PolicyRows))
	for _, r := range PolicyRows {
		m[r.Key] = r.Default
	}
	return m
}

// PolicyValue returns the profile's value of key, or the key's default; 0 for a key that is not in PolicyRows.
func (p Profile) PolicyValue(key string) int64 {
	if v, ok := p.Policy[key]; ok {
		return v
	}
	if r, ok := policyRow(key); ok {
		return r.Default
	}
	return 0
}

// withDefaultPolicy returns every key, set or default.
func withDefaultPolicy(set map[string]int64) map[string]int64 {
	m := DefaultPolicy()
	maps.Copy(m, set)
	return m
}

func policyRow(key string) (PolicyRow, bool) {
	for _, r := range PolicyRows {
		if r.Key == key {
			return r, true
		}
	}
	return PolicyRow{}, false
}

// checkPolicy returns the error of one entry of a profile's policy.
func checkPolicy(key string, v int64) error {
	r, ok := policyRow(key)
	switch {
	case !ok:
		return fmt.Errorf("unknown policy key %q%s", key, strictyaml.Nearest(key, PolicyKeys()))
	case v < r.Min, v > r.Max:
		note := ""
		if (v > r.Max && r.Max == r.Default) || (v < r.Min && r.Min == r.Default) {
			note = "; a profile may tighten it, never weaken it"
		}
		return fmt.Errorf("policy %s must be between %d and %d, not %d: %s%s", key, r.Min, r.Max, v, r.Why, note)
	}
	return nil
}

// PolicyKeys returns the keys in the order of PolicyRows.
func PolicyKeys() []string {
	keys := make([]string, len(PolicyRows))
	for i, r := range PolicyRows {
		keys[i] = r.Key
	}
	return keys
}
