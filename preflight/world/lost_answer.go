package world

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

func answerWithGap(d *doubted) string {
	if !d.fails() || !d.steps() || !reading.HasGap(d.fact) {
		return ""
	}
	return fmt.Sprintf("; %s answers, but a part of its answer never arrived at the %s and later parts did: packets are "+
		"lost on the way back, for example those larger than a link on the path allows (MTU)", reading.Where(d.fact),
		d.fact.Vantage)
}

func ofGap(d *doubted, words string) {
	add(d, words)
	d.out.Side, d.out.Culprit = diag.SideNetwork, reading.LossOf(d.fact.Vantage)
}

func answerStopped(d *doubted) string {
	if !d.fails() || !d.steps() || reading.HasGap(d.fact) || !reading.AnswerBegan(d.fact) {
		return ""
	}
	return "; the answer began, and stopped: its server paused, or the rest was lost on the way back"
}

func gap(d *doubted) string {
	if !reading.HasGap(d.fact) {
		return ""
	}
	return "packets of the failing request's answer were lost"
}
