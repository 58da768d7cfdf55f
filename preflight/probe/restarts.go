//go:build linux

package probe

import (
	"bytes"
	"context"
	"math"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

const (
	// restartWindow is how far back automatic restarts are counted. A process that has run for longer has settled.
	restartWindow = 10 * time.Minute
	// youngProcess is the uptime below which a unit that was restarted automatically is looked at twice.
	youngProcess = 10 * time.Second
	// secondLook is when: a second is the usual RestartSec=, and systemd's default is shorter.
	secondLook = 1200 * time.Millisecond
	// restartLines bounds what is read of the journal: a unit that restarts every second has 600.
	restartLines = 700
	// restartMessage is SD_MESSAGE_UNIT_RESTART_SCHEDULED: one entry for every automatic restart.
	restartMessage = "5eb03494b6584870a536b337290809b3"
)

// settled measures whether the unit stays up, where systemd has restarted it not long ago: its restarts by the journal,
// and a second look. NRestarts alone says nothing of the time, since it counts from the last start by hand.
func (p *Prober) settled(ctx context.Context, unit string, u *diag.UnitFacts) {
	if u.Restarts == nil || *u.Restarts == 0 || u.UptimeS == nil || *u.UptimeS > int64(restartWindow.Seconds()) {
		return
	}
	u.Recent = recentRestarts(ctx, unit, *u.Restarts)
	if *u.UptimeS > int64(youngProcess.Seconds()) {
		return
	}
	within := secondLook
	if end, ok := ctx.Deadline(); ok { // the answer takes time, too
		within = min(within, time.Until(end)/3)
	}
	began := time.Now()
	if within <= 0 || !wait(ctx, within) {
		return
	}
	props, err := p.units.show(ctx, unit)
	if err != nil {
		return
	}
	u.Later = &diag.UnitLook{
		AfterMS: time.Since(began).Milliseconds(), Active: props["ActiveState"], Sub: props["SubState"], PID: props.pid(), Restarts: props.number("NRestarts"),
	}
}

// recentRestarts counts the unit's automatic restarts since its last start by hand, at most most, within restartWindow.
// It is nil where the journal cannot be read, or has none: then it is not this unit's journal, for there was one.
func recentRestarts(ctx context.Context, unit string, most int) *diag.UnitRestarts {
	since := strconv.FormatInt(time.Now().Add(-restartWindow).Unix(), 10)
	s, err := command(ctx, "journalctl", "MESSAGE_ID="+restartMessage, "UNIT="+unit, "--since=@"+since,
		"--output=json", "--output-fields=UNIT", "--lines="+strconv.Itoa(restartLines), "--reverse", "--no-pager")
	if err != nil || s.code != 0 {
		return nil
	}
	var at []int64 // microseconds since 1970, newest first
	for line := range bytes.Lines(s.out) {
		var entry struct {
			At string `json:"__REALTIME_TIMESTAMP"`
		}
		if bounded.Unmarshal(line, &entry, bounded.Small()) != nil {
			continue
		}
		if us, err := strconv.ParseInt(entry.At, 10, 64); err == nil && len(at) < most {
			at = append(at, us)
		}
	}
	if len(at) == 0 {
		return nil
	}
	r := &diag.UnitRestarts{WithinS: int64(restartWindow.Seconds()), Count: len(at)}
	if n := len(at); n > 1 {
		every := int64(math.Round(float64(at[0]-at[n-1]) / float64(n-1) / 1e6))
		r.EveryS = &every
	}
	return r
}

// wait waits for d; false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
