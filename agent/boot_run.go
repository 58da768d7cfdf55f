package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/outbox"
	"github.com/gpuaas/gpuaasctl/agent/update"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// eventTimeout bounds one batch of events: some ten KiB, stored durably before the answer.
const eventTimeout = 10 * time.Second

// heartbeatReply holds the fields of the platform's heartbeat response other than "received".
type heartbeatReply struct {
	wire.HeartbeatResponse
	replayFrom uint64 // of X-GPUaaS-Replay-From; 0: not in the answer
}

// bootReport returns the report that is sent with each heartbeat until one is answered, and during an update.
func (r *runtime) bootReport() *wire.BootReport {
	b := r.cfg.Boot
	if b == nil {
		return nil
	}
	j := b.keeper.Journal()
	if b.answered.Load() && j.Active() == nil {
		return nil
	}
	return new(j.Report(b.Running, b.out.Next()))
}

// answered handles the platform's response to a heartbeat. The gate opens only afterwards, so that workers never
// start on an outdated journal. An unreachable platform changes nothing.
func (r *runtime) answered(o Outcome, w heartbeatReply) {
	b := r.cfg.Boot
	if b == nil || r.work.Err() != nil {
		return
	}
	if !o.OK() {
		r.observe(wire.ProbeHeartbeat, o)
		return
	}
	r.goBack(b.apply(w))
	if !b.answered.Swap(true) {
		r.resume()
	}
	r.wg.Go(func() { r.sendEvents(r.work) })
}

// apply applies the platform's response to the outbox and the journal.
func (b *Boot) apply(w heartbeatReply) update.Journal {
	if err := b.out.Replay(w.replayFrom); err != nil {
		b.degraded("the outbox", err)
	}
	return b.step(func(j update.Journal) update.Journal {
		now := time.Now()
		if w.Running != nil {
			j = j.Handshake(*w.Running, b.Running, now)
		}
		for _, s := range w.Snapshots {
			if s.Rollout != nil {
				j = j.Merge(*s.Rollout, now)
			}
		}
		return j.Observe(wire.ProbeHeartbeat, true, "", now)
	})
}

// resume continues an update that a crash interrupted before the target was started, and removes unused builds.
func (r *runtime) resume() {
	b := r.cfg.Boot
	j := b.keeper.Journal()
	if err := b.packages.Prune(j.NeededDigests()); err != nil {
		b.degraded("old builds stay", err)
	}
	ro := j.Active()
	if ro == nil || (ro.State != wire.RolloutPending && ro.State != wire.RolloutVerified) {
		return
	}
	a, refusal := j.Accept(ro.Task, r.self(), time.Now())
	switch {
	case refusal != nil:
		b.step(func(j update.Journal) update.Journal { return j.Fail(refusal.Why, time.Now()) })
	case !time.Now().Before(ro.Task.ExpiresAt):
		b.step(func(j update.Journal) update.Journal { return j.Fail("its task expired", time.Now()) })
	default:
		b.step(func(j update.Journal) update.Journal {
			return j.Recovered("an update that was cut off while "+ro.State+" goes on", time.Now())
		})
		r.wg.Go(func() {
			ctx, cancel := context.WithDeadline(r.work, ro.Task.ExpiresAt)
			defer cancel()
			_ = r.carryOut(ctx, a) // its end is reported by the journal and by an event
		})
	}
}

// observe passes the outcome of one probe to the soak. A failure to reach the platform counts for the heartbeat
// probe only; while that fails, failures of the other probes are ignored.
func (r *runtime) observe(probe string, o Outcome) {
	b := r.cfg.Boot
	refused := o.Status >= 400 && o.Status < 500 && o.Status != http.StatusTooManyRequests
	if b == nil || r.work.Err() != nil || (!o.OK() && !refused && probe != wire.ProbeHeartbeat) {
		return
	}
	r.goBack(b.step(func(j update.Journal) update.Journal {
		return j.Observe(probe, o.OK(), string(o.Reason), time.Now())
	}))
}

