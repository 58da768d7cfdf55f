package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
)

// HostRecord stores decisions in the host's diagnostic record and in the operational log.
type HostRecord struct {
	*recorder.Recorder
	log LogRecorder
}

// NewHostRecord returns a Recorder that writes to r and to log.
func NewHostRecord(r *recorder.Recorder, log *slog.Logger) HostRecord {
	return HostRecord{Recorder: r, log: LogRecorder{log}}
}

// Record implements Recorder. A failure to write the record to the disk is not an error here: the recorder has
// reported it in the log and in the next heartbeat, and the decision is in the mirror and in the log.
func (h HostRecord) Record(d Decision) error {
	errLog := h.log.Record(d)
	err := h.Write(entry(d))
	if errors.Is(err, recorder.ErrNotSynced) {
		err = nil
	}
	return errors.Join(errLog, err)
}

// entry converts a decision to an entry of the record.
func entry(d Decision) diag.RecordEntry {
	return diag.RecordEntry{
		Reason: d.Reason, About: d.About, Decision: d.What, Attempt: d.Attempt,
		DelayMS: d.Delay.Milliseconds(), CeilingMS: d.Ceiling.Milliseconds(),
		Failure: d.Failure, Status: d.Status, Code: d.Code, Detail: d.Detail,
		CorrelationID: d.Correlation, TaskID: d.TaskID, Facts: d.Facts,
	}
}

// Contact records that the platform answered. The time of the last contact is the first thing to look up on a dead
// node.
func (h HostRecord) Contact(o Outcome) {
	// The recorder reports a failed write.
	_ = h.Write(diag.RecordEntry{Reason: diag.RecProcessAlive, About: string(TimerHeartbeat),
		Decision: record.DecisionContact, Status: o.Status, CorrelationID: o.Correlation})
}

// contactRecorder is a Recorder that also records successes.
type contactRecorder interface {
	Contact(Outcome)
	Summary() map[string]string
}

// contact records an answered heartbeat.
func (r *runtime) contact(o Outcome) {
	if w, ok := r.cfg.Recorder.(contactRecorder); ok && o.OK() {
		w.Contact(o)
	}
}

// recordSummary returns the record's state, nil without a record.
func (r *runtime) recordSummary() map[string]string {
	if w, ok := r.cfg.Recorder.(contactRecorder); ok {
		return w.Summary()
	}
	return nil
}

// metric is one counter for Prometheus.
type metric struct{ counter, name, help string }

// metrics are the counters in node_exporter's textfile. Enrollment counters survive a restart; the others start at
// 0 with the process, which Prometheus handles as a counter reset.
var metrics = [...]metric{
	{"identity_rejections", "gpuaas_agent_identity_rejections_total",
		"Times that the platform or its ingress refused this node's identity."},
	{"enrollment_attempts", "gpuaas_agent_enrollment_attempts_total", "Enrollments begun."},
	{"enrollment_successes", "gpuaas_agent_enrollment_successes_total", "Enrollments that brought a certificate."},
	{"enrollment_failures", "gpuaas_agent_enrollment_failures_total", "Enrollments that brought none."},
	{"enrollment_suppressed", "gpuaas_agent_enrollment_suppressed_total", "Enrollments that the agent kept itself from."},
	{"heartbeats", "gpuaas_agent_heartbeats_total", "Heartbeats that were answered."},
	{"heartbeat_failures", "gpuaas_agent_heartbeat_failures_total", "Heartbeats that failed."},
	{"task_polls", "gpuaas_agent_task_polls_total", "Task polls that were answered."},
	{"task_poll_failures", "gpuaas_agent_task_poll_failures_total", "Task polls that failed."},
	{"tasks", "gpuaas_agent_tasks_total", "Tasks received."},
	{"tasks_failed", "gpuaas_agent_tasks_failed_total", "Tasks that were executed and failed."},
	{"tasks_refused", "gpuaas_agent_tasks_refused_total", "Tasks that were refused."},
	{"results_posted", "gpuaas_agent_results_posted_total", "Results that the platform took."},
	{"result_post_failures", "gpuaas_agent_result_post_failures_total", "Results that could not be posted."},
	{"terminal_sessions", "gpuaas_agent_terminal_sessions_total", "Terminals opened."},
}

var postures = [...]string{wire.PostureServing, wire.PostureRecovering, wire.PostureStopped, wire.PostureQuarantined}

// metricsText returns the whole textfile.
func metricsText(e WriteMetrics) string {
	var b strings.Builder
	for _, m := range metrics {
		b.WriteString("# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " counter\n" +
			m.name + " " + strconv.FormatInt(e.Counters[m.counter], 10) + "\n")
	}
	const posture = "gpuaas_agent_posture"
	b.WriteString("# HELP " + posture + " Posture of the node: 1 for the current one, 0 for the others.\n" +
		"# TYPE " + posture + " gauge\n")
	for _, p := range postures {
		v := " 0\n"
		if p == e.Posture {
			v = " 1\n"
		}
		b.WriteString(posture + "{posture=\"" + p + "\"}" + v)
	}
	return b.String()
}

// showMetrics replaces the textfile atomically. It is not synced, since it is worthless after a power cut.
func (r *runtime) showMetrics(e WriteMetrics) {
	text := metricsText(e)
	if r.cfg.MetricsFile == "" || text == r.shown {
		return
	}
	tmp := filepath.Join(filepath.Dir(r.cfg.MetricsFile), "."+filepath.Base(r.cfg.MetricsFile)+".new")
	_ = os.Remove(tmp) // another user may own the folder: do not follow a link there
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = os.Rename(tmp, r.cfg.MetricsFile)
	}
	if err != nil {
		r.cfg.Log.Warn("the metrics file could not be written", "error", scrubbed(err))
		return
	}
	r.shown = text
}
