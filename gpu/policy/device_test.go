package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// TestRefusals: a refused call is a fact about the GPU, whether or not a signal has the call's answer.
func TestRefusals(t *testing.T) {
	for code, want := range map[int]string{
		report.GPUIsLost:  "floor UNKNOWN: a call was answered with GPU_IS_LOST",
		report.NeedsReset: "floor UNKNOWN: nvmlDeviceGetName was answered with RESET_REQUIRED",
		8:                 "floor UNKNOWN: nvmlDeviceGetName: the GPU's power cables",
		17:                "floor UNKNOWN: nvmlDeviceGetName: the operating system",
		14:                "note: GPU 0: nvmlDeviceGetName: the InfoROM of the GPU is corrupted",
		999:               "note: GPU 0: nvmlDeviceGetName: an internal error of the driver",
		77:                "note: GPU 0: nvmlDeviceGetName: a code that this build does not know",
	} {
		e := device(0, 1, 1, nil)
		e.Device.GPU.Refusals = []report.Refusal{{Call: "nvmlDeviceGetName", Code: code}}
		f := FactsOf(Evidence{Events: []report.Event{watched(), e}})
		var got []string
		for _, one := range f.Floors {
			got = append(got, fmt.Sprintf("floor %s: %s", one.Health, one.Why))
		}
		for _, note := range f.Notes[1:] { // the first is about the expected number of GPUs
			got = append(got, "note: "+note)
		}
		if all := strings.Join(got, "; "); len(got) != 1 || !strings.HasPrefix(all, want) {
			t.Errorf("%d: %q, want %q", code, all, want)
		}
		v := f.Observations[0].Values
		if must := v["reset_required"].Of == true; must != (code == report.NeedsReset) {
			t.Errorf("%d: must be reset: %t", code, must)
		}
		if v["lost"].Of != (code == report.GPUIsLost) {
			t.Errorf("%d: lost: %v", code, v["lost"].Of)
		}
	}
}

// TestVerdictOnAGPUWithoutAName: the driver's verdict in the answer to a call about no GPU is one on the node.
func TestVerdictOnAGPUWithoutAName(t *testing.T) {
	loaded := report.Library{State: report.Loaded, Driver: report.Words("550"), NVML: report.Words("12"),
		CUDA: report.ReadingOf(12020)}
	for name, tc := range map[string]struct {
		evidence Evidence
		want     Health
	}{
		"Init": {Evidence{Sample: &report.Sample{At: at(1), Library: report.Library{State: report.InitFailed,
			Code: report.NeedsReset}}}, Unhealthy},
		"Init, of another reason": {Evidence{Sample: &report.Sample{At: at(1), Library: report.Library{
			State: report.InitFailed, Code: 18}}}, Unknown},
		"the count": {Evidence{Sample: &report.Sample{At: at(1), Library: loaded,
			Count: report.Refused(report.GPUIsLost)}}, Unhealthy},
		"the driver's version": {Evidence{Events: []report.Event{watched()}, Sample: &report.Sample{At: at(1),
			Library: report.Library{State: report.Loaded, Driver: report.Refused(report.VersionsApart)},
			Count:   report.ReadingOf(1), GPUs: []report.GPU{device(0, 1, 1, nil).Device.GPU}}}, Unknown},
		"Init, as an agent reports it": {Evidence{Events: []report.Event{probeOf(report.Probe{State: report.Unknown,
			Library: report.InitFailed, Code: report.NeedsReset})}}, Unhealthy},
		"it works again": {Evidence{Events: []report.Event{probeOf(report.Probe{State: report.Unknown,
			Library: report.InitFailed, Code: report.NeedsReset}), probeOf(report.Probe{State: report.Sampling,
			Library: report.Loaded})}}, Unknown},
		"the end of a program with that code": {Evidence{Events: []report.Event{probeOf(report.Probe{
			State: report.Ended, Code: report.NeedsReset})}}, Unknown},
	} {
		worst := Healthy
		for _, one := range FactsOf(tc.evidence).Floors {
			if Worse(one.Health, worst) {
				worst = one.Health
			}
		}
		if worst != tc.want {
			t.Errorf("%s: %s, want %s", name, worst, tc.want)
		}
	}
}

// TestWithoutHandle: a rule about a GPU that has no handle says why there is none.
func TestWithoutHandle(t *testing.T) {
	e := device(0, 1, 1, map[report.Signal]report.Reading{report.Power: report.Skipped(report.NoHandle)})
	e.Device.GPU.Handle = report.Refused(4)
	v := FactsOf(Evidence{Events: []report.Event{e}}).Observations[0].Values["power"]
	if want := "was not measured: the GPU has no handle: " + report.Explain(4); v.Failed != want || v.Of != nil {
		t.Errorf("%+v", v)
	}
}
