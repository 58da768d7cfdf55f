package classify

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"slices"
	"testing"
	"time"
)

// limits are the drift model's budgets: how long a failure of a severity may stay undetected, and how long its repair
// may take. A repair without a limit is nobody's: it repairs itself, or on the next business day.
var limits = map[diag.Severity]Budget{
	diag.P0: {time.Minute, 15 * time.Minute}, diag.P1: {5 * time.Minute, time.Hour}, diag.P2: {Detect: 30 * time.Minute},
}

// TestBudgetsOfReasons: a row's budget may be tighter than its severity's, never weaker.
func TestBudgetsOfReasons(t *testing.T) {
	for _, r := range diag.Reasons() {
		checkBudgets(t, r)
	}
}

func checkBudgets(t *testing.T, r diag.Reason) {
	t.Helper()
	if r.Code == diag.ReasonNone {
		if r.Severity != "" || r.Detect != 0 || r.Repair != 0 {
			t.Errorf("%s has a severity or a budget", r.Code)
		}
		return
	}
	if limits[r.Severity].Detect == 0 {
		t.Errorf("%s: severity %q", r.Code, r.Severity)
	}
	if r.Detect <= 0 || r.Detect > limits[r.Severity].Detect {
		t.Errorf("%s: detection budget %v is weaker than %s", r.Code, r.Detect, r.Severity)
	}
	if limit := limits[r.Severity].Repair; limit != 0 && (r.Repair <= 0 || r.Repair > limit) {
		t.Errorf("%s: repair budget %v is weaker than %s", r.Code, r.Repair, r.Severity)
	}
}

// TestUserActionsOfAClassification: they are those of its reason.
func TestUserActionsOfAClassification(t *testing.T) {
	c := Classify(Evidence{Node: &NodeEvidence{Identity: "cloned"}})
	if !slices.Equal(c.UserActions, []diag.UserAction{diag.Page}) {
		t.Errorf("of a cloned identity the classification says %v", c.UserActions)
	}
}
