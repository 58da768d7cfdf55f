//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab"
)

// TestRecoveryRecordOfADeadMachine: a node that could not report its failure is switched off. Its disk shows the
// reason, to the tool and, roughly, to `strings`; and the node continues where it was when it is switched on
// again.
func TestRecoveryRecordOfADeadMachine(t *testing.T) {
	l := needLab(t)
	c := begin(t, l, "compute-node-02")
	mintCert(t, l, c.node, -25*time.Hour, -time.Hour)
	c.on(stopAgent + "; " + noToken + "; " + useMaterial + "; systemctl start gpuaas-node-agent")
	c.says(diag.RecCertExpired, "report")
	c.says(diag.RecRecoveryTokenMissing, "retry")

	powerOff(t, l, c.node)
	c.step("off")
	copied := filepath.Join(t.TempDir(), "diag")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(diskOf(t, l, c.node), "var/lib/gpuaas/diag"))); err != nil {
		t.Fatal(err)
	}
	for _, from := range [][]string{{"--root", diskOf(t, l, c.node)}, {copied}, {filepath.Join(copied, "record")}} {
		out := run(t, 2*time.Minute, append([]string{"diag", "decode", "-o", "json", "--limit", "256"}, from...)...)
		noSecrets(t, l, out)
		entries := c.new(parseShown(t, out))
		for _, want := range []struct {
			reason   diag.RecordReason
			decision string
		}{{diag.RecCertExpired, "report"}, {diag.RecRecoveryTokenMissing, "retry"}, {diag.RecShutdown, "stop"}} {
			if _, ok := decided(entries, want.reason, want.decision); !ok {
				t.Errorf("%v does not tell of %s %s:\n%s", from, want.reason, want.decision, told(entries))
			}
		}
	}
	// as strings does
	story, err := exec.Command("grep", "-ahoE", "[[:print:]]{40,}", filepath.Join(copied, "record"),
		filepath.Join(copied, "pinned")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{string(diag.RecCertExpired), string(diag.RecRecoveryTokenMissing), c.node,
		"no token; expected one for node"} {
		if !strings.Contains(string(story), want) {
			t.Errorf("the text on the disk does not say %q", want)
		}
	}
	noSecrets(t, l, story)
	out, _, _ := try(t, 2*time.Minute, "diag", "classify", copied, "-o", "json")
	if !strings.Contains(string(out), `"reason": "`+string(diag.ReasonRecoveryTokenMissing)+`"`) {
		t.Errorf("classified by its record alone:\n%s", out)
	}
	c.step("reported")

	up := exec.Command(tool(), "lab", "up") // it waits for a heartbeat, which only the operator can restore
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Wait() })
	c.began = time.Now()
	c.bootedAgain()
	c.says(diag.RecRecoveryTokenMissing, "retry")
	c.enrolled(0, 0)
	c.reenroll()
	c.well()
	c.enrolled(1, 0)
}

// powerOff switches a machine off, and waits until it is.
func powerOff(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	on(t, l, machine, "systemctl --no-block poweroff 2>/dev/null || systemctl --force --no-block poweroff")
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if _, err := readFile(l, machine, "/etc/hostname"); err != nil {
			return
		}
		if time.Since(began) > settle {
			t.Fatalf("%s does not go off", machine)
		}
	}
}

// bootedAgain waits until the machine answers SSH again.
func (c *trial) bootedAgain() {
	c.t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if _, _, code := try(c.t, 2*time.Minute, "diag", "show", c.node, "--profile", "lab"); code == 0 {
			c.step("on again")
			return
		}
		if time.Since(began) > settle {
			c.t.Fatal("the machine does not come on")
		}
	}
}
