package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	gpu "github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// keepFirst and keepLast bound how many events of the same error of one GPU are kept per boot; those in between
// are counted in the next one.
const (
	keepFirst = 8
	keepLast  = 8
)

// keepGPU stores the part of an event that is judged, in the transaction that stores the event and moves the
// watermark: the newest event of each GPU, of the probe and of the coverage, and the errors of this boot.
func keepGPU(ctx context.Context, q querier, nodeID, instanceID string, seq uint64, detail []byte,
	now time.Time) error {
	e, err := gpu.DecodeEvent(detail)
	// the platform's own counts are not a node's to change
	if err == nil && e.Dropped != nil && (e.Dropped.Why == whyLost || e.Dropped.Why == whyUnreadable) {
		err = fmt.Errorf("a node does not count what is %s", e.Dropped.Why)
	}
	if err != nil { // count it: the unreadable event may have been an error
		return dropGPU(ctx, q, nodeID, instanceID, seq, 1, whyUnreadable, now)
	}
	err = sameBoot(ctx, q, nodeID, instanceID, e.BootID, seq)
	slot := slotOf(e)
	switch {
	case e.Dropped != nil:
		err = errors.Join(err, mergeDropped(ctx, q, nodeID, slot, e.Dropped))
	case e.XID != nil, e.Action != nil:
		err = errors.Join(err, foldSame(ctx, q, nodeID, slot, e))
	case e.Device != nil: // a GPU that was first seen without its name has it now
		err = errors.Join(err, forget(ctx, q, nodeID, fmt.Sprint(e.Type, " index ", e.Device.GPU.Index)))
	}
	if e.XID == nil && e.Action == nil {
		err = errors.Join(err, forget(ctx, q, nodeID, slot))
	}
	return errors.Join(err, putGPU(ctx, q, nodeID, slot, seq, e, now))
}

// Reasons of the platform to count events as dropped, in addition to the node's own.
const (
	whyUnreadable = "unreadable"
	whyLost       = "lost"
	slotLost      = string(gpu.DroppedEvent) + " " + whyLost
)

// dropGPU counts events of a node that were lost in transit or cannot be read, like those that the node itself
// drops.
func dropGPU(ctx context.Context, q querier, nodeID, instanceID string, seq uint64, n int64, why string,
	now time.Time) error {
	if err := sameBoot(ctx, q, nodeID, instanceID, "", seq); err != nil {
		return err
	}
	e := &gpu.Event{APIVersion: gpu.APIVersion, Kind: gpu.KindEvent, Type: gpu.DroppedEvent,
		Source: gpu.FromAgent, At: now.UTC(), Dropped: &gpu.Dropped{Since: now.UTC(), Why: why,
			Count: map[gpu.EventType]int64{gpu.XIDEvent: n}}} // an unknown event may have been the worst kind
	slot := slotOf(e)
	return errors.Join(
		mergeDropped(ctx, q, nodeID, slot, e.Dropped),
		forget(ctx, q, nodeID, slot),
		putGPU(ctx, q, nodeID, slot, seq, e, now))
}

// lostGPU counts the events that a node with GPUs has lost before an event; their kinds are unknown.
func lostGPU(ctx context.Context, q querier, nodeID string, mark uint64, r wire.EventsRequest, now time.Time) error {
	is := func(e wire.Event) bool { return gpu.IsWireKind(e.Kind) }
	known, err := reportsGPUs(ctx, q, nodeID)
	if err != nil || (!known && !slices.ContainsFunc(r.Events, is)) {
		return err
	}
	return dropGPU(ctx, q, nodeID, r.NodeInstanceID, r.Oldest-1, int64(r.Oldest-1-mark), whyLost, now)
}

