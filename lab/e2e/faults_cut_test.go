//go:build linux

package e2e

import (
	"fmt"
	"testing"

	"github.com/gpuaas/gpuaasctl/lab"
)

// cutFaults are terminals whose connection is cut, and a shell failure that resembles one.
func cutFaults(node string) map[string]fault {
	edgeWaits, edgeBack := nginx("/etc/nginx/edge.d/term.conf", `s,location / {,& proxy_read_timeout 1s;,`)
	return map[string]fault{
		"terminal-edge-timeout": { // a shell that takes two seconds is still green, as the walk before the fault shows
			on: platform, prepare: slowShell,
			do: edgeWaits, undo: edgeBack, check: "nginx -T 2>/dev/null | grep -q 'proxy_read_timeout 1s'",
		},
		"terminal-edge-drop": {
			on: platform, do: dropAfter("sport 8082", "dport", 4), undo: dropUndo,
			check: "nft list table inet fault | grep -q 'sport 8082'",
		},
		"terminal-stream-drop": {
			// Counts only packets with data, since the number of bare acknowledgements varies: greeting, certificate
			// and request.
			on: node, do: dropAfter("dport 18443 meta length > 60", "sport", 3), undo: dropUndo,
			check: "nft list table inet fault | grep -q 'dport 18443'",
		},
		"agent-killed-in-session": {
			on: node, prepare: thinkingShell, noSecond: true,
			do: "touch " + thinking + "; systemd-run -q --unit=fault-killer sh -c '" + killInSession +
				"'",
			check: "systemctl is-active -q fault-killer",
			undo: "rm " + thinking + "; systemctl stop fault-killer gpuaas-node-agent; " +
				"systemctl reset-failed gpuaas-node-agent 2>/dev/null || true; " +
				"systemctl start gpuaas-node-agent; test $(systemctl show -P NRestarts gpuaas-node-agent) = 0",
		},
		"shell-cannot-fork": {
			on: node, do: "echo ulimit -u 1 >>/home/tenant01/.bash_profile", undo: "rm /home/tenant01/.bash_profile",
			check: "! timeout 2 su -l tenant01 -c '/bin/true; /bin/true' 2>/dev/null",
		},
	}
}

// killInSession kills the agent in every session of thinkingShell, while that waits and nothing else of the walk
// is in progress. check tests for the kill, since the agent itself is back a second later.
const killInSession = `while :; do until pgrep -x stub-shell; do sleep 0.1; done; sleep 4
kill -KILL $(systemctl show -P MainPID gpuaas-node-agent)
while pgrep -x stub-shell; do sleep 0.1; done; done >/dev/null`

// dropAfter drops the packets of a connection after the given number of matching ones; by is the port of its other
// end.
func dropAfter(match, by string, packets int) string {
	return fmt.Sprintf(
		"nft -f - <<'X'\nadd table inet fault\nadd set inet fault seen { type inet_service; size 1024; flags dynamic; "+
			"timeout 5m; }\n"+
			"add chain inet fault c { type filter hook output priority 0; }\n"+
			"add rule inet fault c tcp %s update @seen { tcp %s limit rate over 1/hour burst %d packets } drop\nX",
		match, by, packets)
}

const dropUndo = "nft delete table inet fault"

// slowShell gives the allocation's user a shell that takes two seconds to start, until the end of the test.
func slowShell(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	shellFor(t, l, machine, "sleep 2; exec /bin/bash -l")
}

// thinking is a file that exists while the thinking shell does not compute.
const thinking = "/run/fault.thinking"

// thinkingShell gives the allocation's user a shell that is ready at once and computes after three seconds, but
// never while the file thinking exists, until the end of the test.
func thinkingShell(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	shellFor(t, l, machine, "echo welcome; sleep 3; while [ -e "+thinking+" ]; do sleep 0.1; done; exec /bin/bash -l")
}

func shellFor(t *testing.T, l *lab.Lab, machine, body string) {
	t.Helper()
	on(t, l, machine, stubShell(body))
	t.Cleanup(func() { on(t, l, machine, unstubShell) })
}
