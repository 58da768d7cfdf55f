package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// writeReport puts r as JSON at path, whole or not at all.
func writeReport(path string, r *diag.Report) error {
	var b bytes.Buffer
	if err := render.Report(&b, r, render.Options{Format: render.JSON}); err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := replaceFile(path, b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// replaceFile writes beside path, syncs, renames over path, and syncs the folder. What is there and is no plain file
// (a pipe, /dev/fd/3) is written to as it is.
func replaceFile(path string, data []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0)
	}
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, "."+filepath.Base(path)+"."+preflight.NewID("new"))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// maxReport bounds what is read as a report: a fleet of facts fits, somebody's disk image does not.
const maxReport = 64 << 20

// parseReport reads a report strictly.
func parseReport(data []byte) (*diag.Report, error) {
	r := &diag.Report{}
	if err := strictJSON(data, r); err != nil {
		return nil, err
	}
	return r, nil
}
