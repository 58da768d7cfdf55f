//go:build linux

package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// mostExposed is the highest accepted `systemd-analyze security` score of a shipped unit: 0 is closed, 10 is open.
const mostExposed = 5.0

// closed lists the directives of both units.
var closed = []string{
	"NoNewPrivileges=yes", "PrivateMounts=yes", "KeyringMode=private", "LockPersonality=yes", "MemoryDenyWriteExecute=yes",
	"ProtectHostname=yes", "RestrictNamespaces=yes", "RestrictRealtime=yes", "RestrictSUIDSGID=yes",
	"SystemCallArchitectures=native", "SystemCallErrorNumber=EPERM", "SystemCallFilter=@system-service",
}

// TestUnitsAreClosed checks the directives of the shipped units and, where systemd-analyze can run, their score.
func TestUnitsAreClosed(t *testing.T) {
	for file, more := range map[string][]string{
		"node/gpuaas-node-agent.service": {
			"CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_KILL CAP_SETGID CAP_SETUID CAP_SYS_PTRACE",
			"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK", "SystemCallFilter=~@resources",
			"OOMPolicy=continue", "OOMScoreAdjust=-500",
		},
		"platform/gpuaas-platform.service": {
			"User=gpuaas", "CapabilityBoundingSet=", "ProtectSystem=strict", "ProtectHome=yes", "PrivateDevices=yes",
			"ProtectKernelTunables=yes", "ProtectControlGroups=yes", "SystemCallFilter=~@privileged @resources",
		},
	} {
		text, err := templates.ReadFile("templates/" + file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for _, want := range append(slices.Clone(closed), more...) {
			if !slices.Contains(lines, want) {
				t.Errorf("%s lacks %s", file, want)
			}
		}
		t.Run(filepath.Base(file), func(t *testing.T) { score(t, string(text), filepath.Base(file)) })
	}
}

// score returns systemd's exposure score of a unit.
func score(t *testing.T, text, name string) {
	t.Helper()
	tier.NeedsHost(t)
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("skipped: needs systemd-analyze")
	}
	path := filepath.Join(t.TempDir(), name)
	// The program and the user exist only on a node.
	text = regexp.MustCompile(`(?m)^ExecStart=\S+`).ReplaceAllString(text, "ExecStart=/bin/true")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", path).CombinedOutput()
	if strings.Contains(string(out), "unrecognized option") {
		t.Skip("skipped: systemd-analyze is older than 250")
	}
	m := regexp.MustCompile(`exposure level for \S+ ([0-9.]+) `).FindSubmatch(out)
	if m == nil {
		t.Fatalf("%v, no score:\n%s", err, out)
	}
	if got, err := strconv.ParseFloat(string(m[1]), 64); err != nil || got > mostExposed {
		t.Errorf("exposure %s, more than %.1f:\n%s", m[1], mostExposed, out)
	}
	t.Logf("exposure %s", m[1])
}

// TestAgentHidesNothingOfTenants: terminals enter the agent's mounts, so its unit may not change a tenant's view
// of the file system.
func TestAgentHidesNothingOfTenants(t *testing.T) {
	text, err := templates.ReadFile("templates/node/gpuaas-node-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ProtectSystem", "ProtectHome", "ProtectProc", "ProcSubset", "PrivateTmp", "PrivateDevices", "PrivateUsers",
			"ProtectKernelTunables", "ProtectKernelLogs", "ProtectKernelModules", "ProtectControlGroups", "ProtectClock",
			"ReadOnlyPaths", "InaccessiblePaths", "TemporaryFileSystem", "RootDirectory", "RootImage", "NoExecPaths",
			"DynamicUser":
			t.Errorf("%s= changes what a terminal sees", key)
		}
	}
}

func TestRender(t *testing.T) {
	lists := map[string][]values{"Nodes": {{"Name": "a"}, {"Name": "b"}}, "GPUs": nil}
	for text, want := range map[string]string{
		"{{Name}}\n{{each Nodes}}\n- {{Name}} {{Port}}\n{{each GPUs}}\ngpu\n{{end GPUs}}\n{{end Nodes}}\n{{Port}}"://
		"x\n- a 1\n- b 1\n1",
		"{{Nothing}}": "", "{{each Nodes}}\n": "", "{{each Links}}\n{{end Links}}\n": "",
	} {
		got, err := render(text, values{"Name": "x", "Port": "1"}, lists)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