// step takes a step of the journal and logs a failure to write it.
func (b *Boot) step(step func(update.Journal) update.Journal) update.Journal {
	j, err := b.keeper.Do(step)
	if err != nil {
		b.degraded("the update journal", err)
	}
	return j
}

// goBack exits this process if the journal requires another build to run.
func (r *runtime) goBack(j update.Journal) {
	if ro := j.Active(); ro != nil && ro.Condemned != "" {
		go r.restart("going back: " + ro.Condemned) // not waited for: the caller may be the loop
	}
}

// ended records an orderly exit, so that it does not count as a crash.
func (r *runtime) ended() {
	b := r.cfg.Boot
	if b == nil {
		return
	}
	b.step(update.Journal.Ended)
}

// sendEvents delivers the outbox in order until it is empty or the platform refuses a batch; the next heartbeat
// tries again.
func (r *runtime) sendEvents(ctx context.Context) {
	b := r.cfg.Boot
	if !b.sending.TryLock() {
		return
	}
	defer b.sending.Unlock()
	if time.Now().Before(b.sendAfter) { // the platform asked to wait
		return
	}
	for last := uint64(0); ctx.Err() == nil; {
		batch := b.out.Batch()
		if len(batch) == 0 || batch[0].Seq <= last { // an impossible watermark advances nothing
			return
		}
		last = batch[0].Seq
		var answer wire.EventsResponse
		o := r.api.do(ctx, call{method: http.MethodPost, path: wire.PathEvents, out: &answer, timeout: eventTimeout,
			fallback: diag.RecAPIUnreachable,
			in:       wire.EventsRequest{NodeInstanceID: r.node.instance, Events: batch, Oldest: batch[0].Seq}})
		if !o.OK() {
			b.sendAfter = time.Now().Add(o.RetryAfter)
			return
		}
		if answer.Watermark < batch[0].Seq {
			return
		}
		if err := b.out.Acked(answer.Watermark); err != nil && !errors.Is(err, context.Canceled) {
			b.degraded("the outbox", err)
		}
	}
}

// published are the decisions that are also sent to the platform: those that an operator may have to explain
// later. Retries are only counted, in the heartbeat.
var published = map[diag.RecordReason]bool{
	diag.RecRecoveryEnrolled: true, diag.RecRecoverySuppressed: true, diag.RecRecoveryEnrollmentBlocked: true,
	diag.RecClonedIdentity: true, diag.RecIdentityRevoked: true, diag.RecCertExpired: true, diag.RecClockSkew: true,
	diag.RecDiskFull: true, diag.RecRecordDegraded: true,
}

// publish adds a decision to the outbox. Of several attempts in a row, only the first is published.
func (r *runtime) publish(d Decision) {
	if r.cfg.Boot == nil || !published[d.Reason] || d.Attempt > 1 || len(d.Detail) > outbox.MaxDetail/2 {
		return
	}
	e := entry(d)
	e.NodeID, e.InstanceID, e.BootID, e.Agent = r.cfg.NodeID, r.node.instance, r.node.boot, r.cfg.Version
	e.At = diag.At(time.Now())
	// whose responsibility it is, for a reader without the boundary table
	if row, ok := update.BoundaryOf(d.Reason); ok {
		e.Facts = maps.Clone(e.Facts)
		if e.Facts == nil {
			e.Facts = map[string]string{}
		}
		e.Facts["path"], e.Facts["owner"] = string(row.Path), row.Owner
	}
	detail, err := json.Marshal(e)
	if err == nil {
		err = r.cfg.Boot.out.Add(wire.Event{At: time.Now().UTC(), Kind: wire.EventDecision, CorrelationID: d.Correlation,
			Detail: detail})
	}
	if err != nil {
		r.cfg.Log.Error("a decision could not be kept for the platform", "reason", string(d.Reason), "error", scrubbed(err))
	}
}

// header reads the fields that are sent as headers.
func (w *heartbeatReply) header(h http.Header) {
	w.replayFrom, _ = strconv.ParseUint(h.Get(wire.HeaderReplayFrom), 10, 64) // absent: 0
}

// hold returns why this node takes no work, "" if it does.
func (b *Boot) hold() string {
	if b == nil {
		return ""
	}
	return b.Hold
}
