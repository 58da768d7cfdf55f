package render

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// TestEvent covers events that the recordings do not contain.
func TestEvent(t *testing.T) {
	no := false
	for _, c := range []struct {
		event drill.Event
		want  string
	}{
		{drill.Event{Kind: drill.Refused,
			Refused: []chaos.Refusal{{Machine: "n1", Refusal: step.Refusal{Code: "no_consent", Text: "nobody agreed"}}}},
			"refused: n1: no_consent: nobody agreed"},
		{drill.Event{Kind: drill.Broken, Machine: "n1", Step: "block", Text: "no nft"}, "n1: block, but: no nft"},
		{drill.Event{Kind: drill.Probed, Seen: &drill.Seen{Name: drill.ProbeInjected, Stage: drill.Before, Held: true}},
			"independent probe: the fault is there before anything is touched"},
		{drill.Event{Kind: drill.Probed,
			Seen: &drill.Seen{Name: drill.ProbeControl, Stage: drill.During, Why: "exit code 7"}},
			"independent probe: what must still work does not: exit code 7"},
		{drill.Event{Kind: drill.Probed, Seen: &drill.Seen{Name: drill.ProbeProof, Stage: drill.After,
			NotRun: true, Why: "no ssh"}}, "independent probe: not run: no ssh"},
		{drill.Event{Kind: drill.Lost, Machine: "n1", Text: "lease"}, "n1: reverted by itself: lease"},
		{drill.Event{Kind: drill.Interrupt, Text: "interrupted by the operator"}, "interrupted by the operator"},
		{drill.Event{Kind: drill.Reverted, Machine: "n1", Status: &step.Status{State: step.Reverted,
			Reverter: step.ByWatchdog}}, "n1: reverted by its watchdog"},
		{drill.Event{Kind: drill.Decided}, "the platform was told that it is decided"},
		{drill.Event{Kind: drill.Decided, Text: "HTTP 409"}, "the platform did not take the decision: HTTP 409"},
		{drill.Event{Kind: drill.Compared, Machine: "n1", Clean: &no,
			Residue: []step.Residue{{Class: step.ClassFile, Key: "/a", After: "x"},
				{Class: step.ClassFile, Key: "/b", After: "y", Allowed: "why"}}},
			"n1: 1 left that was not there\nn1: file /a: appeared: x"},
		{drill.Event{Kind: drill.Closed, Machine: "n1", Text: "busy"}, "n1: busy"},
		{drill.Event{Kind: drill.Trouble, Text: "no log"}, "trouble: no log"},
		{drill.Event{Kind: drill.Renewed, Machine: "n1"}, ""},
		{drill.Event{Kind: drill.Arming, Machine: "n1"}, ""},
	} {
		s := drill.Fold([]drill.Event{c.event})
		if got := strings.Join(Event(c.event, &s), "\n"); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.event.Kind, got, c.want)
		}
	}
}
