// Package memdisk is a disk in memory that remembers what was done to it, for tests of what survives a power cut: a
// killed process never tests a sync, for the page cache survives it.
//
// Disk is a recorder.FS. Every write, sync and change of a folder is logged; Cut makes the disk as it may lie there when
// the power went after any of them.
package memdisk

import (
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing/fstest"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
)

// Sector is what a disk writes wholly or not at all.
const Sector = 512

// Kinds of operations.
const (
	OpWrite   = "write"
	OpSync    = "sync"
	OpCreate  = "create"
	OpRemove  = "remove"
	OpMakeDir = "mkdir"
	OpSyncDir = "syncdir"
	OpOpen    = "open" // of what is there, for writing; changes nothing, so it is in no log
)

// Op is one operation, as it was logged.
type Op struct {
	Kind string
	Path string
	file *file
	off  int64
	data []byte
}

// Disk is a disk. The zero value is not usable; see New.
type Disk struct {
	mu    sync.Mutex // guards everything
	names map[string]*file
	dirs  map[string]bool
	log   []Op
	keep  bool
	count map[string]int

	// Fault, when set, is asked before every operation; its error is the operation's. It is called with the disk locked.
	Fault func(kind, path string) error
	// FSKind is the file system's name, by default ext4.
	FSKind string
	// Inodes is what FreeInodes says; 0 stands for many, below it for none.
	Inodes int64
}

type file struct {
	data  []byte
	holes map[int64]bool // sectors that have no room on the disk yet, by offset
	gone  bool
}

// New is an empty disk. It logs what it holds when keep is set; it always counts.
func New(keep bool) *Disk {
	return &Disk{names: map[string]*file{}, dirs: map[string]bool{"/": true}, keep: keep, count: map[string]int{}, FSKind: "ext4"}
}

var _ recorder.FS = (*Disk)(nil)

func (d *Disk) do(op Op) error {
	if d.Fault != nil {
		if err := d.Fault(op.Kind, op.Path); err != nil {
			return &fs.PathError{Op: op.Kind, Path: op.Path, Err: err}
		}
	}
	d.count[op.Kind]++
	d.count[op.Kind+" "+path.Dir(op.Path)]++
	if d.keep {
		d.log = append(d.log, op)
	}
	return nil
}

// Count is how many operations of a kind were done.
func (d *Disk) Count(kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count[kind]
}

// CountIn is how many operations of a kind were done in a folder itself.
func (d *Disk) CountIn(kind, folder string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count[kind+" "+folder]
}

// Len is the length of the log.
func (d *Disk) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

// OpenRead implements recorder.FS.
func (d *Disk) OpenRead(name string) (recorder.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return &handle{disk: d, path: name, file: f}, nil
}

// Open implements recorder.FS.
func (d *Disk) Open(name string) (recorder.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[name]
	if ok && d.Fault != nil { // it is opened to be written
		if err := d.Fault(OpOpen, name); err != nil {
			return nil, &fs.PathError{Op: OpOpen, Path: name, Err: err}
		}
	}
	if !ok {
		if !d.dirs[path.Dir(name)] {
			return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
		}
		f = &file{}
		if err := d.do(Op{Kind: OpCreate, Path: name, file: f}); err != nil {
			return nil, err
		}
		d.names[name] = f
	}
	return &handle{disk: d, path: name, file: f}, nil
}

// MakeDir implements recorder.FS.
func (d *Disk) MakeDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirs[name] {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(name, "/"), "/")
	for i := range parts {
		dir := "/" + strings.Join(parts[:i+1], "/")
		if d.dirs[dir] {
			continue
		}
		if err := d.do(Op{Kind: OpMakeDir, Path: dir}); err != nil {
			return err
		}
		d.dirs[dir] = true
		if err := d.do(Op{Kind: OpSyncDir, Path: path.Dir(dir)}); err != nil {
			return err
		}
	}
	return nil
}

// SyncDir implements recorder.FS.
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dirs[name] {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return d.do(Op{Kind: OpSyncDir, Path: name})
}

// Remove implements recorder.FS.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[name]
	if !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOENT}
	}
	if err := d.do(Op{Kind: OpRemove, Path: name, file: f}); err != nil {
		return err
	}
	f.gone = true
	delete(d.names, name)
	return nil
}

