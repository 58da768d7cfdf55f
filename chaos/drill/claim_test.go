package drill

import "testing"

// TestEveryClaimHasAJudge: the catalogue and the judges have the same claims.
func TestEveryClaimHasAJudge(t *testing.T) {
	judges := judges()
	for _, c := range ClaimRows() {
		if judges[c.ID] == nil {
			t.Errorf("nothing judges the claim %s", c.ID)
		}
	}
	if len(judges) != len(ClaimRows()) {
		t.Errorf("%d judges of %d claims", len(judges), len(ClaimRows()))
	}
}
