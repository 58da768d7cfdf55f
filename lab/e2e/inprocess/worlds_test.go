//go:build linux

package inprocess

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// named is a test or a row of a table that the usual run includes.
type named struct {
	row  string // TEST or TEST/ROW
	what string // the class of hop, the kind of server, or what else it covers
	race bool   // it is in the race detector's run, too
}

// usual returns the tests of the usual run: named worlds, one for each class of hop and two for each kind of server,
// and cheap tests of what no table covers. The deep run has all the rest.
func usual(race bool) []named {
	all := []named{
		{row: "TestHealthyFiftyTimes", what: "a healthy world", race: true},
		{row: "TestTenAtOnce", what: "concurrent walks of one world", race: true},
		{row: "TestFaults/three at once", what: "several faults in one world", race: true},

		{row: "TestFaults/control plane stopped", what: "the operator's hops"},
		{row: "TestFaults/allocation released", what: "the allocation"},
		{row: "TestLoginFaults/rejects the key", what: "the login"},
		{row: "TestFaults/agent's process gone", what: "the state of the node"},
		{row: "TestTrustFaults/stale bundle", what: "the node's path to the platform"},
		{row: "TestIdentityFaults/certificate expired", what: "the node's identity"},
		{row: "TestFaults/node throttled", what: "the edges' own limits"},
		{row: "TestFaults/mint broken", what: "the platform's part of a terminal"},
		{row: "TestFaults/upgrade rejected", what: "the browser's connection"},
		{row: "TestCutBehind/reset under a lazy shell", what: "a session that is cut"},
		{row: "TestShellFails/ends with a code", what: "the shell"},
		{row: "TestFaults/workload stopped", what: "the workload"},
		{row: "TestFaults/product route broken", what: "the workload's public route"},
		{row: "TestGPUsNotJudged", what: "the GPUs"},
		{row: "TestTerminalsOfEveryDialect/ttyd", what: "a terminal of another platform"},
		{row: "TestFaultsOfTerminalServers/a listed close", what: "a terminal of another platform, and a fault"},
		{row: "TestFaultsOfExec/no pod", what: "exec in a pod, and a fault"},

		{row: "TestServers/nginx/healthy", what: "nginx"},
		{row: "TestServers/nginx/another CA, TLS 1.3", what: "nginx, and a fault"},
		{row: "TestServers/haproxy/healthy", what: "HAProxy"},
		{row: "TestServers/haproxy/another CA, TLS 1.3", what: "HAProxy, and a fault"},
		{row: "TestServers/apache2/healthy", what: "Apache"},
		{row: "TestServers/apache2/another CA, TLS 1.3", what: "Apache, and a fault"},
		{row: "TestServers/caddy/healthy", what: "Caddy"},
		{row: "TestServers/caddy/another CA, TLS 1.3", what: "Caddy, and a fault"},
		{row: "TestServers/go/healthy", what: "Go's server"},
		{row: "TestServers/go/another CA, TLS 1.3", what: "Go's server, and a fault"},

		{row: "TestSecondDialect", what: "a platform with other paths and fields"},
		{row: "TestOperatorThrottled", what: "a limit on the operator"},
		{row: "TestLimitedConnections/a page", what: "a limit on connections"},
		{row: "TestPlatformEndsDuringTheWalk/behind its edges after the allocation", what: "a platform that ends"},
		{row: "TestOperatorsMistakes/another token", what: "an operator's mistake, refused by the platform"},
		{row: "TestOperatorsMistakes/known_hosts is garbage", what: "an operator's mistake, seen before the login"},
		{row: "TestNotOurProgram", what: "another program in the agent's place"},
		{row: "TestNoSystemd", what: "a host without systemd"},
		{row: "TestSubjectUnknown", what: "an unknown allocation"},
		{row: "TestNoPeek", what: "a platform without a queue to read"},
		{row: "TestCorrelation", what: "one id in all logs"},
		{row: "TestEveryProofOfRepairPassesOnAHealthyNode", what: "the proof of each repair"},
		{row: "TestTrust/ingress not reloaded", what: "diag trust"},
		{row: "TestEndpointsOverSSH", what: "scripts over the login"},
		{row: "TestWatch", what: "walks that share a login"},
		{row: "TestInterruptedAnywhere", what: "walks that are ended"},
		{row: "TestNothingFollowsARedirect", what: "redirects, from both vantages"},
		{row: "TestNoSecretInAnyReport/edges repeat", what: "secrets in reports"},
		{row: "TestNoSecretInErrors", what: "secrets in errors"},
	}
	if race {
		all = slices.DeleteFunc(all, func(n named) bool { return !n.race })
	}
	return all
}

// runOf returns the -run of these rows.
func runOf(rows []named) string {
	var all []string
	for _, n := range rows {
		var levels []string
		for level := range strings.SplitSeq(strings.ReplaceAll(n.row, " ", "_"), "/") {
			levels = append(levels, "^"+regexp.QuoteMeta(level)+"$")
		}
		all = append(all, strings.Join(levels, "/"))
	}
	return strings.Join(all, "|")
}

// begunRows are the names of the tests that begin was called for.
var begunRows sync.Map

// begin notes that a row of a table runs, or that it is skipped with all below it.
func begin(t testing.TB) {
	t.Helper()
	begunRows.Store(t.Name(), true)
}

// notBegun returns the rows that no table has.
func notBegun(rows []named) (missing []string) {
	for _, n := range rows {
		name := strings.ReplaceAll(n.row, " ", "_")
		found := false
		begunRows.Range(func(key, _ any) bool {
			found = found || strings.HasPrefix(name+"/", key.(string)+"/")
			return !found
		})
		if !found {
			missing = append(missing, n.row)
		}
	}
	return missing
}

// deepOr returns how often a deep run repeats something, or how often any other run does.
func deepOr(deep, usual int) int {
	if tier.Deep() {
		return deep
	}
	return usual
}
