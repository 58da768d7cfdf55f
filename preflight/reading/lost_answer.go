package reading

import (
	"github.com/gpuaas/gpuaasctl/diag"
)

// HasGap reports whether part of an answer arrived that follows a missing part: packets are lost on the way back.
func HasGap(f *diag.Fact) bool { return f.TCP != nil && f.TCP.Gap && GotNoAnswer(f) }

// AnswerBegan reports whether an unanswered request was acknowledged, and the first bytes of an answer arrived: the
// server stopped in the middle, or the rest was lost.
func AnswerBegan(f *diag.Fact) bool {
	return f.TCP != nil && f.TCP.AnswerBegan && GotNoAnswer(f) && InPhase(f, "http", "ws")
}
