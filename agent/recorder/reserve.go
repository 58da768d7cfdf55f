package recorder

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// The reserve is space and inodes that are released when a credential has to be written to a full disk: a
// generation of credentials is a folder, four small files and a link.
const (
	reserveFiles = 8
	reserveSlots = 16 // 64 KiB each, of real zeros
)

// ReleaseReserve returns the reserve's space and inodes to the file system.
func (r *Recorder) ReleaseReserve() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.disk.dropReserve()
}

// RefillReserve allocates the reserve again. On a full disk it takes what it can get.
func (r *Recorder) RefillReserve() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.disk.fillReserve()
}

// ReserveIn is the reserve of the record in a folder of the host, for a program other than its recorder.
type ReserveIn string

// ReleaseReserve returns the reserve to the file system.
func (dir ReserveIn) ReleaseReserve() error { return dir.folder().dropReserve() }

// RefillReserve allocates the reserve again, as far as there is space.
func (dir ReserveIn) RefillReserve() error { return dir.folder().fillReserve() }

func (dir ReserveIn) folder() *folder { return &folder{fs: durable.Host{}, dir: string(dir)} }

func (f *folder) reserveFile(n int) string {
	return filepath.Join(f.dir, record.DirReserve, strconv.Itoa(n))
}

func (f *folder) dropReserve() error {
	var errs []error
	for n := range reserveFiles {
		if err := f.fs.Remove(f.reserveFile(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	f.reserve, f.lent = 0, true
	if err := f.fs.SyncDir(filepath.Join(f.dir, record.DirReserve)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (f *folder) fillReserve() error {
	f.reserve, f.lent = 0, false
	dir := filepath.Join(f.dir, record.DirReserve)
	if err := f.fs.MakeDir(dir, dirMode); err != nil {
		return fmt.Errorf("make the reserve: %w", err)
	}
	for n := range reserveFiles {
		file, err := f.fs.Open(f.reserveFile(n), fileMode)
		if err != nil {
			return fmt.Errorf("make the reserve: %w", err)
		}
		_, err = makeWhole(file, reserveSlots)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("make the reserve: %w", err)
		}
		f.reserve++
	}
	return f.fs.SyncDir(dir)
}
