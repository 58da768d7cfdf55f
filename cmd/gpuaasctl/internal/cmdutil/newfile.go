package cmdutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// CheckNewFile refuses, before any request, a path that exists or has no folder. flag is the flag with the path.
func CheckNewFile(flag, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %s exists, and is not replaced", flag, path)
	}
	return checkFolder(flag, path)
}

// checkFolder requires that path's folder exists.
func checkFolder(flag, path string) error {
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	} else if !info.IsDir() {
		return fmt.Errorf("%s: %s is not a folder", flag, filepath.Dir(path))
	}
	return nil
}

// WriteNewFile writes path completely or not at all, readable by its owner only, and never replaces a file: the
// finished file gets its name by a link, which fails if the name exists.
func WriteNewFile(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+walk.NewID("new"))
	err := durable.New(durable.Host{}, temp, 0o600, durable.Bytes(data))
	if err == nil {
		err = os.Link(temp, path)
		if err != nil && !errors.Is(err, fs.ErrExist) { // a file system without links
			if _, taken := os.Lstat(path); taken != nil {
				err = os.Rename(temp, path)
			}
		}
	}
	return errors.Join(err, durable.Host{}.RemoveAll(temp))
}
