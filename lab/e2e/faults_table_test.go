//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/lab"
)

const (
	dropIns = "/run/systemd/system/gpuaas-node-agent.service.d"
	restart = "systemctl daemon-reload; systemctl restart gpuaas-node-agent"
)

var (
	// restartNginx kills it, since it would wait 5 s for the agents' long polls.
	restartNginx = "systemctl kill -s TERM nginx; systemctl restart nginx; " +
		eventually("curl -sk -m 2 -o /dev/null https://10.231.77.10/")

	// restartPlatform waits until it responds again, through the ingress that may have been started with it.
	restartPlatform = "systemctl restart gpuaas-platform; " +
		eventually("curl -sf -m 2 -o /dev/null http://127.0.0.1:8080/healthz")
)

// nft blocks by one rule in a table of its own.
func nft(hook, rule string) (do, undo string) {
	return "nft -f - <<'X'\nadd table inet fault\nadd chain inet fault c { type filter hook " + hook +
			" priority 0; }\nadd rule inet fault c " + rule + "\nX",
		"nft delete table inet fault"
}

// agentEnv gives the agent another environment, as an operator's mistake in its env file would.
func agentEnv(key, value string) (do, undo string) {
	return "mkdir -p " + dropIns + "; echo " + key + "=" + value +
			" >/run/fault.env; printf '[Service]\\nEnvironmentFile=/run/fault.env\\n' >" + dropIns + "/fault.conf; " + restart,
		"rm -rf " + dropIns + " /run/fault.env; " + restart
}

// agentUnit gives the agent's unit one more setting.
func agentUnit(node, setting, check string) fault {
	return fault{
		on: node, noSecond: true, check: check,
		do:   "mkdir -p " + dropIns + "; printf '[Service]\\n" + setting + "\\n' >" + dropIns + "/fault.conf; " + restart,
		undo: "rm -rf " + dropIns + "; " + restart,
	}
}

// agentSays searches the agent's log since its last start.
func agentSays(words string) string {
	return "journalctl -u gpuaas-node-agent -o cat --no-pager _PID=$(systemctl show -P MainPID gpuaas-node-agent) | " +
		"grep -q '" + words + "'"
}

// ownNet succeeds while the agent's network namespace is not the machine's.
const ownNet = `test "$(readlink /proc/$(systemctl show -P MainPID gpuaas-node-agent)/ns/net)" != "$(readlink /proc/1/ns/net)"`

// nginx edits a file of the platform's nginx and restarts it. After a mere reload the old workers would serve open
// long polls for seconds, so that the fault would appear gradually.
func nginx(file, sed string) (do, undo string) {
	return "cp " + file + " /run/fault.nginx; sed -i '" + sed + "' " + file + "; ! cmp -s " + file +
			" /run/fault.nginx; nginx -t -q; " + restartNginx,
		"cp /run/fault.nginx " + file + "; rm /run/fault.nginx; " + restartNginx
}

// staleHeartbeat is longer, in seconds, than a heartbeat counts as current in the lab.
const staleHeartbeat = 10

// refusing makes the node ingress answer one request of agents with a status while the file refusal exists: its
// restart, which closes every agent's connections, is over when the fault begins.
func refusing(request string, status int) func(*testing.T, *lab.Lab, string) {
	do, undo := nginx("/etc/nginx/node-ingress.d/node-api.conf", fmt.Sprintf(
		"s,^.location / {,\tlocation ~ /%s$ { if (-e %s) { return %d; } "+
			"if ($ssl_client_verify = NONE) { return 496; } proxy_pass http://127.0.0.1:8081; }\\n&,",
		request, refusal, status))
	return func(t *testing.T, l *lab.Lab, _ string) {
		t.Helper()
		on(t, l, platform, do)
		t.Cleanup(func() { on(t, l, platform, undo) })
	}
}

const refusal = "/run/fault.refusal"

