package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestALostAnswerIsNotThePlatforms: if part of an answer arrived, the platform did answer.
func TestALostAnswerIsNotThePlatforms(t *testing.T) {
	silent := func(phase string, change func(*diag.TCPFacts)) func(*diag.Fact) {
		return func(f *diag.Fact) {
			failWith(diag.HTTPTimeout, phase)(f)
			if phase == "tls" {
				f.Failure = diag.Timeout
			}
			f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443", Resent: new(int64)}
			change(f.TCP)
		}
	}
	gap, began := func(t *diag.TCPFacts) { t.Gap = true }, func(t *diag.TCPFacts) { t.AnswerBegan = true }
	nothing := func(*diag.TCPFacts) {}
	for _, id := range []string{healthFact, "control_plane_access/auth", readModelFact, "allocation_binding/allocation",
		"terminal_token_mint/mint", reach, stream, waitFact} {
		for name, do := range map[string]func(*diag.Fact){"a gap in the answer": silent("http", gap),
			"a gap in the handshake": silent("tls", gap), "the answer began": silent("http", began)} {
			v := walkWith(t, answers{id: do, id + "~pinned": do, id + "~host-view": do}).Verdict
			if v.Blame == nil && v.Outcome == diag.OutcomeWarn { // the API works; its page, or this listener, does not
				continue
			}
			network := v.Owners[0] == "environment networking"
			if v.Blame == nil || v.Confidence == diag.Proven || (!network && name != "the answer began") ||
				(name == "the answer began" && !strings.Contains(v.Blame.Text, "its server paused, or the rest was lost")) {
				t.Errorf("%s, %s: %s %s, %v: %+v", id, name, v.Outcome, v.Confidence, v.Owners, v.Blame)
			}
		}
		v := walkWith(t, answers{id: silent("http", nothing)}).Verdict
		if v.Blame != nil && strings.Contains(v.Blame.Text, "never arrived") {
			t.Errorf("%s: %+v", id, v.Blame)
		}
	}
}

// TestAGapInSomeAnswersIsAnUnstableNetwork: the same request had both results, and packets were lost.
func TestAGapInSomeAnswersIsAnUnstableNetwork(t *testing.T) {
	lost := func(f *diag.Fact) {
		failWith(diag.HTTPTimeout, "http")(f)
		f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443", Resent: new(int64), Gap: true}
	}
	v := walkWith(t, answers{stream: lost, stream + "~1": func(*diag.Fact) {}}).Verdict
	if v.Blame == nil || v.Blame.Signal != diag.SigNetworkUnstable {
		t.Errorf("%s: %+v", v.Outcome, v.Blame)
	}
}
