package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestWhatIsNotBehindTheListener: a connection that was not made does not show a fault behind the listener, and an
// answer that is lost on its way back looks like one that nobody gave. An error that it answers with is of what is
// behind it.
func TestWhatIsNotBehindTheListener(t *testing.T) {
	none := int64(0)
	at := &diag.TCPFacts{Remote: "192.0.2.11:443", Resent: &none}
	silent := func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP, f.DurationMS, f.TCP = diag.HTTPTimeout, "http", nil, 5000, at
	}
	reset := func(f *diag.Fact) { f.Failure, f.Phase, f.HTTP, f.TCP = diag.TCPReset, "tcp", nil, at }
	for name, c := range map[string]struct {
		change func(*diag.Fact)
		behind bool
	}{
		"a silence": {silent, false},
		"a reset":   {reset, false},
		"HTTP 503": {func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http", &diag.HTTPFacts{Status: 503}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, answers{"node_recovery_status/task_wait": c.change, "node_recovery_status/task_wait~1": silent})
			for _, h := range r.Hops {
				if h.ID == diag.HopNodeRecoveryStatus && (h.Status != diag.StatusFail ||
					strings.Contains(h.Text, "the fault is behind it") != c.behind || strings.Contains(h.Text, "not packet loss")) {
					t.Errorf("%s %s", h.Status, h.Text)
				}
			}
		})
	}
}

// TestWhatComesAndGoesIsNowhere: a listener that refuses one connection in a few may have taken all of the operator's
// by chance. That the operator was answered each time places nothing.
func TestWhatComesAndGoesIsNowhere(t *testing.T) {
	const reach = "node_runtime_api_reachability/reach"
	refused := failWith(diag.TCPRefused, "tcp")
	for name, c := range map[string]struct {
		answers answers
		placed  bool
	}{
		"now and then": {answers{reach: refused, reach + "~2": func(*diag.Fact) {}}, false},
		"always":       {answers{reach: refused}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, c.answers)
			for _, h := range r.Hops {
				if h.ID == diag.HopNodeRuntimeAPI && (h.Status != diag.StatusFail ||
					strings.Contains(h.Text, "on this node's path") != c.placed) {
					t.Errorf("%s %s", h.Status, h.Text)
				}
			}
		})
	}
}
