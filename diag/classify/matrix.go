package classify

import "github.com/gpuaas/gpuaasctl/diag"
import "slices"

// rowRules select among the rows of one reason, by row id. A row without a rule is the default.
var rowRules = [...]struct {
	row   string
	holds func(v *view) bool
}{
	{"control_plane_ca_restart_drift", func(v *view) bool { return v.record.fresh }},
	{"trust_drift_blocks_recovery_enrollment", func(v *view) bool {
		return len(v.record.blocked) > 0 && len(v.named(diag.ReasonServerTLSUntrusted)) > 0
	}},
	{"pre_auth_blind_spot", onlyRecord},
	{"recovery_token_missing", func(v *view) bool {
		return v.token == TokenGone || len(v.named(diag.ReasonRecoveryTokenMissing)) > 0
	}},
	{"app_recovered_after_false_unhealthy", func(v *view) bool {
		return v.App != nil && v.App.down() && workloadRuns(v)
	}},
}

// rowRule returns the rule of a row, nil for a row without one.
func rowRule(row string) func(v *view) bool {
	for _, r := range rowRules {
		if r.row == row {
			return r.holds
		}
	}
	return nil
}

// scenarioOf returns the row of the matrix that matches the reason, or nil.
func scenarioOf(code diag.ReasonCode, v *view) *diag.Scenario {
	for _, general := range []bool{false, true} {
		matrix := diag.Scenarios()
		for i := range matrix {
			m := &matrix[i]
			if !slices.Contains(m.Reasons, code) {
				continue
			}
			if holds := rowRule(m.ID); general == (holds == nil) && (general || holds(v)) {
				return m
			}
		}
	}
	return nil
}

// onlyRecord reports whether the platform has lost contact with the node, and only the node's own record shows why.
func onlyRecord(v *view) bool {
	if !v.contactLost() {
		return false
	}
	for _, code := range []diag.ReasonCode{diag.ReasonServerTLSUntrusted, diag.ReasonEndpointProfileDrift,
		diag.ReasonRecoveryEnrollmentBlocked} {
		if lines := v.record.lines(code); len(lines) > 0 && len(lines) == len(v.named(code)) {
			return true
		}
	}
	return false
}
