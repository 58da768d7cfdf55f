package render

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

func TestWordsOfDurations(t *testing.T) {
	for ms, want := range map[diag.Millis]string{0: "0 ms", 1: "1 ms", 999: "999 ms", 1000: "1.0 s", 9949: "9.9 s",
		9950: "10 s", 99_999: "100 s", 100_000: "1m40s", 125_000: "2m05s"} {
		if got := ms.Words(); got != want {
			t.Errorf("%d is %q, want %q", ms, got, want)
		}
	}
	if got := TimeUsed(820, 12_000); got != "820 ms/12 s" {
		t.Error(got)
	}
	if got := TimeUsed(82, 1500); got != "82 ms/1.5 s" {
		t.Error(got)
	}
}
