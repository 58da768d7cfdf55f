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

	"golang.org/x/sys/unix"
)

// stateVersion is refused when it differs, by all but Down: names and folders are derived, so any build finds the lab
// of any other, but only its own build knows how to go on with it.
const stateVersion = 2

// State is what cannot be seen by looking at the host. It is written before the first change, and removed last.
type State struct {
	Version       int       `json:"version"`
	ID            string    `json:"id"` // random; in the name of the lab's cgroup
	Nodes         int       `json:"nodes"`
	Image         string    `json:"image"`   // folder of the image below the machines
	Profile       string    `json:"profile"` // the profile file that this lab wrote
	CreatedAt     time.Time `json:"created_at"`
	MadeNetnsDir  bool      `json:"made_netns_dir"`  // /run/netns was not there before this lab
	MadeNetnsTop  bool      `json:"made_netns_top"`  // /run/netns was no mount point before this lab; ip makes it one
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
		return st, fmt.Errorf("the lab in %s is of version %d, this program knows %d: %s", dir, st.Version, stateVersion, downFirst)
	}
	return st, nil
}

// downFirst is the way out of a state of another build.
const downFirst = "run `gpuaasctl lab down` first"

// readAnyState reads what can be understood of the state that any build has written, for Down: fields that this build
// does not know, or knows in another form, are passed over.
func readAnyState(dir string) (State, error) {
	var st State
	data, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if err != nil {
		return st, err
	}
	var form *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &st); err != nil && !errors.As(err, &form) {
		return st, fmt.Errorf("read the lab's state in %s: %w", dir, err)
	}
	st.Nodes = min(max(st.Nodes, 0), MaxNodes)
	return st, nil
}

func writeState(dir string, st State) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "lab.json"), append(data, '\n'), 0o600)
}

// writeFile replaces path in one step: temp file in the same folder, fsync, rename, fsync the folder.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-"+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockRetry is how often a taken lock is asked for again: another up or down takes seconds.
const lockRetry = 100 * time.Millisecond

// lock takes the lab's lock and returns its release. It waits until ctx ends.
func lock(ctx context.Context, dir string) (func(), error) {
	path := filepath.Join(dir, "lock")
	for {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open the lab's lock: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && sameFile(f, path) {
			return func() { f.Close() }, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock the lab: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another lab command holds %s: %w", path, ctx.Err())
		case <-time.After(lockRetry):
		}
	}
}

// sameFile reports whether path is still the open file: a Down that held the lock has removed it.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}
