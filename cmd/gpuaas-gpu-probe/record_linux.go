//go:build linux && cgo

package main

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// recorder keeps every call and its answer as DCGM's NVML injection library plays them: Global, and Device by UUID,
// each with a key for a call, keys for its arguments, FunctionReturn, and ReturnValue where that is 0. A call that is
// made again replaces its answer. Its methods do nothing on nil.
type recorder struct {
	mu      sync.Mutex // guards what is below
	globals map[any]any
	devices map[string]map[any]any
	order   []string
}

func newRecorder() *recorder {
	return &recorder{globals: map[any]any{}, devices: map[string]map[any]any{}}
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

func (r *recorder) device(uuid, key string, args []any, code int, value any) {
	if r == nil || uuid == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.devices[uuid]
	if of == nil {
		of = map[any]any{}
		r.devices[uuid], r.order = of, append(r.order, uuid)
	}
	put(of, key, args, code, value)
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
	if code == 0 && value != nil {
		answer[valueKey] = value
	}
	of[key] = answer
}

// keyOf is a call's key: what it gets, without the prefix and the version of its symbol.
func keyOf(symbols string) string {
	key, _, _ := strings.Cut(symbols, "|")
	for _, prefix := range [...]string{"nvmlDeviceGet", "nvmlSystemGet", "nvmlDevice", "nvml"} {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			key = rest
			break
		}
	}
	key, _, _ = strings.Cut(key, "_v")
	return key
}

// save writes the recording in one step, so that a reader finds all of it or the one before.
func (r *recorder) save(path string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.globals["DeviceOrder"] = r.order
	text, err := yaml.Marshal(map[string]any{"Global": r.globals, "Device": r.devices})
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
