package golden

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// TestProvisionalBlame replays every recording: the provisional blame is the final one in 95 of 100 walks, and is shown
// within two seconds for a fault of the network. A walk without a blame shows none, and no walk shows one before the
// first retransmission could arrive.
func TestProvisionalBlame(t *testing.T) {
	blamed, corrected := 0, 0
	for _, path := range some(recordings(t)) {
		r := recorded(t, path)
		shown := walk.Rehearse(hops.BuiltIn(), r)
		if len(shown) > 0 && shown[0].At < time.Second {
			t.Errorf("%s: something is said at %s", path, shown[0].At)
		}
		if r.Verdict.Blame == nil {
			if len(shown) > 0 {
				t.Errorf("%s blames nobody, and says %+v on its way", path, shown[0].Blame)
			}
			continue
		}
		at, wrong := FirstBlame(r)
		if len(shown) > 0 {
			blamed++
		}
		if wrong {
			corrected++
			t.Logf("%s: %+v, in the end %+v", path, shown, r.Verdict.Blame)
		}
		if at > 2*time.Second && slices.Contains(NetworkFaults(), path) {
			t.Errorf("%s: blamed after %s", path, at)
		}
	}
	t.Logf("%d of %d that say something are corrected", corrected, blamed)
	if !testing.Short() && (blamed < 25 || 20*corrected >= blamed) {
		t.Errorf("%d of %d are corrected", corrected, blamed)
	}
}
