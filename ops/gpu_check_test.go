package ops

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// TestJudgedAfterSampled: a judgement is not older than what it judges, though the kernel's log is read first.
func TestJudgedAfterSampled(t *testing.T) {
	at := time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		sample *report.Sample
		want   time.Time
	}{
		"no sample":              {nil, at},
		"a sample after the log": {&report.Sample{At: at.Add(time.Second)}, at.Add(time.Second)},
		"a sample before":        {&report.Sample{At: at.Add(-time.Second)}, at},
	} {
		check := &GPUCheck{At: at, Sample: c.sample}
		q, err := check.Request(policy.File{}, nil)
		if err != nil || !q.Now.Equal(c.want) {
			t.Errorf("%s: judged by the policy at %v, %v, want %v", name, q.Now, err, c.want)
		}
		a, err := check.Judge(policy.Judgement{Health: policy.Unknown})
		if err != nil || !a.Judged.Equal(c.want) || !a.Now.Equal(c.want) {
			t.Errorf("%s: %+v, %v, want it judged at %v", name, a, err, c.want)
		}
	}
}

// TestCrashInWords: of a crash the signal is shown and the place, not the traceback; other words are kept.
func TestCrashInWords(t *testing.T) {
	for words, want := range map[string]string{
		"SIGBUS: bus error\nPC=0x7f m=3 sigcode=2 addr=0x7f\nsignal arrived during cgo execution\n\n" +
			"goroutine 19 gp=0xc9 m=3 [syscall]:\nruntime.cgocall(0x5a)": "in a call of NVIDIA's library: SIGBUS: bus error",
		"SIGSEGV: segmentation violation PC=0x7f m=3 signal arrived during cgo execution goroutine 9 gp=0xc9": "in a call " +
			"of NVIDIA's library: SIGSEGV: segmentation violation",
		"panic: no\n\ngoroutine 1 [running]:\nmain.main()": "panic: no",
		"no GPU\nat all":                  "no GPU at all",
		"the goroutine \nis no traceback": "the goroutine is no traceback",
		"":                                "",
	} {
		c := &GPUCheck{}
		c.probed(nil, 2, words)
		if got := c.Events[0].Probe.Why; got != strings.TrimSpace("exit code 2 "+want) {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}
