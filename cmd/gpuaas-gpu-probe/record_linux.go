//go:build linux && cgo

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"go.yaml.in/yaml/v3"
)

// recorder stores every call and its response in the format of DCGM's NVML injection library: Global, Device by
// UUID and MigDevice by UUID, each with a key for a call, keys for its arguments, FunctionReturn, and ReturnValue
// if that is 0. The library rejects a file with an unknown key in Global, so such calls are in Other, which it
// ignores. A repeated call replaces its response. The methods do nothing on nil.
type recorder struct {
	mu                 sync.Mutex // guards what is below
	globals, others    map[any]any
	devices, instances map[string]map[any]any
	fields             map[string]fieldAnswers // by UUID
	order              []string                // of the GPUs
}

func newRecorder() *recorder {
	return &recorder{globals: map[any]any{}, others: map[any]any{}, devices: map[string]map[any]any{},
		instances: map[string]map[any]any{}, fields: map[string]fieldAnswers{}}
}

// answerKeys are the recording's own keys.
const (
	returnKey = "FunctionReturn"
	valueKey  = "ReturnValue"
)

func (r *recorder) global(key string, args []any, code int, value any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	put(r.globals, key, args, code, value)
}

// other stores a call that the library does not play back.
func (r *recorder) other(key string, args []any, code int, value any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	put(r.others, key, args, code, value)
}

func (r *recorder) device(uuid, key string, args []any, code int, value any) {
	if r == nil || uuid == "" || key == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	put(r.of(uuid), key, args, code, value)
}

// of returns the recording of a GPU.
func (r *recorder) of(uuid string) map[any]any {
	of := r.devices[uuid]
	if of == nil {
		of = map[any]any{}
		r.devices[uuid], r.order = of, append(r.order, uuid)
	}
	return of
}

// instance stores a MIG instance under the names of the recording's format.
func (r *recorder) instance(gpu, uuid string, gi, ci int) {
	if r == nil || gpu == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.instances[uuid] == nil {
		r.instances[uuid] = map[any]any{}
		list, _ := r.of(gpu)["MigDeviceUUID"].([]string)
		r.of(gpu)["MigDeviceUUID"] = append(list, uuid)
	}
	put(r.instances[uuid], "UUID", nil, 0, uuid)
	put(r.instances[uuid], "GpuInstanceId", nil, 0, gi)
	put(r.instances[uuid], "ComputeInstanceId", nil, 0, ci)
}

// fieldAnswers holds a GPU's responses for fields, by number.
type fieldAnswers map[uint32]map[string]any

// field stores the value of a field; n is the value that was read from it.
func (r *recorder) field(uuid string, f *nvml.FieldValue, n int64) {
	if r == nil || uuid == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.NvmlReturn != 0 || n == unreadable {
		n = 0
	}
	answers, ok := r.fields[uuid]
	if !ok {
		answers = fieldAnswers{}
		r.fields[uuid] = answers
	}
	answers[f.FieldId] = map[string]any{"fieldId": f.FieldId, "scopeId": f.ScopeId, "timestamp": f.Timestamp,
		"latencyUsec": f.LatencyUsec, "valueType": f.ValueType, "nvmlReturn": f.NvmlReturn, "value": n}
	r.of(uuid)["FieldValues"] = map[string]any{returnKey: 0, valueKey: answers}
}

// lastType is the highest type of a value that the injection library can read. It stops reading at another type,
// so those come last.
const lastType = uint32(nvml.VALUE_TYPE_SIGNED_LONG_LONG)

// MarshalYAML implements yaml.Marshaler.
func (a fieldAnswers) MarshalYAML() (any, error) {
	order := func(x, y uint32) int {
		late := func(id uint32) int { return int(flag01(a[id]["valueType"].(uint32) > lastType)) }
		return cmp.Or(cmp.Compare(late(x), late(y)), cmp.Compare(x, y))
	}
	all := &yaml.Node{Kind: yaml.MappingNode}
	for _, id := range slices.SortedFunc(maps.Keys(a), order) {
		var key, value yaml.Node
		if err := errors.Join(key.Encode(id), value.Encode(a[id])); err != nil {
			return nil, err
		}
		all.Content = append(all.Content, &key, &value)
	}
	return all, nil
}

func put(of map[any]any, key any, args []any, code int, value any) {
	for _, a := range args {
		next, ok := of[key].(map[any]any)
		if !ok {
			next = map[any]any{}
			of[key] = next
		}
		of, key = next, a
	}
	answer := map[string]any{returnKey: code}
	if code == 0 && value != nil && value != int64(unreadable) {
		answer[valueKey] = value
	}
	of[key] = answer
}

// unrecorded are the calls whose answers are private, or name other devices than by what a recording replays.
var unrecorded = [...]string{"nvmlDeviceGetSerial", "nvmlDeviceGetComputeRunningProcesses",
	"nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetNvLinkRemotePciInfo",
	"nvmlDeviceGetNvLinkRemoteDeviceType", "nvmlDeviceGetTopologyCommonAncestor"}

// keyOf returns a call's key: what it gets, without the prefix and the version of its symbol; "" for one of unrecorded.
func keyOf(symbols string) string {
	key, _, _ := strings.Cut(symbols, "|")
	if of, _, _ := strings.Cut(key, "_v"); slices.Contains(unrecorded[:], of) {
		return ""
	}
	for _, prefix := range [...]string{"nvmlDeviceGet", "nvmlSystemGet", "nvmlDevice", "nvml"} {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			key = rest
			break
		}
	}
	if key == "MemoryInfo_v2" { // which answers otherwise than the first version
		return key
	}
	key, _, _ = strings.Cut(key, "_v")
	return key
}

// save replaces the recording atomically.
func (r *recorder) save(path string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.globals["DeviceOrder"] = r.order
	text, err := yaml.Marshal(map[string]any{"Global": r.globals, "Device": r.devices, "MigDevice": r.instances,
		"Other": r.others})
	if err != nil {
		return fmt.Errorf("encode the recording: %w", err)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}
