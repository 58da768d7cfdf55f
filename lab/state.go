//go:build linux

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// stateVersion must match, except for Down: names and folders are derived, so any build can find and remove the
// lab of any other, but only the build that made a lab can continue with it.
const stateVersion = 2

// State holds what cannot be found by inspecting the host. It is written before the first change, and removed
// last.
type State struct {
	Version       int       `json:"version"`
	ID            string    `json:"id"` // random; part of the name of the lab's cgroup
	Nodes         int       `json:"nodes"`
	Bare          int       `json:"bare,omitempty"`
	Image         string    `json:"image"`   // image folder on which the machines are based
	Profile       string    `json:"profile"` // the profile file that this lab wrote
	CreatedAt     time.Time `json:"created_at"`
	MadeNetnsDir  bool      `json:"made_netns_dir"`  // /run/netns was not there before this lab
	MadeNetnsTop  bool      `json:"made_netns_top"`  // ip turned /run/netns into a mount point for this lab
	MadeNspawnDir bool      `json:"made_nspawn_dir"` // /run/systemd/nspawn was not there before this lab
}

func readState(dir string) (State, error) {
	var st State
	data, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if err != nil {
		return st, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&st); err != nil {
		return st, fmt.Errorf("read the lab's state in %s: %w: %s", dir, err, downFirst)
	}
	if st.Version != stateVersion {
		return st, fmt.Errorf("the lab in %s is of version %d, this program knows %d: %s", dir, st.Version, stateVersion,
			downFirst)
	}
	return st, nil
}

// downFirst says what to do about a state of another build.
const downFirst = "run `gpuaasctl lab down` first"

// readAnyState reads for Down what it understands of a state that any build wrote: it ignores unknown fields, and
// fields of another type.
func readAnyState(dir string) (State, error) {
	var st State
	data, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(data, &st); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return st, fmt.Errorf("read the lab's state in %s: %w", dir, err)
	}
	st.Nodes, st.Bare = min(max(st.Nodes, 0), MaxNodes), min(max(st.Bare, 0), MaxBare)
	return st, nil
}

func writeState(dir string, st State) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "lab.json"), append(data, '\n'), 0o600)
}

// writeFile replaces path atomically, and creates its folder if needed.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.Replace(path, data, mode)
}

// lockRetry is the interval between attempts to take the lock: another up or down takes seconds.
const lockRetry = 100 * time.Millisecond

// lock takes the lab's lock and returns its release function. It waits until ctx ends.
func lock(ctx context.Context, dir string) (func(), error) {
	path := filepath.Join(dir, "lock")
	for {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f, err := durable.TryLock(path)
		if err != nil {
			return nil, fmt.Errorf("lock the lab: %w", err)
		}
		if f != nil {
			return func() { f.Close() }, nil
		}
		if !sleep.For(ctx, lockRetry) {
			return nil, fmt.Errorf("another lab command holds %s: %w", path, ctx.Err())
		}
	}
}
