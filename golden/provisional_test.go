package golden

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/preflight"
)

// TestProvisionalBlame plays every recording again: what a walk would have said on its way is its final blame in 95 of
// 100, within two seconds where it is a fault of the network; no walk without a blame says one, and none says one
// before the first retransmission had its chance.
func TestProvisionalBlame(t *testing.T) {
	told, corrected := 0, 0
	for _, path := range some(recordings(t)) {
		r := recorded(t, path)
		said := preflight.Rehearse(r)
		if len(said) > 0 && said[0].At < time.Second {
			t.Errorf("%s: something is said at %s", path, said[0].At)
		}
		if r.Verdict.Blame == nil {
			if len(said) > 0 {
				t.Errorf("%s blames nobody, and says %+v on its way", path, said[0].Blame)
			}
			continue
		}
		at, wrong := FirstBlame(r)
		if len(said) > 0 {
			told++
		}
		if wrong {
			corrected++
			t.Logf("%s: %+v, in the end %+v", path, said, r.Verdict.Blame)
		}
		if at > 2*time.Second && slices.Contains(NetworkFaults(), path) {
			t.Errorf("%s: blamed after %s", path, at)
		}
	}
	t.Logf("%d of %d that say something are corrected", corrected, told)
	if !testing.Short() && (told < 25 || 20*corrected >= told) {
		t.Errorf("%d of %d are corrected", corrected, told)
	}
}
