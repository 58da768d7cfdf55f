//go:build linux

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/lab"
)

// canaryDropIn makes the agent's unit print secrets to its journal at each start, from a program with the agent's
// name: a bundle leaves out lines of another program if the journal identifies it.
const canaryDropIn = `cp /bin/echo ` + canaryProgram + `; d=/etc/systemd/system/gpuaas-node-agent.service.d; mkdir -p $d
printf '[Service]\nExecStartPre=` + canaryProgram + ` GPUAAS_ENROLLMENT_TOKEN=CanaryTok3nInTheJournal99 ` +
	`Cookie: sid=canarycookie77\nExecStartPre=` + canaryProgram +
	` at https://x.test/?ticket=canaryquery55\n' >$d/canary.conf
systemctl daemon-reload; systemctl restart gpuaas-node-agent`

const canaryProgram = "/usr/local/bin/gpuaas-agent-canary"

var journalCanaries = []string{"CanaryTok3n", "canarycookie", "canaryquery"}

// TestBundle: on a healthy node, with a dead agent, with a dead API, and from a machine that is off, the archive
// contains all available evidence, lists what is missing, and is finished within its budget.
func TestBundle(t *testing.T) {
	l := needLab(t)
	green(t, node)
	on(t, l, node, canaryDropIn)
	t.Cleanup(func() {
		run(t, 2*time.Minute, "lab", "up")
		on(t, l, node, "rm -rf /etc/systemd/system/gpuaas-node-agent.service.d "+canaryProgram+"; "+restart)
		green(t, node)
	})
	green(t, node)
	for _, c := range []struct {
		name     string
		do, undo func()
		code     int
		missing  []string
	}{
		{"healthy", func() {}, func() {}, 0, nil},
		{"agent stopped", func() { on(t, l, node, "systemctl stop gpuaas-node-agent") },
			func() { on(t, l, node, "systemctl start gpuaas-node-agent") }, 0, nil},
		{"API down", func() { on(t, l, platform, "systemctl stop gpuaas-platform") },
			func() { on(t, l, platform, "systemctl start gpuaas-platform") }, 5,
			[]string{"node read model", "allocation read model", "platform evidence"}},
		{"machine off", func() { powerOff(t, l, node) }, func() {}, 5,
			[]string{"record", "agent journal"}},
	} {
		c.do()
		m := bundle(t, l, c.name, c.code)
		c.undo()
		var missing []string
		for _, g := range m.Missing() {
			missing = append(missing, g.Source)
		}
		if strings.Join(missing, ",") != strings.Join(c.missing, ",") {
			t.Errorf("%s: %q are missing, want %q", c.name, missing, c.missing)
		}
	}
}

// bundle creates a bundle, checks it, and searches each of its files for secrets.
func bundle(t *testing.T, l *lab.Lab, name string, want int) *evidence.Manifest {
	t.Helper()
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	began := time.Now()
	out, stderr, code := try(t, 2*time.Minute, "diag", "bundle", node, "--profile", "lab", "--allocation-id", "alloc-01",
		"-O", path)
	if code != want {
		t.Fatalf("%s: exit %d, want %d\n%s%s", name, code, want, out, stderr)
	}
	t.Logf("%s: it took %s", name, time.Since(began))
	run(t, 2*time.Minute, "diag", "bundle", "verify", path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := evidence.Open(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range m.Files {
		noSecrets(t, l, f.Data)
		for _, canary := range journalCanaries {
			if bytes.Contains(f.Data, []byte(canary)) {
				t.Errorf("%s: %s holds %s", name, f.Path, canary)
			}
		}
		if f.Path == evidence.HistoryName && name == "healthy" {
			joined(t, m, f.Data)
		}
	}
	return m
}

// joined checks the history for the walk's own task: one correlation id, in the events of every component that
// handled it.
func joined(t *testing.T, m *evidence.Manifest, history []byte) {
	t.Helper()
	events, err := evidence.ReadNDJSON(history)
	if err != nil {
		t.Fatal(err)
	}
	told, canary := map[evidence.Origin]bool{}, false
	for _, e := range events {
		if e.CorrelationID == m.WalkID {
			told[e.Origin] = true
		}
		canary = canary || strings.Contains(e.Message, "GPUAAS_ENROLLMENT_TOKEN=[redacted]")
		if e.NodeID != "" && e.NodeID != m.NodeID {
			t.Errorf("the history has a line about %s", e.NodeID)
		}
	}
	for _, o := range []evidence.Origin{evidence.FromAgent, evidence.FromIngress, evidence.FromNodeAPI, evidence.FromAPI,
		evidence.FromGateway, evidence.FromTasks, evidence.FromSessions, evidence.FromPreflight} {
		if !told[o] {
			t.Errorf("%s says nothing of the walk's requests", o)
		}
	}
	if !canary {
		t.Error("the line with the canary is not in the history, so nothing was shown to be redacted")
	}
}
