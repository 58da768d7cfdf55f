//go:build linux && cgo

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// Timing of the waits for events. After a wait that returns early, the next one begins only when the first should
// have ended: otherwise this process would spin with a library that never waits.
const (
	waitFor    = 5 * time.Second
	pace       = time.Second // minimum time between two waits without an event
	burst      = 64          // maximum number of events per pace
	eventTypes = nvml.EventTypeXidCriticalError | nvml.EventTypeGpuRecoveryAction
	noInstance = 0xFFFFFFFF
)

// listened is a GPU whose events are awaited.
type listened struct {
	handle nvml.Device
	index  int
	uuid   string
	pci    string
}

func (g listened) identity() *report.Identity {
	return &report.Identity{Index: &g.index, UUID: g.uuid, PCI: g.pci}
}

// acted is a GPU's recovery action, and the time when its last change was seen.
type acted struct {
	action int64
	at     time.Time
}

// listener waits for the driver's events, and tracks changes of each GPU's recovery action.
type listener struct {
	*driver
	w     *writer
	next  chan []listened // GPUs that are there now
	since time.Time

	mu     sync.Mutex // guards what is below
	gpus   []listened
	action map[string]acted // by UUID
	told   bool             // whether the start of listening, or why it is impossible, was reported
	blind  string           // why events cannot be received, as last reported
	// refused are the GPUs whose events were refused, by UUID: it is a fact about the GPU like every other refusal.
	refused map[string]report.Refusal
}

func newListener(d *driver, w *writer) *listener {
	return &listener{driver: d, w: w, action: map[string]acted{}, refused: map[string]report.Refusal{}}
}

// attend makes these GPUs the ones whose events are awaited. It returns at once.
func (l *listener) attend(ctx context.Context, gpus []listened) {
	if l.next == nil {
		l.next, l.since = make(chan []listened, 1), time.Now()
		go l.listen(ctx) // it ends with ctx, or with the process if a wait does not return
	}
	l.mu.Lock()
	same := len(gpus) == len(l.gpus)
	for i := 0; same && i < len(gpus); i++ {
		same = gpus[i].uuid == l.gpus[i].uuid && gpus[i].index == l.gpus[i].index
	}
	l.gpus = gpus
	same = same && l.blind == ""
	l.mu.Unlock()
	if same {
		return
	}
	select { // replace an older list that was not taken yet
	case <-l.next:
	default:
	}
	l.next <- gpus
}

func (l *listener) listen(ctx context.Context) {
	for gpus := range orDone(ctx, l.next) {
		l.listenTo(ctx, gpus)
	}
}

// orDone yields what is received, until ctx ends.
func orDone[T any](ctx context.Context, in <-chan T) func(func(T) bool) {
	return func(yield func(T) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case v := <-in:
				if !yield(v) {
					return
				}
			}
		}
	}
}

// listenTo waits for events until the GPUs change or ctx ends. It returns at once if events cannot be received;
// the next sample tries again.
func (l *listener) listenTo(ctx context.Context, gpus []listened) {
	for _, s := range [...]string{"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlDeviceRegisterEvents",
		"nvmlEventSetWait_v2|nvmlEventSetWait"} {
		if !l.lookUp(s) {
			l.see("the library lacks " + firstOf(s))
			return
		}
	}
	done := l.calls.begin(call{symbol: "nvmlEventSetCreate", gpu: noGPU})
	set, rc := l.nvml.EventSetCreate()
	done()
	if rc != nvml.SUCCESS {
		l.see(fmt.Sprintf("nvmlEventSetCreate is answered with %d", rc))
		return
	}
	defer func() {
		done := l.calls.begin(call{symbol: "nvmlEventSetFree", gpu: noGPU})
		_ = set.Free() // nothing can be done about an error
		done()
	}()
	why := ""
	registered := 0
	for _, g := range gpus {
		rc := l.register(g, set)
		l.mu.Lock()
		if delete(l.refused, g.uuid); report.CodeOf(int(rc)).About != report.AboutCall && rc != nvml.SUCCESS {
			l.refused[g.uuid] = report.Refusal{Call: "nvmlDeviceRegisterEvents", Code: int(rc)}
		}
		l.mu.Unlock()
		if rc != nvml.SUCCESS {
			why = fmt.Sprintf("events of GPU %d are refused with %d", g.index, rc)
			continue
		}
		registered++
	}
	l.see(why)
	if registered > 0 {
		l.wait(ctx, set, gpus)
	}
}

// addRefusals adds the refusals of events to the GPUs of a sample.
func (l *listener) addRefusals(s *report.Sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range s.GPUs {
		g := &s.GPUs[i]
		if r, ok := l.refused[g.UUID]; ok && len(g.Refusals) < report.MaxRefusals {
			g.Refusals = append(g.Refusals, r)
		}
	}
}

