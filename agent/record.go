package agent

import (
	"errors"
	"log/slog"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
)

// HostRecord keeps decisions in the host's diagnostic record, and in the operational log as well.
type HostRecord struct {
	record *recorder.Recorder
	log    LogRecorder
}

// NewHostRecord gives decisions to r and to log.
func NewHostRecord(r *recorder.Recorder, log *slog.Logger) HostRecord {
	return HostRecord{record: r, log: LogRecorder{log}}
}

// Record implements Recorder. That the record's disk takes no writes is no error here: the recorder has said so, in the
// log and in the next heartbeat, and the decision is in the mirror and in the log.
func (h HostRecord) Record(d Decision) error {
	errLog := h.log.Record(d)
	err := h.record.Write(entry(d))
	if errors.Is(err, recorder.ErrNotSynced) {
		err = nil
	}
	return errors.Join(errLog, err)
}

// entry is a decision as the record has it.
func entry(d Decision) diag.RecordEntry {
	return diag.RecordEntry{
		Reason: d.Reason, About: d.About, Decision: d.What, Attempt: d.Attempt,
		DelayMS: d.Delay.Milliseconds(), CeilingMS: d.Ceiling.Milliseconds(),
		Failure: d.Failure, Status: d.Status, Code: d.Code, Detail: d.Detail,
		CorrelationID: d.Correlation, TaskID: d.TaskID, Facts: d.Facts,
	}
}

// Contact notes that the platform answered: the last time that it did is what a dead node is asked for first.
func (h HostRecord) Contact(o Outcome) {
	// That it could not be written is the recorder's to say.
	_ = h.record.Write(diag.RecordEntry{Reason: diag.RecProcessAlive, About: string(TimerHeartbeat),
		Decision: record.DecisionContact, Status: o.Status, CorrelationID: o.Correlation})
}

// Summary is what the next heartbeat says of the record.
func (h HostRecord) Summary() map[string]string { return h.record.Summary() }

// witness is a Recorder that also knows good news.
type witness interface {
	Contact(Outcome)
	Summary() map[string]string
}

// contact notes a heartbeat that was answered.
func (r *runtime) contact(o Outcome) {
	if w, ok := r.cfg.Recorder.(witness); ok && o.OK() {
		w.Contact(o)
	}
}

// recordSummary is what the record says of itself; nil where there is none.
func (r *runtime) recordSummary() map[string]string {
	if w, ok := r.cfg.Recorder.(witness); ok {
		return w.Summary()
	}
	return nil
}
