// Package durabletest has the disk for tests of crash safety.
//
// Disk is a durable.FS in memory that logs every write, sync and change of a folder. Cut returns the disk as it may be
// found after a power failure following any of them: killing a process never tests a sync, since the page cache
// survives it. Killer ends a process before any change, of this disk or of a real one.
package durabletest

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing/fstest"

	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// Longer than 300 lines: one disk, with every operation of durable.FS and what a power cut leaves of it.

// Sector is the unit that a disk writes atomically.
const Sector = 512

// Op is one logged operation.
type Op struct {
	Kind string
	Path string
	from string // old name of a rename
	file *file
	off  int64
	data []byte
}

// Disk is a simulated disk. The zero value is not usable; see New.
type Disk struct {
	mu    sync.Mutex // guards everything
	names map[string]*file
	dirs  map[string]bool
	log   []Op
	keep  bool
	count map[string]int

	// Fault, if set, is called before every change, and in the middle of a write. It is called with the disk locked.
	Fault durable.Hook
	// FSKind is the file system's name, by default ext4.
	FSKind string
	// Inodes is the result of FreeInodes; 0 means many, a negative number none.
	Inodes int64
}

type file struct {
	data  []byte
	holes map[int64]bool // sectors that are not allocated yet, by offset
	gone  bool
}

// New returns an empty disk. It logs data if keep is set; it always counts.
func New(keep bool) *Disk {
	return &Disk{names: map[string]*file{}, dirs: map[string]bool{"/": true}, keep: keep, count: map[string]int{},
		FSKind: "ext4"}
}

var _ durable.FS = (*Disk)(nil)

func (d *Disk) ask(kind, path string) error {
	if d.Fault == nil {
		return nil
	}
	if err := d.Fault(kind, path); err != nil {
		return &fs.PathError{Op: kind, Path: path, Err: err}
	}
	return nil
}

func (d *Disk) do(op Op) error {
	if err := d.ask(op.Kind, op.Path); err != nil {
		return err
	}
	d.count[op.Kind]++
	d.count[op.Kind+" "+path.Dir(op.Path)]++
	if d.keep {
		d.log = append(d.log, op)
	}
	return nil
}

// Count returns how many operations of a kind were done.
func (d *Disk) Count(kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count[kind]
}

// CountIn returns how many operations of a kind were done directly in a folder.
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

// OpenRead implements durable.FS.
func (d *Disk) OpenRead(name string) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return &handle{disk: d, path: name, file: f}, nil
}

// Open implements durable.FS.
func (d *Disk) Open(name string, _ fs.FileMode) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[name]
	if !ok {
		return d.create(name)
	}
	if err := d.ask(durable.OpOpen, name); err != nil { // it is opened for writing
		return nil, err
	}
	return &handle{disk: d, path: name, file: f}, nil
}

// Create implements durable.FS.
func (d *Disk) Create(name string, _ fs.FileMode) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.create(name)
}

func (d *Disk) create(name string) (durable.File, error) {
	if !d.dirs[path.Dir(name)] {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	f := &file{}
	if err := d.do(Op{Kind: durable.OpCreate, Path: name, file: f}); err != nil {
		return nil, err
	}
	d.drop(name)
	d.names[name] = f
	return &handle{disk: d, path: name, file: f}, nil
}

func (d *Disk) drop(name string) {
	if f := d.names[name]; f != nil {
		f.gone = true
		delete(d.names, name)
	}
}

// MakeDir implements durable.FS.
func (d *Disk) MakeDir(name string, _ fs.FileMode) error {
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
		if err := d.do(Op{Kind: durable.OpMakeDir, Path: dir}); err != nil {
			return err
		}
		d.dirs[dir] = true
		if err := d.do(Op{Kind: durable.OpSyncDir, Path: path.Dir(dir)}); err != nil {
			return err
		}
	}
	return nil
}

// SyncDir implements durable.FS.
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dirs[name] {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return d.do(Op{Kind: durable.OpSyncDir, Path: name})
}

// Remove implements durable.FS.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[name]
	if !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOENT}
	}
	if err := d.do(Op{Kind: durable.OpRemove, Path: name, file: f}); err != nil {
		return err
	}
	d.drop(name)
	return nil
}