// register subscribes to the events that the GPU supports.
func (l *listener) register(g listened, set nvml.EventSet) nvml.Return {
	types := uint64(nvml.EventTypeXidCriticalError)
	if l.lookUp("nvmlDeviceGetSupportedEventTypes") {
		done := l.calls.begin(call{symbol: "nvmlDeviceGetSupportedEventTypes", gpu: g.index, uuid: g.uuid})
		supported, rc := g.handle.GetSupportedEventTypes()
		done()
		if rc != nvml.SUCCESS {
			return rc
		}
		types = supported & eventTypes
	}
	if types == 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	done := l.calls.begin(call{symbol: "nvmlDeviceRegisterEvents", gpu: g.index, uuid: g.uuid})
	defer done()
	return g.handle.RegisterEvents(types, set)
}

// wait handles events until the GPUs change, ctx ends or the output is closed.
func (l *listener) wait(ctx context.Context, set nvml.EventSet, gpus []listened) {
	events, from := 0, time.Now()
	for ctx.Err() == nil && len(l.next) == 0 {
		began := time.Now()
		done := l.calls.begin(call{symbol: "nvmlEventSetWait", gpu: noGPU, allow: waitFor})
		data, rc := set.Wait(uint32(waitFor.Milliseconds()))
		done()
		rest := pace - time.Since(began)
		switch rc {
		case nvml.SUCCESS:
			if err := l.took(data, gpus); err != nil {
				return
			}
			if events++; events < burst {
				rest = 0
			} else {
				rest, events = pace-time.Since(from), 0
			}
			if time.Since(from) > pace {
				events, from = 0, time.Now()
			}
		case nvml.ERROR_TIMEOUT:
		default:
			l.see(fmt.Sprintf("nvmlEventSetWait is answered with %d", rc))
		}
		sleep.For(ctx, rest)
	}
}

// took writes an event.
func (l *listener) took(data nvml.EventData, gpus []listened) error {
	var id report.Identity
	var from *listened
	for i := range gpus {
		if gpus[i].handle == data.Device {
			from, id = &gpus[i], *gpus[i].identity()
		}
	}
	if data.GpuInstanceId != noInstance && data.ComputeInstanceId != noInstance {
		gi, ci := int(data.GpuInstanceId), int(data.ComputeInstanceId)
		id.GPUInstance, id.ComputeInstance = &gi, &ci
	}
	switch data.EventType {
	case nvml.EventTypeXidCriticalError:
		e := event(report.XIDEvent, time.Now())
		e.GPU, e.XID = &id, &report.XID{Code: new(int(min(data.EventData, 1<<31-1))), Times: 1}
		return l.w.write(e)
	case nvml.EventTypeGpuRecoveryAction:
		if from == nil || !l.lookUp("nvmlDeviceGetFieldValues") {
			return nil
		}
		asked, values := time.Now(), []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
		done := l.calls.begin(call{symbol: "nvmlDeviceGetFieldValues", gpu: from.index, uuid: from.uuid})
		rc := from.handle.GetFieldValues(values)
		done()
		if n := fieldNumber(&values[0]); rc == nvml.SUCCESS && values[0].NvmlReturn == 0 && n != unreadable {
			return l.changed(&id, n, asked)
		}
	}
	return nil
}

// compare writes an event for each GPU whose recovery action has changed: the driver may change it without an
// event and without an XID.
func (l *listener) compare(s *report.Sample) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		if n, ok := g.Value(report.RecoveryAction); ok && g.UUID != "" {
			// The write of the sample itself reports the same error.
			_ = l.changed(&report.Identity{Index: &g.Index, UUID: g.UUID, PCI: g.PCI}, n, s.At)
		}
	}
}

// changed writes an event if the action differs from the previous one. A response to a request from before the
// last change may be outdated and is ignored: the next sample has the state.
func (l *listener) changed(id *report.Identity, to int64, asked time.Time) error {
	l.mu.Lock()
	last, known := l.action[id.UUID]
	was, stale := last.action, asked.Before(last.at)
	if !stale && (!known || was != to) {
		l.action[id.UUID] = acted{to, time.Now()}
	}
	l.mu.Unlock()
	if l.interval == 0 || stale || (known && was == to) || (!known && report.ActionOf(to) == report.ActionNone) {
		return nil
	}
	e := event(report.RecoveryEvent, time.Now())
	e.GPU, e.Action = id, &report.Recovery{To: to, Action: report.ActionOf(to)}
	if known {
		e.Action.From = &was
	}
	return l.w.write(e)
}

// see reports since when events are received, or why they are not, when that changes.
func (l *listener) see(blind string) {
	l.mu.Lock()
	same := l.told && l.blind == blind
	l.told, l.blind = true, blind
	l.mu.Unlock()
	if same {
		return
	}
	now := time.Now()
	e := event(report.CoverageEvent, now)
	e.Coverage = &report.Coverage{From: l.since.UTC(), To: now.UTC(), Blind: blind}
	_ = l.w.write(e) // the next sample's write fails as well, and ends the process
}
