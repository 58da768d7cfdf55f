package chaos

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

var testNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // a Friday

// testProfile is an environment with two nodes.
func testProfile() profile.Profile {
	return profile.Profile{
		Name: "lab", APIBase: "https://api.gpuaas.test", APIResolveAddress: "10.231.77.10",
		TerminalBase: "https://term.gpuaas.test", TerminalResolveAddress: "10.231.77.10",
		NodeRuntimeAPIURL: "https://node-api.gpuaas.test", NodeRuntimeResolveAddress: "10.231.77.11",
		NodeTerminalURL: "https://term.gpuaas.test:18443", NodeTerminalResolveAddress: "10.231.77.10",
		Nodes: map[string]profile.Node{"n1": {Host: "10.231.77.101", Labels: map[string]string{"lab": "true"}},
			"n2": {Host: "10.231.77.102"}},
		SSH:         profile.SSH{User: "ops", Identity: "/home/op/key", KnownHosts: "/home/op/known_hosts"},
		PlatformSSH: profile.SSH{Host: "10.231.77.10"}, Chaos: profile.Chaos{Allow: true},
	}.WithDefaults()
}

func addresses(all ...string) Name {
	var n Name
	for _, a := range all {
		n = append(n, netip.MustParseAddr(a))
	}
	return n
}

// testMachine is a node that has everything that a drill may need.
func testMachine(role Role, id string) Machine {
	m := Machine{
		Role: role, ID: id, Host: id, Now: testNow, Root: true, SSH: netip.MustParseAddrPort("10.231.77.1:50022"),
		Consent: Consent{Present: true, Node: id, Until: testNow.Add(240 * time.Hour), Disposable: true}, Cgroup2: true,
		Nft: true,
	}
	m.make()
	for _, t := range []string{"nft", "curl", "setpriv", "getent", "timeout", "cat", "test", "systemctl", "grep",
		"openssl", "false", "sleep", "stat", "awk", "find", "rm", "cmp", "nc", "ss", "nvml-read", "journalctl"} {
		m.Tools[t] = Tool("/usr/bin/" + t)
	}
	for _, u := range []string{"gpuaas-node-agent.service", "nginx.service", "gpuaas-platform.service", "app.service",
		"ssh.service"} {
		m.Units[u] = Unit{Loaded: true, Active: "active", PID: 100, Private: true}
	}
	m.Units["ssh.socket"] = Unit{}
	m.Units["sshd.service"] = Unit{ID: "ssh.service", Loaded: true, Active: "active", PID: 100}
	m.Names["node-api.gpuaas.test"] = addresses("10.231.77.11", "fd00::11")
	m.Names["term.gpuaas.test"] = addresses("10.231.77.10")
	m.Names["127.0.0.1"] = addresses("127.0.0.1")
	m.Users["tenant01"] = User{UID: 2001, GID: 2001, Home: "/home/tenant01", Shell: "/bin/bash"}
	m.Users["gpuaas"] = User{UID: 800, GID: 800, Shell: "/usr/sbin/nologin"}
	file := func(path, real, text string, mode uint32, uid int) {
		m.Files[path] = File{Kind: "file", Path: real, Mode: mode, UID: uid, GID: uid, Text: text}
	}
	const gen = "/etc/gpuaas/generations/000001-aa/"
	file("/etc/gpuaas/cert.pem", gen+"cert.pem", "", 0o644, 0)
	file("/etc/gpuaas/key.pem", gen+"key.pem", "", 0o600, 0)
	file("/etc/gpuaas/ca-bundle.crt", gen+"ca-bundle.crt", "", 0o644, 0)
	file("/etc/gpuaas/agent.env", "/etc/gpuaas/agent.env", "", 0o600, 0)
	file("/etc/hosts", "/etc/hosts", "127.0.0.1 localhost\n10.0.0.7 old.test other.test # by hand\n", 0o644, 0)
	file("/etc/nsswitch.conf", "/etc/nsswitch.conf", "passwd: files\nhosts: files dns\n", 0o644, 0)
	file("/etc/passwd", "/etc/passwd", "root:x:0:0::/root:/bin/bash\ntenant01:x:2001:2001::/home/tenant01:/bin/bash\n",
		0o644, 0)
	file("/etc/nginx/edge.d/term.conf", "/etc/nginx/edge.d/term.conf",
		"server {\n\tlocation / { proxy_pass http://127.0.0.1:8082; }\n}\n", 0o644, 0)
	file("/etc/nginx/tls/ingress-ca.crt", "/etc/nginx/tls/ingress-ca.crt", "", 0o644, 0)
	file("/etc/gpuaas-platform/task-signing.key", "/etc/gpuaas-platform/task-signing.key", "", 0o600, 800)
	file("/usr/local/bin/other-agent", "/usr/local/bin/other-agent", "", 0o755, 0)
	file("/bin/bash", "/usr/bin/bash", "", 0o755, 0)
	file("/bin/sh", "/usr/bin/dash", "", 0o755, 0)
	file(gpuFakeFile, gpuFakeFile, "# the lab's GPUs\ngpus 2\n", 0o644, 0)
	file("/etc/motd", "/etc/motd", "hello\n", 0o644, 0)
	file("/etc/ssh/sshd_config", "/etc/ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\n", 0o644, 0)
	file("/etc/pam.d/sshd", "/etc/pam.d/sshd", "account    required     pam_nologin.so\n", 0o644, 0)
	file("/etc/sudoers", "/etc/sudoers", "@includedir /etc/sudoers.d\n", 0o440, 0)
	for _, d := range []string{"/", "/dev/shm", "/var/lib/gpuaas/diag"} {
		m.Files[d] = File{Kind: "dir", Path: d, Mode: 0o755}
	}
	return m
}

func testFacts(machines ...Machine) Facts {
	return Facts{
		Now: testNow, Operator: "ann@laptop", Machines: machines,
		Tools: map[string]string{"curl": "/usr/bin/curl", "ssh": "/usr/bin/ssh", "timeout": "/usr/bin/timeout"},
		Allocation: &Allocation{ID: "a1", State: "active", NodeID: "n1", OSUser: "tenant01", AppUnit: "app.service",
			AppPort: "8888", AppURL: "https://a1.apps.gpuaas.test/"},
	}
}

// golden compares with testdata/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	goldentest.Check(t, filepath.Join("testdata", name), got)
}
