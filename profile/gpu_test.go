package profile

import (
	"strings"
	"testing"
)

// TestGPUPolicy: a policy is built-in or a file; the error for any other name suggests the nearest one.
func TestGPUPolicy(t *testing.T) {
	for policy, want := range map[string]string{
		"": "", "default": "", "strict": "", "./mine.yaml": "", "/etc/gpu.yaml": "",
		"strickt": `did you mean "strict"`, "mine": "want default, strict, permissive, or a file",
		"./a\nb": "line break",
	} {
		err := checkGPUPolicy(GPU{Policy: policy})
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", policy, err, want)
		}
	}
}
