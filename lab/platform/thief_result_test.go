package platform_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

// result posts a task's result, and returns the code of its refusal.
func (s *speaker) result(taskID string, r wire.TaskResult) string {
	s.t.Helper()
	var out wire.ErrorBody
	s.p.DoNode(s.cred, http.MethodPost, path(wire.PathTaskResult, s.cred.NodeID, "{task_id}", taskID), r, &out,
		s.header()...)
	return out.Error.Code
}

// TestThiefThatAnswers: a copy of the certificate that learned the task's id reports the clean-up as done. The
// tenant's processes may still be alive, so only the host that was given the task may free the slot.
func TestThiefThatAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		instance string
		legacy   bool
	}{"with the node's name": {"host-a", false}, "with another name": {"thief", false},
		"with another name, an old agent": {"thief", true}} {
		t.Run(name, func(t *testing.T) {
			p, node, thief := theft(t, c.instance, c.legacy)
			if status, _ := p.Do(http.MethodPost, releasePath, map[string]any{"reason": "test"}, nil); status != 200 {
				t.Fatalf("release: %d", status)
			}
			task, _ := node.poll()
			if task.Type != wire.TaskCleanup {
				t.Fatalf("the node got %q", task.Type)
			}
			if code := thief.result(task.ID, completed()); code != wire.DenyUnproven {
				t.Errorf("the thief's word: %q", code)
			}
			if a := allocation(t, p, platformtest.AllocationID); a.Occupancy != "cleanup" {
				t.Fatalf("by the thief's word the place is %s", a.Occupancy)
			}
			if code := node.result(task.ID, completed()); code != "" {
				t.Errorf("the node's word: %q", code)
			}
			if a := allocation(t, p, platformtest.AllocationID); a.Occupancy != "free" {
				t.Errorf("by the node's word the place is %s", a.Occupancy)
			}
		})
	}
}

// TestThiefThatTells: a copy of the certificate cannot end a rollout in the node's name, or use up the sequence
// numbers of the node's events.
func TestThiefThatTells(t *testing.T) {
	for _, shown := range []string{"", "0123456789abcdef"} {
		p, node, thief := theft(t, "host-a", false)
		thief.holds = shown
		tell := func(s *speaker, kind string) (mark uint64, code string) {
			var out struct {
				wire.EventsResponse
				wire.ErrorBody
			}
			s.p.DoNode(s.cred, http.MethodPost, path(wire.PathEvents, s.cred.NodeID),
				wire.EventsRequest{NodeInstanceID: "host-a",
					Events: []wire.Event{{Seq: 1, Kind: kind, CorrelationID: "c-" + kind}}}, &out, s.header()...)
			return out.Watermark, out.Error.Code
		}
		if _, code := tell(thief, "thief"); code != wire.DenyUnproven {
			t.Errorf("the thief that shows %q: %q", shown, code)
		}
		if mark, code := tell(node, "node"); mark != 1 || code != "" {
			t.Errorf("the node: %d %q", mark, code)
		}
		wantEvidence(t, p, "c-node", "node.event")
		if got := kinds(t, p); !slices.Contains(got, "node.word_refused") {
			t.Errorf("the evidence does not say that a word was refused: %q", got)
		}
	}
}