// faults of one node, and of everything that it depends on, keyed by the golden table's names.
func faults(node string) map[string]fault {
	allocation, app := lab.Machine{Name: node}.Allocation(), lab.Machine{Name: node}.AppUnit()
	opsBlock, opsUnblock := nft("input", "tcp dport 22 drop")
	termToSilence, termBack := nginx("/etc/nginx/edge.d/term.conf",
		`s,location / {,location /v1/terminal/ { proxy_pass http://127.0.0.1:8099; }\n&,`)
	f := map[string]fault{
		"agent-stopped": {
			on: node, do: "systemctl stop gpuaas-node-agent", undo: "systemctl start gpuaas-node-agent",
			check: "! systemctl is-active -q gpuaas-node-agent",
		},
		"agent-frozen": {
			on: node, do: "kill -STOP $(systemctl show -P MainPID gpuaas-node-agent)",
			undo:  "kill -CONT $(systemctl show -P MainPID gpuaas-node-agent)",
			check: "grep -q '^State:.T' /proc/$(systemctl show -P MainPID gpuaas-node-agent)/status",
		},
		"agent-binary-broken": {
			on: node,
			do: "head -c 4096 /dev/zero >/usr/local/lib/broken; chmod 755 /usr/local/lib/broken; mkdir -p " + dropIns +
				"; printf '[Service]\\nExecStart=\\nExecStart=/usr/local/lib/broken run\\n' >" + dropIns + "/fault.conf; " +
				restart + " || true",
			undo: "rm -rf " + dropIns + " /usr/local/lib/broken; " + restart, check: "! /usr/local/lib/broken run 2>/dev/null",
		},
		"disk-full": {
			on: node, do: fillDisk, undo: "rm -f /var/fill.*; sync",
			check: "! dd if=/dev/zero of=/var/try bs=8192 count=1 2>/dev/null; rm -f /var/try",
		},
		"root-disk-full": { // the record lies on another file system
			on: split, noSecond: true, do: strings.ReplaceAll(fillDisk, "/var/fill", "/fill"), undo: "rm -f /fill.*; sync",
			check: "! dd if=/dev/zero of=/try bs=8192 count=1 2>/dev/null; rm -f /try; dd if=/dev/zero of=/var/try bs=8192 " +
				"count=1 2>/dev/null && rm /var/try",
		},
		"redis-binding-lost": {
			on: platform, do: "systemctl stop redis-server", undo: "systemctl start redis-server",
			check: "! redis-cli -h 127.0.0.1 ping 2>/dev/null | grep -q PONG",
		},
		"allocation-user-missing": {
			on: node, do: "cp -a /etc/passwd /run/fault.passwd; sed -i 's/^tenant01:/gone01:/' /etc/passwd",
			undo: "cp -a /run/fault.passwd /etc/passwd; rm /run/fault.passwd", check: "! getent passwd tenant01",
		},
		"pty-shell-broken": {
			on: node, do: stubShell("exit 1"), undo: unstubShell, check: "! $(getent passwd tenant01 | cut -d: -f7) -c true",
		},
		"pty-delayed": {
			on: node, do: stubShell("sleep 30"), undo: unstubShell,
			check: "! timeout 1 $(getent passwd tenant01 | cut -d: -f7) -c true",
		},
		"ops-path-lost": {
			on: node, do: "systemctl stop ssh.socket ssh 2>/dev/null || systemctl stop ssh", undo: "systemctl start ssh",
			check: "! ss -Hltn 'sport = 22' | grep -q .",
		},
		"sshd-frozen": {
			on: node, do: "kill -STOP $(systemctl show -P MainPID ssh)", undo: "kill -CONT $(systemctl show -P MainPID ssh)",
			check: "grep -q '^State:.T' /proc/$(systemctl show -P MainPID ssh)/status",
		},
		"guest-agent-down": {
			on: node, prepare: guestAgentDown,
			do: opsBlock, undo: opsUnblock, check: "nft list table inet fault | grep -q 'dport 22 drop'",
		},
		"terminal-upgrade-unanswered": {
			on: platform,
			do: silentWebSocket + termToSilence, undo: termBack + "; " + endSilence,
			check: `curl -sk -m 2 -o /dev/null -w '%{http_code}' --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' --resolve term.gpuaas.test:443:10.231.77.10 https://term.gpuaas.test/v1/terminal/ws | grep -q 101`,
		},
		"host-key-changed": {
			on: node, do: "cp -a /etc/ssh/ssh_host_ed25519_key /run/fault.key; rm /etc/ssh/ssh_host_ed25519_key; ssh-keygen " +
				"-q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key; systemctl restart ssh",
			undo: "cp -a /run/fault.key /etc/ssh/ssh_host_ed25519_key; rm -f /run/fault.key " +
				"/etc/ssh/ssh_host_ed25519_key.pub; systemctl restart ssh",
			check: "! cmp -s /run/fault.key /etc/ssh/ssh_host_ed25519_key",
		},
		"heartbeat-refused": {
			on: platform, prepare: refusing("heartbeat", 500), do: fmt.Sprintf("touch %s; sleep %d", refusal, staleHeartbeat),
			undo: "rm " + refusal, check: "test -e " + refusal,
		},
		"result-post-blocked": {
			on: platform, prepare: refusing("result", 503),
			do: "touch " + refusal, undo: "rm " + refusal, check: "test -e " + refusal,
		},
		"workload-stopped": {
			on: node, do: "systemctl stop " + app, undo: "systemctl start " + app,
			check: "! curl -sf -m 2 http://127.0.0.1:8888/ -o /dev/null",
		},
		"api-name-unknown": {
			on:    platform,
			do:    "cp /etc/dnsmasq.conf /run/fault.dns; sed -i '/node-api/d' /etc/dnsmasq.conf; systemctl restart dnsmasq",
			undo:  "cp /run/fault.dns /etc/dnsmasq.conf; rm /run/fault.dns; systemctl restart dnsmasq",
			check: "! grep -q node-api /etc/dnsmasq.conf && ss -Hlun 'sport = 53' | grep -q .",
		},
		"stale-ca-bundle": {
			on: node, prepare: staleBundle,
			do: "cp -aL /etc/gpuaas/ca-bundle.crt /run/fault.bundle; cat /root/stale.crt >/etc/gpuaas/ca-bundle.crt; " +
				"systemctl restart gpuaas-node-agent",
			undo: "cat /run/fault.bundle >/etc/gpuaas/ca-bundle.crt; rm /run/fault.bundle /root/stale.crt; systemctl restart " +
				"gpuaas-node-agent",
			check: "! curl -s -m 3 --cacert /etc/gpuaas/ca-bundle.crt https://node-api.gpuaas.test/healthz -o /dev/null",
		},
		"ca-bundle-missing": { // in every generation, since the agent would go back to an older one
			on: node, do: "for f in /etc/gpuaas/generations/*/ca-bundle.crt; do mv $f $f.fault; done; systemctl restart " +
				"gpuaas-node-agent",
			undo: "for f in /etc/gpuaas/generations/*/ca-bundle.crt.fault; do mv $f ${f%.fault}; done; systemctl restart " +
				"gpuaas-node-agent",
			check: "! test -e /etc/gpuaas/ca-bundle.crt",
		},
		"api-name-elsewhere": {
			on: node, do: "cp -a /etc/hosts /run/fault.hosts; echo 10.231.77.102 node-api.gpuaas.test >>/etc/hosts; systemctl " +
				"restart gpuaas-node-agent",
			undo:  "cp -a /run/fault.hosts /etc/hosts; rm /run/fault.hosts; systemctl restart gpuaas-node-agent",
			check: "getent hosts node-api.gpuaas.test | grep -q 77.102",
		},
		"sudo-refused": {
			on: node, do: "mv /etc/sudoers.d/ops /run/fault.sudo", undo: "mv /run/fault.sudo /etc/sudoers.d/ops",
			check: "! su ops -s /bin/sh -c 'sudo -n true' 2>/dev/null",
		},
		"node-cert-expired": {
			on: node, prepare: expiredCert,
			do: swapCredential, undo: restoreCredential,
			check: "! openssl x509 -in /etc/gpuaas/cert.pem -noout -checkend 0",
		},
	}
	maps.Copy(f, cutFaults(node))
	f["agent-network-private"] = agentUnit(node, "PrivateNetwork=yes", ownNet)
	other := agentUnit(node, "NetworkNamespacePath=/run/netns/fault", ownNet)
	other.do, other.undo = "ip netns add fault; ip -n fault link set lo up; "+other.do,
		other.undo+"; ip netns delete fault"
	f["agent-network-other"] = other
	f["agent-families-refused"] = agentUnit(node, "RestrictAddressFamilies=\\nRestrictAddressFamilies=AF_UNIX AF_NETLINK",
		agentSays("address family not supported"))
	f["agent-addresses-denied"] = agentUnit(node, "IPAddressDeny=any", agentSays("operation not permitted"))
	add := func(name, machine, check string, do, undo string) {
		f[name] = fault{on: machine, do: do, undo: undo, check: check}
	}
	pair := func(do, undo string) [2]string { return [2]string{do, undo} }
	for name, row := range map[string]struct {
		on, check string
		p         [2]string
	}{
		"api-egress-blocked": {node, "! curl -sk -m 2 https://10.231.77.11/ -o /dev/null",
			pair(nft("output", "ip daddr 10.231.77.11 tcp dport 443 drop"))},
		"api-egress-rejected": {node, "! curl -sk -m 2 https://10.231.77.11/ -o /dev/null",
			pair(nft("output", "ip daddr 10.231.77.11 tcp dport 443 reject with tcp reset"))},
		"api-dns-broken": {node, "! timeout 5 getent hosts node-api.gpuaas.test",
			pair(nft("input", "udp sport 53 drop"))},
		"terminal-egress-blocked": {node, "! curl -sk -m 2 https://10.231.77.10:18443/ -o /dev/null",
			pair(nft("output", "tcp dport 18443 drop"))},
		"wrong-public-edge": {node,
			"tr '\\0' '\\n' </proc/$(systemctl show -P MainPID gpuaas-node-agent)/environ | grep -q API_URL=https://api.gpuaas",
			pair(agentEnv("GPUAAS_API_URL", "https://api.gpuaas.test"))},
		"terminal-url-wrong": {node,
			"tr '\\0' '\\n' </proc/$(systemctl show -P MainPID gpuaas-node-agent)/environ | grep -q :18444",
			pair(agentEnv("GPUAAS_TERMINAL_API_URL", "https://term.gpuaas.test:18444"))},
		"ingress-ca-drift": {platform, "! cmp -s /etc/nginx/tls/ingress-ca.crt /etc/gpuaas-platform/pki/signing-ca.crt", pair(
			"cp /etc/nginx/tls/ingress-ca.crt /run/fault.ca; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 "+
				"-nodes -keyout /dev/null -subj /CN=somebody-else -days 1 -out /etc/nginx/tls/ingress-ca.crt 2>/dev/null; "+
				restartNginx,
			"cp /run/fault.ca /etc/nginx/tls/ingress-ca.crt; rm /run/fault.ca; "+restartNginx)},
		"edge-rate-limited": {
			platform, "curl -sk -m 2 -o /dev/null -w '%{http_code}' --resolve node-api.gpuaas.test:443:10.231.77.11 " +
				"https://node-api.gpuaas.test/healthz | grep -q 429",
			pair(nginx("/etc/nginx/node-ingress.d/node-api.conf",
				`s,if (.ssl_client_verify = NONE).*,add_header Retry-After 5 always; return 429;,`)),
		},
		"terminal-route-missing": {
			platform, "! curl -skf -m 2 -o /dev/null --resolve term.gpuaas.test:443:10.231.77.10 " +
				"https://term.gpuaas.test/healthz",
			pair(nginx("/etc/nginx/edge.d/term.conf", `s,location / {.*,location / { return 404; },`)),
		},
		"terminal-upgrade-rejected": {platform, "grep -q 'Upgrade \"\"' /etc/nginx/edge.d/term.conf",
			pair(nginx("/etc/nginx/edge.d/term.conf",
				`s,location / {,location / { proxy_set_header Upgrade ""; proxy_set_header Connection ""; proxy_set_header Host $host;,`))},
		"workload-route-broken": {platform, "! curl -skf -m 2 -o /dev/null --resolve " + allocation +
			".apps.gpuaas.test:443:10.231.77.10 https://" + allocation + ".apps.gpuaas.test/",
			pair(nginx("/etc/nginx/edge.d/app.conf", `s,:8888,:8889,`))},
		"terminal-mtls-rejected": {platform, "grep -q somebody /etc/gpuaas-platform/platform.yaml", pair(
			"cp /etc/gpuaas-platform/platform.yaml /run/fault.yaml; openssl req -x509 -newkey ec -pkeyopt "+
				"ec_paramgen_curve:P-256 -nodes -keyout /dev/null -subj /CN=somebody-else -days 1 -out "+
				"/etc/gpuaas-platform/pki/somebody.crt 2>/dev/null; printf '  terminal_client_ca: "+
				"/etc/gpuaas-platform/pki/somebody.crt\\n' >/run/fault.line; sed -i '/^pki:/r /run/fault.line' "+
				"/etc/gpuaas-platform/platform.yaml; "+restartPlatform,
			"cp /run/fault.yaml /etc/gpuaas-platform/platform.yaml; rm -f /run/fault.yaml /run/fault.line "+
				"/etc/gpuaas-platform/pki/somebody.crt; "+restartPlatform)},
	} {
		add(name, row.on, row.check, row.p[0], row.p[1])
	}
	full, stopped, route := f["disk-full"], f["agent-stopped"], f["terminal-route-missing"]
	f["three-faults"] = fault{
		on: node, do: full.do + "\n" + stopped.do, undo: full.undo + "\n" + stopped.undo, check: stopped.check, and: &route,
	}
	return f
}