// RemoveAll implements durable.FS.
func (d *Disk) RemoveAll(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n, f := range d.names {
		if n != name && !strings.HasPrefix(n, name+"/") {
			continue
		}
		if err := d.do(Op{Kind: durable.OpRemove, Path: n, file: f}); err != nil {
			return err
		}
		d.drop(n)
	}
	maps.DeleteFunc(d.dirs, func(n string, _ bool) bool { return n == name || strings.HasPrefix(n, name+"/") })
	return nil
}

// Rename implements durable.FS.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[from]
	if !ok {
		return &fs.PathError{Op: "rename", Path: from, Err: syscall.ENOENT}
	}
	if err := d.do(Op{Kind: durable.OpRename, Path: to, from: from, file: f}); err != nil {
		return err
	}
	d.drop(to)
	delete(d.names, from)
	d.names[to] = f
	return nil
}

// List implements durable.FS.
func (d *Disk) List(name string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string]bool{}
	add := func(n string) {
		if rest, ok := strings.CutPrefix(n, name+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			seen[first] = true
		}
	}
	for n := range d.names {
		add(n)
	}
	for n := range d.dirs {
		add(n)
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// Kind implements durable.FS.
func (d *Disk) Kind(string) (string, error) { return d.FSKind, nil }

// FreeInodes implements durable.FS.
func (d *Disk) FreeInodes(string) (int64, error) {
	switch {
	case d.Inodes == 0:
		return 1 << 20, nil
	case d.Inodes < 0:
		return 0, nil
	}
	return d.Inodes, nil
}

// Files returns the current disk, including the page cache.
func (d *Disk) Files() fstest.MapFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return mapped(d.names)
}

// Holes counts the sectors of a file that are not allocated.
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

// Cut returns a disk as it may be found after a power failure following the first n operations of the log: everything
// that was synced is there, and of the rest any part, by sectors, as roll decides.
func (d *Disk) Cut(n int, roll *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := New(true)
	log := d.log[:n]
	synced, dirSynced := map[*file]int{}, map[string]int{}
	for i, op := range log {
		switch op.Kind {
		case durable.OpSync:
			synced[op.file] = i
		case durable.OpSyncDir:
			dirSynced[op.Path] = i
		}
	}
	sure := func(i int, name string) bool { return dirSynced[path.Dir(name)] > i || roll.IntN(2) == 0 }
	for i, op := range log {
		switch op.Kind {
		case durable.OpMakeDir:
			if sure(i, op.Path) && out.dirs[path.Dir(op.Path)] {
				out.dirs[op.Path] = true
			}
		case durable.OpCreate:
			if sure(i, op.Path) && out.dirs[path.Dir(op.Path)] {
				out.names[op.Path] = left(log, op.file, synced, roll)
			}
		case durable.OpRemove:
			if sure(i, op.Path) {
				delete(out.names, op.Path)
			}
		case durable.OpRename: // journaled: the old name or the new one
			if sure(i, op.Path) && out.dirs[path.Dir(op.Path)] {
				delete(out.names, op.from)
				out.names[op.Path] = left(log, op.file, synced, roll)
			}
		}
	}
	return out
}

// left returns what is left of a file.
func left(log []Op, of *file, synced map[*file]int, roll *rand.Rand) *file {
	last, ok := synced[of]
	if !ok {
		last = -1
	}
	out := &file{holes: map[int64]bool{}}
	there := map[int64]bool{}
	for i, op := range log {
		if op.Kind != durable.OpWrite || op.file != of {
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
		return 0, io.EOF
	}
	n := copy(b, h.file.data[off:])
	if n < len(b) {
		return n, io.EOF
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
	if err := h.disk.do(Op{Kind: durable.OpWrite, Path: h.path, file: h.file, off: off, data: data}); err != nil {
		return 0, err
	}
	half := len(b) / 2
	h.file.data = put(h.file.data, b[:half], off)
	if err := h.disk.ask(durable.OpTear, h.path); err != nil {
		return half, err
	}
	h.file.data = put(h.file.data, b[half:], off+int64(half))
	for at := off; at < off+int64(len(b)); at += Sector {
		delete(h.file.holes, at)
	}
	return len(b), nil
}

func (h *handle) Sync() error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.disk.do(Op{Kind: durable.OpSync, Path: h.path, file: h.file})
}

func (h *handle) Size() (size, real int64, err error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	n := int64(len(h.file.data))
	return n, n - Sector*int64(len(h.file.holes)), nil
}

func (h *handle) Unlinked() (bool, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.file.gone, nil
}

func (h *handle) Lock() error  { return nil }
func (h *handle) Close() error { return nil }
