package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/hostiletest"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// admissionOf returns the answer of a platform whose policy gives this health to a node with one GPU.
func admissionOf(t *testing.T, health, why string) []byte {
	t.Helper()
	gpu := map[string]any{"about": "gpu", "what": "GPU 0", "index": 0, "uuid": "GPU-1", "pci": "0000:3b:00.0",
		"health": health, "rule": "fatal-error", "why": why}
	found := map[string]any{"health": health, "rule": "fatal-error", "why": why, "subject": map[string]any{
		"about": "event", "what": "xid 79", "index": 0, "uuid": "GPU-1", "pci": "0000:3b:00.0"}}
	text, err := json.Marshal(map[string]any{
		"health": health, "status": "UNHEALTHY", "before": "ACTIVE", "xid_tables": "9c0f",
		"policy":     map[string]any{"name": "default", "sha256": "29dc91908d442ac1", "mode": "enforce"},
		"decided_by": found, "findings": []any{found}, "gpus": []any{gpu}, "gpus_expected": 1, "notes": []string{why},
		"sampled_at": "2026-01-02T03:04:05Z", "judged_at": "2026-01-02T03:04:06Z", "now": "2026-01-02T03:04:25Z",
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestGPUStatus: the exit code is the health's, the page has what a person needs, and the JSON what a gate needs.
func TestGPUStatus(t *testing.T) {
	tier.NeedsHost(t)
	for health, want := range map[string]int{"HEALTHY": cmdutil.ExitPass, "DEGRADED": cmdutil.ExitFailed,
		"UNHEALTHY": cmdutil.ExitFailed, "UNKNOWN": cmdutil.ExitInconclusive, "FINE": cmdutil.ExitInconclusive} {
		p := &mappedPlatform{t: t, patient: true, alter: func(name string, answer []byte) []byte {
			if name == profile.PathNodeGPU {
				return admissionOf(t, health, "not usable")
			}
			return answer
		}}
		code, said := p.runOn([]string{"gpu", "status", "n1"})
		if code != want {
			t.Errorf("%s: exit %d, want %d: %s", health, code, want, said)
		}
		for _, part := range []string{health, "default, sha256 29dc91908d44, mode enforce", "UNHEALTHY; ACTIVE again",
			"xid 79 of GPU 0, 0000:3b:00.0, GPU-1: not usable (rule fatal-error)", "1 reported, 1 expected", "20s ago",
			"gpuaasctl gpu xid explain 79"} {
			if !strings.Contains(strings.Join(strings.Fields(said), " "), part) {
				t.Errorf("%s: no %q in\n%s", health, part, said)
			}
		}
		code, said = p.runOn([]string{"gpu", "status", "n1", "-o", "json"})
		var doc struct {
			APIVersion, Kind, Node, Health string
			Policy                         struct{ SHA256 string }
			Tables                         string `json:"xid_tables"`
			GPUs                           []struct{ UUID, Health string }
			Sampled                        string `json:"sampled_at"`
			Now                            string
		}
		if err := json.Unmarshal([]byte(said), &doc); err != nil || code != want || doc.Kind != "GPUAdmission" ||
			doc.APIVersion != "gpuaasctl/v1" || doc.Node != "n1" || doc.Health != health || doc.Policy.SHA256 == "" ||
			doc.Tables == "" || len(doc.GPUs) != 1 || doc.GPUs[0].UUID != "GPU-1" || doc.GPUs[0].Health != health ||
			doc.Sampled == "" || doc.Now == "" {
			t.Errorf("%s: exit %d, %v: %+v", health, code, err, doc)
		}
		if _, said = p.runOn([]string{"node", "status", "n1"}); !strings.Contains(said, health+" (1)") ||
			strings.Contains(said, string(diag.ReasonOpsAccessUnhealthy)) { // no login is tried
			t.Errorf("%s: node status: %s", health, said)
		}
	}
}

// TestGPUStatusNamesTheLostOne: of two GPUs, the one that is gone is named, and what is said of it is said once in the
// tables.
func TestGPUStatusNamesTheLostOne(t *testing.T) {
	tier.NeedsHost(t)
	const why = "the driver cannot reach the GPU any more"
	answer := ""
	p := &mappedPlatform{t: t, patient: true, alter: func(name string, given []byte) []byte {
		if name == profile.PathNodeGPU {
			return []byte(answer)
		}
		return given
	}}
	gone := `{"about":"gpu","what":"GPU 1","index":1,"uuid":"GPU-b","pci":"0000:5e:00.0"`
	healthy := `{"about":"gpu","what":"GPU 0","index":0,"uuid":"GPU-a","pci":"0000:3b:00.0","health":"HEALTHY"}`
	answer = `{"health":"UNHEALTHY","policy":{"name":"default"},"gpus_expected":2,"gpus":[` + healthy + `,` + gone +
		`,"health":"UNHEALTHY","rule":"gpu-lost","why":"` + why + `"}],"findings":[{"health":"UNHEALTHY",` +
		`"rule":"gpu-lost","why":"` + why + `","subject":` + gone + `}}]}`
	_, said := p.runOn([]string{"gpu", "status", "n1"})
	words := strings.Join(strings.Fields(said), " ")
	if !strings.Contains(words, "2 reported, 2 expected; not healthy: GPU 1 (0000:5e:00.0, GPU-b)") ||
		strings.Count(words, why) != 1 {
		t.Error(said)
	}
	answer = `{"health":"UNHEALTHY","policy":{"name":"default"},"gpus_expected":2,"gpus":[` + healthy + `]}`
	_, said = p.runOn([]string{"gpu", "status", "n1"})
	if !strings.Contains(said, "1 reported, 2 expected, 1 not reported") || !strings.Contains(said, "0000:3b:00.0") {
		t.Error(said)
	}
}

// TestHealthyGPUSaysNoMore: a healthy GPU without findings has no lines besides its row.
func TestHealthyGPUSaysNoMore(t *testing.T) {
	tier.NeedsHost(t)
	p := &mappedPlatform{t: t, patient: true, alter: func(name string, answer []byte) []byte {
		if name == profile.PathNodeGPU {
			return []byte(`{"health":"HEALTHY","gpus":[{"index":0,"health":"HEALTHY","why":"no rule holds"},
				{"index":1,"health":"HEALTHY","rule":"ignored","why":"of a rule"}]}`)
		}
		return answer
	}}
	if _, said := p.runOn([]string{"gpu", "status", "n1"}); strings.Contains(said, "no rule") ||
		!strings.Contains(said, "of a rule") {
		t.Error(said)
	}
}

// TestGPUStatusWithoutAny: an unknown health is not healthy, and a platform that does not judge GPUs is a configuration
// error.
func TestGPUStatusWithoutAny(t *testing.T) {
	tier.NeedsHost(t)
	args := []string{"gpu", "status", "n1"}
	for away, want := range map[string]struct {
		code int
		says string
	}{
		profile.PathNodeGPU: {cmdutil.ExitUsage, "takes no events about them (mapping.paths.node_gpu"},
		"gpu.health":        {cmdutil.ExitInconclusive, "mapping.fields.gpu.health"},
	} {
		code, said := (&mappedPlatform{t: t, patient: true}).runOn(append([]string{}, args...), away)
		if code != want.code || !strings.Contains(said, want.says) {
			t.Errorf("without %s: exit %d: %s", away, code, said)
		}
	}
	for status, want := range map[int]int{404: cmdutil.ExitUsage, 501: cmdutil.ExitUsage, 500: cmdutil.ExitInconclusive,
		403: cmdutil.ExitInconclusive} {
		code, said := (&mappedPlatform{t: t, patient: true, status: status}).runOn(append([]string{}, args...))
		if code != want || strings.Contains(said, "HEALTHY") {
			t.Errorf("HTTP %d: exit %d: %s", status, code, said)
		}
	}
}

// TestGPUStatusHostile: no control characters of a platform's answer reach a terminal.
func TestGPUStatusHostile(t *testing.T) {
	tier.NeedsHost(t)
	p := &mappedPlatform{t: t, patient: true, alter: func(name string, answer []byte) []byte {
		if name == profile.PathNodeGPU {
			return admissionOf(t, "UNHEALTHY", strings.Repeat(hostiletest.Hostile, 100))
		}
		return answer
	}}
	for _, format := range []string{cmdutil.FormatTable, cmdutil.FormatJSON, cmdutil.FormatMarkdown} {
		code, said := p.runOn([]string{"gpu", "status", "n1", "-o", format})
		if code != cmdutil.ExitFailed {
			t.Errorf("%s: exit %d", format, code)
		}
		hostiletest.HarmlessText(t, "gpu status -o "+format, said)
	}
}