// silentWebSocket is a service that accepts every WebSocket, like a gateway, and then sends nothing.
const silentWebSocket = `mkdir -p /run/systemd/system
cat >/run/silent-ws <<'X'
#!/bin/sh
while read -r name value; do
	value=$(printf %s "$value" | tr -d '\r')
	case $(printf %s "$name" | tr A-Z a-z) in
	sec-websocket-key:) key=$value ;;
	sec-websocket-protocol:) protocol=$value ;;
	"$(printf '\r')" | '') break ;;
	esac
done
accept=$(printf %s "${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11" | openssl sha1 -binary | openssl base64)
printf 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n' "$accept"
if [ -n "$protocol" ]; then printf 'Sec-WebSocket-Protocol: %s\r\n' "${protocol%%,*}"; fi
printf '\r\n'
sleep 30
X
chmod 755 /run/silent-ws
printf '[Socket]\nListenStream=127.0.0.1:8099\nAccept=yes\n' >/run/systemd/system/silent-ws.socket
printf '[Service]\nExecStart=/bin/sh /run/silent-ws\nStandardInput=socket\n' >/run/systemd/system/silent-ws@.service
systemctl daemon-reload; systemctl start silent-ws.socket
`

const endSilence = "systemctl stop silent-ws.socket 'silent-ws@*'; rm -f /run/silent-ws " +
	"/run/systemd/system/silent-ws.socket /run/systemd/system/silent-ws@.service; systemctl daemon-reload"

