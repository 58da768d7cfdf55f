package reading

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
)

// HasGap reports whether part of an answer arrived that follows a missing part: packets are lost on the way back.
func HasGap(f *diag.Fact) bool { return f.TCP != nil && f.TCP.Gap && GotNoAnswer(f) }

// answerBegan reports whether an unanswered request was acknowledged, and the first bytes of an answer arrived: the
// server stopped in the middle, or the rest was lost.
func answerBegan(f *diag.Fact) bool {
	return f.TCP != nil && f.TCP.AnswerBegan && GotNoAnswer(f) && InPhase(f, "http", "ws")
}

// JudgeLostAnswer places an answer of which only a part arrived on the network: the server did answer, so the platform
// is not to blame for silence. Without a gap the server may as well have paused: the text names both, and the owners
// stay those of a server that does not answer.
func JudgeLostAnswer(f *diag.Fact, out *diag.Finding) {
	switch {
	case HasGap(f):
		out.Side, out.Culprit = diag.SideNetwork, LossOf(f.Vantage)
		out.Text += fmt.Sprintf("; %s answers, but a part of its answer never arrived at the %s and later parts did: "+
			"packets are lost on the way back, for example those larger than a link on the path allows (MTU)", Where(f),
			f.Vantage)
	case answerBegan(f):
		out.Text += "; the answer began, and stopped: its server paused, or the rest was lost on the way back"
	}
}