// Kind implements recorder.FS.
func (d *Disk) Kind(string) (string, error) { return d.FSKind, nil }

// FreeInodes implements recorder.FS.
func (d *Disk) FreeInodes(string) (int64, error) {
	switch {
	case d.Inodes == 0:
		return 1 << 20, nil
	case d.Inodes < 0:
		return 0, nil
	}
	return d.Inodes, nil
}

// Files is the disk as it is now, page cache and all.
func (d *Disk) Files() fstest.MapFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return mapped(d.names)
}

// Holes counts the sectors of a file that have no room on the disk.
func (d *Disk) Holes(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return len(f.holes)
	}
	return 0
}

func mapped(names map[string]*file) fstest.MapFS {
	m := fstest.MapFS{}
	for name, f := range names {
		m[strings.TrimPrefix(name, "/")] = &fstest.MapFile{Data: f.data, Mode: 0o640}
	}
	return m
}

// Cut is a disk as it may be found when the power went after the first n operations of the log: everything that was
// synced is there, and of the rest any part, by sectors, as roll has it.
func (d *Disk) Cut(n int, roll *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := New(true)
	log := d.log[:n]
	synced, dirSynced := map[*file]int{}, map[string]int{}
	for i, op := range log {
		switch op.Kind {
		case OpSync:
			synced[op.file] = i
		case OpSyncDir:
			dirSynced[op.Path] = i
		}
	}
	sure := func(i int, name string) bool { return dirSynced[path.Dir(name)] > i || roll.IntN(2) == 0 }
	for i, op := range log {
		switch op.Kind {
		case OpMakeDir:
			if sure(i, op.Path) && out.dirs[path.Dir(op.Path)] {
				out.dirs[op.Path] = true
			}
		case OpCreate:
			if sure(i, op.Path) && out.dirs[path.Dir(op.Path)] {
				out.names[op.Path] = left(log, op.file, synced, roll)
			}
		case OpRemove:
			if sure(i, op.Path) {
				delete(out.names, op.Path)
			}
		}
	}
	return out
}

// left is what is left of a file.
func left(log []Op, of *file, synced map[*file]int, roll *rand.Rand) *file {
	last, ok := synced[of]
	if !ok {
		last = -1
	}
	out := &file{holes: map[int64]bool{}}
	there := map[int64]bool{}
	for i, op := range log {
		if op.Kind != OpWrite || op.file != of {
			continue
		}
		for at := 0; at < len(op.data); at += Sector {
			end := min(at+Sector, len(op.data))
			if i <= last || roll.IntN(2) == 0 {
				there[op.off+int64(at)] = true
				out.data = put(out.data, op.data[at:end], op.off+int64(at))
			}
		}
	}
	for off := int64(0); off < int64(len(out.data)); off += Sector {
		if !there[off] {
			out.holes[off] = true
		}
	}
	return out
}

func put(b, data []byte, off int64) []byte {
	if need := off + int64(len(data)) - int64(len(b)); need > 0 {
		b = append(b, make([]byte, need)...)
	}
	copy(b[off:], data)
	return b
}

type handle struct {
	disk *Disk
	path string
	file *file
}

func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if off >= int64(len(h.file.data)) {
		return 0, fs.ErrInvalid
	}
	n := copy(b, h.file.data[off:])
	if n < len(b) {
		return n, fs.ErrInvalid
	}
	return n, nil
}

func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	var data []byte
	if h.disk.keep {
		data = append([]byte(nil), b...)
	}
	if err := h.disk.do(Op{Kind: OpWrite, Path: h.path, file: h.file, off: off, data: data}); err != nil {
		return 0, err
	}
	h.file.data = put(h.file.data, b, off)
	for at := off; at < off+int64(len(b)); at += Sector {
		delete(h.file.holes, at)
	}
	return len(b), nil
}

func (h *handle) Sync() error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.disk.do(Op{Kind: OpSync, Path: h.path, file: h.file})
}

func (h *handle) Size() (size, real int64, err error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	n := int64(len(h.file.data))
	return n, n - Sector*int64(len(h.file.holes)), nil
}

func (h *handle) Gone() (bool, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.file.gone, nil
}

func (h *handle) Lock() error  { return nil }
func (h *handle) Close() error { return nil }