// guestAgentDown sets the provider's status of a machine to a lost guest agent until the test ends.
func guestAgentDown(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	say := func(status string) {
		api(t, l, "/v1/admin/nodes/"+machine+"/provider", `{"guest_agent":{"status":"`+status+`"},"reason":"fault by hand"}`)
	}
	t.Cleanup(func() { say("running") })
	say("down")
}

// fillDisk fills in shrinking steps, since a file system allocates its last bytes in pages; journald frees some,
// so it tops up once.
const fillDisk = `n=0; for again in 1 2; do for bs in 1M 64k 4k 512; do while dd if=/dev/zero of=/var/fill.$n bs=$bs count=4096 2>/dev/null; do n=$((n+1)); done; n=$((n+1)); done; sleep 0.3; done; true`

const unstubShell = "cp -a /run/fault.passwd /etc/passwd; rm -f /run/fault.passwd /usr/local/bin/stub-shell"

func stubShell(body string) string {
	return "cp -a /etc/passwd /run/fault.passwd; printf '#!/bin/sh\\n" + body +
		"\\nexit 1\\n' >/usr/local/bin/stub-shell; chmod 755 /usr/local/bin/stub-shell; sed -i " +
		"'/^tenant01:/s,:[^:]*$,:/usr/local/bin/stub-shell,' /etc/passwd"
}

// The credential's files are links into a generation: what is kept and restored is what they lead to.
const (
	swapCredential = "mkdir /run/fault; cp -aL /etc/gpuaas/cert.pem /etc/gpuaas/key.pem /run/fault/; cat " +
		"/root/cert.pem >/etc/gpuaas/cert.pem; cat /root/key.pem >/etc/gpuaas/key.pem; systemctl restart gpuaas-node-agent"
	restoreCredential = "cat /run/fault/cert.pem >/etc/gpuaas/cert.pem; cat /run/fault/key.pem >/etc/gpuaas/key.pem; rm " +
		"-r /run/fault /root/cert.pem /root/key.pem; systemctl restart gpuaas-node-agent"
)
