// Package disktest is a disk in memory whose writes can be cut off: before, in the middle of, and after any one of them.
package disktest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/agent/disk"
)

// Cut says how much of the write at which a process dies has happened.
type Cut string

// The cuts.
const (
	Before Cut = "before" // nothing
	Torn   Cut = "torn"   // half of an append; a temporary file that did not get its name
	After  Cut = "after"  // all of it
)

// Cuts is every one.
var Cuts = [...]Cut{Before, Torn, After}

// Killed is what a write panics with at which the process dies.
type Killed struct{ Write string }

// Disk wraps another disk, or is one in memory.
type Disk struct {
	files map[string][]byte
	under disk.Disk // nil: in memory

	Writes int // so far, in this process and those before
	At     int // the write that kills, from 1; 0: none
	How    Cut
}

// New is an empty disk in memory; Over counts and cuts the writes of another one.
func New() *Disk                 { return &Disk{files: map[string][]byte{}} }
func Over(under disk.Disk) *Disk { return &Disk{under: under} }

// write does one write, or the part of it that the cut leaves.
func (d *Disk) write(what string, torn, whole func() error) error {
	d.Writes++
	if d.Writes != d.At {
		return whole()
	}
	switch d.How {
	case Torn:
		if err := torn(); err != nil {
			return err
		}
	case After:
		if err := whole(); err != nil {
			return err
		}
	}
	panic(Killed{fmt.Sprintf("%s write %d, %s", d.How, d.Writes, what)})
}

// Read implements disk.Disk.
func (d *Disk) Read(name string) ([]byte, error) {
	if d.under != nil {
		return d.under.Read(name)
	}
	b, ok := d.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return slices.Clone(b), nil
}

// Open implements disk.Disk.
func (d *Disk) Open(name string) (io.ReadCloser, error) {
	if d.under != nil {
		return d.under.Open(name)
	}
	b, err := d.Read(name)
	return io.NopCloser(bytes.NewReader(b)), err
}

// Write implements disk.Disk.
func (d *Disk) Write(name string, data []byte, mode fs.FileMode) error {
	return d.Stream(name, bytes.NewReader(data), int64(len(data)), mode, io.Discard, func() error { return nil })
}

// Stream implements disk.Disk.
func (d *Disk) Stream(name string, from io.Reader, limit int64, mode fs.FileMode, also io.Writer, ok func() error) error {
	temporary := path.Join(path.Dir(name), "."+path.Base(name)+".new")
	return d.write("of "+name, func() error {
		text, err := io.ReadAll(from)
		if err != nil || d.under != nil {
			return err
		}
		d.files[temporary] = text[:len(text)/2]
		return nil
	}, func() error {
		if d.under != nil {
			return d.under.Stream(name, from, limit, mode, also, ok)
		}
		text, err := io.ReadAll(io.TeeReader(io.LimitReader(from, limit+1), also))
		if err == nil && int64(len(text)) > limit {
			err = io.ErrShortBuffer
		}
		if err == nil {
			err = ok()
		}
		if err == nil {
			delete(d.files, temporary)
			d.files[name] = text
		}
		return err
	})
}

// Append implements disk.Disk.
func (d *Disk) Append(name string, data []byte) error {
	appended := func(data []byte) func() error {
		return func() error {
			if d.under != nil {
				return d.under.Append(name, data)
			}
			d.files[name] = append(slices.Clone(d.files[name]), data...)
			return nil
		}
	}
	return d.write("to "+name, appended(data[:len(data)/2]), appended(data))
}

// Remove implements disk.Disk.
func (d *Disk) Remove(name string) error {
	return d.write("that removes "+name, func() error { return nil }, func() error {
		if d.under != nil {
			return d.under.Remove(name)
		}
		maps.DeleteFunc(d.files, func(n string, _ []byte) bool { return n == name || strings.HasPrefix(n, name+"/") })
		return nil
	})
}

// List implements disk.Disk.
func (d *Disk) List(name string) ([]string, error) {
	if d.under != nil {
		return d.under.List(name)
	}
	seen := map[string]bool{}
	for n := range d.files {
		if rest, ok := strings.CutPrefix(n, name+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			seen[first] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// Path implements disk.Disk.
func (d *Disk) Path(name string) string {
	if d.under != nil {
		return d.under.Path(name)
	}
	return "/" + name
}

// Files names what is there.
func (d *Disk) Files() []string { return slices.Sorted(maps.Keys(d.files)) }
