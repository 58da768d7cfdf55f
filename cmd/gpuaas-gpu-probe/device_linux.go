//go:build linux && cgo

package main

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// device queries one GPU for one sample.
type device struct {
	*driver
	handle nvml.Device
	until  time.Time // nothing is asked afterwards
	lost   bool      // a response was that the GPU is lost
	out    *report.GPU
	up     []int // active NVLinks
	many   bool  // the node has too many GPUs for lists of links and paths
	rare   *rare // what hardly ever changes; nil without a handle
}

// try makes one call, and returns true if the driver responded, otherwise the reason. A recording stores the
// call's result.
func (v *device) try(symbols string, args []any, f func() (any, nvml.Return)) (report.Reading, bool) {
	switch {
	case v.handle == nil:
		return report.Skipped(report.NoHandle), false
	case v.lost:
		return report.Skipped(report.WasLost), false
	case time.Now().After(v.until):
		return report.Skipped(report.Late), false
	case !v.lookUp(symbols):
		return report.Skipped(report.NoSymbol), false
	}
	done := v.calls.begin(call{symbol: symbols, gpu: v.out.Index, uuid: v.out.UUID})
	value, rc := f()
	done()
	if rc != nvml.SUCCESS || value != nil { // a recording stores values of fields by their numbers
		v.records.device(v.out.UUID, keyOf(symbols), args, int(rc), value)
	}
	if rc != nvml.SUCCESS {
		v.refused(symbols, int(rc))
		return report.Refused(int(rc)), false
	}
	return report.Reading{}, true
}

// refused notes a refusal that concerns the whole GPU, the first with its return code.
func (v *device) refused(symbols string, code int) {
	v.lost = v.lost || code == report.GPUIsLost
	had := func(r report.Refusal) bool { return r.Code == code }
	if len(v.out.Refusals) < report.MaxRefusals && report.CodeOf(code).About != report.AboutCall &&
		!slices.ContainsFunc(v.out.Refusals, had) {
		v.out.Refusals = append(v.out.Refusals, report.Refusal{Call: firstOf(symbols), Code: code})
	}
}

// value makes one call with one result of type T, see try.
func value[T any](v *device, symbols string, args []any, f func() (T, nvml.Return)) (x T, why report.Reading, ok bool) {
	why, ok = v.try(symbols, args, func() (any, nvml.Return) {
		var rc nvml.Return
		x, rc = f()
		return x, rc
	})
	return x, why, ok
}

func (v *device) set(s report.Signal, r report.Reading) { v.out.Signals[s] = r }

// number queries one number.
func (v *device) number(s report.Signal, symbols string, f func() (int64, nvml.Return), args ...any) {
	n, why, ok := value(v, symbols, args, f)
	if ok {
		why = readingOf(n)
	}
	v.set(s, why)
}

func readingOf(n int64) report.Reading {
	if n == unreadable {
		return report.Skipped(report.NoAnswer)
	}
	return report.ReadingOf(n)
}

// words queries one text.
func (v *device) words(symbols string, f func() (string, nvml.Return)) report.Reading {
	s, why, ok := value(v, symbols, nil, f)
	if ok {
		why = report.Words(s)
	}
	return why
}

// several queries numbers that one call returns together, by their names in a recording. Those of signals come
// first.
func (v *device) several(symbols string, signals []report.Signal, names []string, f func() ([]int64, nvml.Return)) {
	v.structure(symbols, signals, names, nil, f)
}

// structure is several for a response that also has a text, whose name is only filled in for the recording.
func (v *device) structure(symbols string, signals []report.Signal, names []string, fill func(map[string]any),
	f func() ([]int64, nvml.Return)) {
	var n []int64
	why, ok := v.try(symbols, nil, func() (any, nvml.Return) {
		var rc nvml.Return
		n, rc = f()
		value := map[string]any{}
		for i, name := range names {
			value[name] = n[i]
		}
		if fill != nil {
			fill(value)
		}
		return value, rc
	})
	for i, s := range signals {
		if ok {
			why = readingOf(n[i])
		}
		v.set(s, why)
	}
}

// unreadable marks a number that is out of range.
const unreadable = math.MinInt64

func signed(n uint64) int64 {
	if n > math.MaxInt64 {
		return unreadable
	}
	return int64(n)
}

func flag01(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// of converts an NVML response to int64.
func of[T ~int | ~int32 | ~uint32](n T, rc nvml.Return) (int64, nvml.Return) { return int64(n), rc }

func of64(n uint64, rc nvml.Return) (int64, nvml.Return) { return signed(n), rc }

// fields are the values that are read by number, all in one call.
var fields = [...]struct {
	id     uint32
	signal report.Signal
}{
	{nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, report.RecoveryAction},
	{nvml.FI_DEV_RESET_STATUS, report.ResetRequired},
	{nvml.FI_DEV_DRAIN_AND_RESET_STATUS, report.DrainAndReset},
	{nvml.FI_DEV_RETIRED_SBE, report.RetiredSBE},
	{nvml.FI_DEV_RETIRED_DBE, report.RetiredDBE},
	{nvml.FI_DEV_RETIRED_PENDING, report.RetiredPending},
	{nvml.FI_DEV_MEMORY_TEMP, report.TemperatureMemory},
	{nvml.FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, report.SlowdownTLimit},
	{nvml.FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT, report.ShutdownTLimit},
}

// fieldValues queries all of fields. Each has its own return code.
func (v *device) fieldValues() {
	values := make([]nvml.FieldValue, len(fields))
	for i, f := range fields {
		values[i].FieldId = f.id
	}
	why, ok := v.try("nvmlDeviceGetFieldValues", nil, func() (any, nvml.Return) {
		return nil, v.handle.GetFieldValues(values)
	})
	for i, f := range fields {
		r := why
		if ok {
			r = v.fieldValue(&values[i])
		}
		v.set(f.signal, r)
	}
}

func (v *device) fieldValue(f *nvml.FieldValue) report.Reading {
	n, rc := fieldNumber(f), int(f.NvmlReturn)
	v.records.field(v.out.UUID, f, n)
	if rc != 0 {
		v.refused("nvmlDeviceGetFieldValues", rc)
		return report.Refused(rc)
	}
	return readingOf(n)
}

// fieldNumber reads the union according to its type.
func fieldNumber(f *nvml.FieldValue) int64 {
	whole := binary.NativeEndian.Uint64(f.Value[:])
	low := binary.NativeEndian.Uint32(f.Value[:])
	switch nvml.ValueType(f.ValueType) {
	case nvml.VALUE_TYPE_DOUBLE:
		if d := math.Float64frombits(whole); d > -1e15 && d < 1e15 {
			return int64(d)
		}
		return unreadable
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return int64(low)
	case nvml.VALUE_TYPE_SIGNED_INT:
		return int64(int32(low))
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return int64(binary.NativeEndian.Uint16(f.Value[:]))
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return int64(whole)
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return signed(whole)
	}
	return unreadable
}