// reportsGPUs reports whether the node ever reported a GPU.
func reportsGPUs(ctx context.Context, q querier, nodeID string) (bool, error) {
	_, err := gpuNode(ctx, q, nodeID)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// keepPast is how many errors of earlier boots are kept. They are shown, and not judged.
const keepPast = 8

// endBoot deletes what was stored before a reboot, except for the newest errors, and for a loss right before the event,
// which may belong to this boot.
func endBoot(ctx context.Context, q querier, nodeID string, seq uint64) error {
	return errors.Join(
		exec(ctx, q, `UPDATE gpu_events SET slot = 'earlier ' || slot WHERE node_id = ? AND slot NOT LIKE 'earlier %'
			AND json_extract(detail, '$.xid.times') > 0 AND json_extract(detail, '$.boot_id') <> ''`, nodeID),
		exec(ctx, q, `DELETE FROM gpu_events WHERE node_id = ?1 AND NOT (seq = ?2 AND slot = ?3) AND NOT (slot LIKE
			'earlier %' AND seq IN (SELECT seq FROM gpu_events WHERE node_id = ?1 AND slot LIKE 'earlier %'
			ORDER BY seq DESC LIMIT ?4))`, nodeID, int64(seq)-1, slotLost, keepPast))
}

// sameBoot notes the newest event. An event of another host deletes what was stored before, one of another boot most of
// it.
func sameBoot(ctx context.Context, q querier, nodeID, instanceID, boot string, seq uint64) error {
	was, err := one(ctx, q, func(i *Instance) []any { return []any{&i.ID, &i.BootID} },
		"SELECT instance_id, boot_id FROM gpu_nodes WHERE node_id = ?", nodeID)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case was.ID != instanceID:
		if err := exec(ctx, q, "DELETE FROM gpu_events WHERE node_id = ?", nodeID); err != nil {
			return err
		}
	case boot != "" && was.BootID != "" && boot != was.BootID:
		if err := endBoot(ctx, q, nodeID, seq); err != nil {
			return err
		}
	}
	if boot == "" && was.ID == instanceID {
		boot = was.BootID
	}
	return exec(ctx, q, `INSERT INTO gpu_nodes (node_id, instance_id, boot_id, seq) VALUES (?1,?2,?3,?4)
		ON CONFLICT (node_id) DO UPDATE SET instance_id = ?2, boot_id = ?3, seq = ?4`, nodeID, instanceID, boot, int64(seq))
}

// slotOf returns the slot that an event belongs to. A GPU is identified by its PCI address: its UUID may change
// with a reset.
func slotOf(e *gpu.Event) string {
	of := e.Of()
	name := cmp.Or(of.PCI, of.UUID)
	if name == "" && of.Index != nil {
		name = fmt.Sprint("index ", *of.Index)
	}
	switch {
	case e.Device != nil:
		return fmt.Sprint(e.Type, " ", name)
	case e.Coverage != nil:
		return fmt.Sprint(e.Type, " ", e.Source)
	case e.Dropped != nil:
		return fmt.Sprint(e.Type, " ", e.Dropped.Why)
	case e.Action != nil:
		return fmt.Sprint(e.Type, " ", name, " ", e.Action.To)
	case e.XID != nil:
		x := e.XID
		return fmt.Sprint(e.Type, " ", e.Source, " ", name, " ", toJSON([]any{x.Code, x.CausedBy, x.Recovery, x.Severity,
			x.Port, of.GPUInstance, of.ComputeInstance}))
	}
	return string(e.Type) // the probe
}

func forget(ctx context.Context, q querier, nodeID, slot string) error {
	return exec(ctx, q, "DELETE FROM gpu_events WHERE node_id = ? AND slot = ?", nodeID, slot)
}

func putGPU(ctx context.Context, q querier, nodeID, slot string, seq uint64, e *gpu.Event, now time.Time) error {
	return exec(ctx, q,
		"INSERT OR REPLACE INTO gpu_events (node_id, seq, slot, received_at, detail) VALUES (?,?,?,?,?)", nodeID, int64(seq),
		slot, ms(now), jsonText{e})
}

// kept returns the events of a slot with their numbers, oldest first.
func kept(ctx context.Context, q querier, nodeID, slot string) ([]keptEvent, error) {
	return all(ctx, q, func(k *keptEvent) []any { return []any{&k.seq, jsonText{&k.Event}} },
		"SELECT seq, detail FROM gpu_events WHERE node_id = ? AND slot = ? ORDER BY seq", nodeID, slot)
}

// keptEvent is an event with its number.
type keptEvent struct {
	gpu.Event
	seq int64
}

// mergeDropped adds earlier counts of drops for the same reason.
func mergeDropped(ctx context.Context, q querier, nodeID, slot string, d *gpu.Dropped) error {
	before, err := kept(ctx, q, nodeID, slot)
	for i := range before {
		was := before[i].Dropped
		d.Since = was.Since
		for t, n := range was.Count {
			d.Count[t] = bounded.Add(d.Count[t], max(n, 0), gpu.MaxCount)
		}
	}
	return err
}

// foldSame makes room for another occurrence of the same error: the oldest of the last ones is counted in the new
// one.
func foldSame(ctx context.Context, q querier, nodeID, slot string, e *gpu.Event) error {
	before, err := kept(ctx, q, nodeID, slot)
	if err != nil || len(before) < keepFirst+keepLast {
		return err
	}
	if x := before[keepFirst].XID; x != nil && e.XID != nil {
		e.XID.Absorb(x, before[keepFirst].At)
	}
	return exec(ctx, q, "DELETE FROM gpu_events WHERE node_id = ? AND slot = ? AND seq = ?", nodeID, slot,
		before[keepFirst].seq)
}
