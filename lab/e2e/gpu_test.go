//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestGPUsJudgedHere: if no platform judges GPUs, a walk and gpu status judge a node over SSH by a policy of the
// profile, from the agent's file and from the kernel log, in the same words as a platform.
func TestGPUsJudgedHere(t *testing.T) {
	l := needLab(t)
	machine := ownNode(t, l)
	green(t, machine)
	own := judgingProfile(t, "")
	const answers = "/run/gpuaas-lab/nvml"
	change := func(script string) string {
		return "{ " + script + "; } >" + answers + ".new; mv " + answers + ".new " + answers
	}
	on(t, l, machine, "cp "+answers+" /run/answers")
	t.Cleanup(func() {
		on(t, l, machine, change("cat /run/answers"))
		agreed(t, machine, own, 0, "HEALTHY", "GPU 1")
	})

	a := agreed(t, machine, own, 0, "HEALTHY", "GPU 1")
	if len(a.GPUs) != 2 || a.Expected != nil ||
		!strings.Contains(strings.Join(a.Notes, " "), "number of GPUs is not configured") {
		t.Errorf("%+v", a)
	}
	wantWalk(t, machine, own, 0, diag.StatusPass, "2 GPUs healthy by the policy default")

	on(t, l, machine, change(`cat /run/answers; printf '@0 %s\n' 'field_230 1' 'event 8 119' 'event 0x8000 1'`))
	agreed(t, machine, own, 3, "UNHEALTHY", "xid 119")
	// Found by the event, or by the sample in which the driver requests a reset, whichever the agent has first.
	wantWalk(t, machine, own, 3, diag.StatusFail, "the GPUs are unhealthy by the policy default: ", "0000:19:00.0")

	// without the agent's file the kernel log is the only source
	alone := judgingProfile(t, "agent: {gpu_state: /run/none.json}\n")
	status(t, machine, alone, 5, "UNKNOWN")
	t.Cleanup(func() { on(t, l, machine, "rm -f /dev/kmsg") })
	on(t, l, machine, "echo '4,7,1000000,-;NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus.' >/dev/kmsg")
	if a := status(t, machine, alone, 3, "UNHEALTHY"); a.Decided.Subject.What != "xid 79" {
		t.Errorf("decided by %+v", a.Decided)
	}
}

// judgingProfile returns the lab's profile changed to one of a platform without GPU events.
func judgingProfile(t *testing.T, more string) string {
	t.Helper()
	text, err := os.ReadFile(profile.Path("lab", profile.Dir(os.Getenv)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "own.yaml")
	text = append(text, "gpu: {policy: default}\nmapping: {paths: {node_gpu: '-'}}\n"+more...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// status is the admission document of a node.
func status(t *testing.T, machine, by string, want int, health string) *reading.GPUAdmission {
	t.Helper()
	a, code, said := tryStatus(t, machine, by)
	if code != want || a.Health != health {
		t.Errorf("exit %d, want %d %s: %s", code, want, health, said)
	}
	return a
}

func tryStatus(t *testing.T, machine, by string) (a *reading.GPUAdmission, code int, said string) {
	t.Helper()
	out, stderr, code := try(t, time.Minute, "gpu", "status", machine, "--profile", by, "-o", "json")
	a = &reading.GPUAdmission{}
	if err := json.Unmarshal(out, a); err != nil && len(out) > 0 {
		t.Fatal(err)
	}
	return a, code, string(out) + string(stderr)
}

// agreed waits until the tool and the platform report that health and that finding for the node, in the same
// words.
func agreed(t *testing.T, machine, own string, want int, health, finding string) *reading.GPUAdmission {
	t.Helper()
	var said, of string
	for began := time.Now(); time.Since(began) < settle; time.Sleep(500 * time.Millisecond) {
		var here, there *reading.GPUAdmission
		var code, at int
		here, code, said = tryStatus(t, machine, own)
		there, at, of = tryStatus(t, machine, "lab")
		same := here.JudgedBy == "gpuaasctl" && there.JudgedBy == "platform" && here.Policy.SHA256 == there.Policy.SHA256 &&
			here.Tables == there.Tables && here.Decided.Words() == there.Decided.Words() &&
			reflect.DeepEqual(here.GPUs, there.GPUs) && reflect.DeepEqual(here.Findings, there.Findings)
		found := func(f reading.GPUFinding) bool { return f.Subject.What == finding }
		if same && slices.ContainsFunc(here.Findings, found) && code == want && at == want && here.Health == health {
			return here
		}
	}
	t.Fatalf("not %s %s by both after %s:\n%s\n%s", health, finding, settle, said, of)
	return nil
}

// wantWalk walks the hop without asking a platform about GPUs.
func wantWalk(t *testing.T, machine, own string, want int, status diag.Status, says ...string) {
	t.Helper()
	argv := []string{"preflight", "--profile", own, "-o", "json", "--only", string(diag.HopGPUHealth)}
	out, stderr, code := try(t, 90*time.Second, append(argv, subject(machine)...)...)
	var r diag.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("exit %d, no report: %v\n%s", code, err, stderr)
	}
	h := r.Hops[slices.IndexFunc(r.Hops, func(h diag.HopResult) bool { return h.ID == diag.HopGPUHealth })]
	unsaid := func(s string) bool { return !strings.Contains(h.Text+h.Because, s) }
	if code != want || h.Status != status || slices.ContainsFunc(says, unsaid) {
		t.Errorf("exit %d, %s %q, want %d %s %q", code, h.Status, h.Text+h.Because, want, status, says)
	}
	asked := func(f diag.Fact) bool { return f.ID == "gpu_health/admission" }
	if slices.ContainsFunc(r.Facts, asked) {
		t.Error("the platform was asked")
	}
}
