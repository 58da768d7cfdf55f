package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

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

// checkReportPath refuses, before anything is measured, a path that no report can be written to.
func checkReportPath(path string) error {
	switch {
	case path == "":
		return nil
	case path == "-":
		return errors.New("--report: want a file; for the report on stdout use -o json")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("--report: %s is a folder", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("--report: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("--report: %s is no folder", filepath.Dir(path))
	}
	return nil
}

// replaceFile writes beside path, syncs, renames over path, and syncs the folder. A symbolic link stays, and the file
// that it leads to is replaced. What is no plain file, or is named by a device folder (/dev/stdout, /dev/fd/3: what
// they lead to is somebody's open file), is appended to as it is.
func replaceFile(path string, data []byte) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() || isDevice(path) {
		return appendTo(path, data)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
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

// isDevice reports whether path is in /dev or /proc, whose entries must never be replaced by files.
func isDevice(path string) bool {
	abs, err := filepath.Abs(path)
	return err == nil && (strings.HasPrefix(abs, "/dev/") || strings.HasPrefix(abs, "/proc/"))
}

// pipePatience bounds the wait for the reader of a pipe that stopped reading.
const pipePatience = 5 * time.Second

// appendTo writes to what is there. It fails at once for a pipe that no process reads, and after pipePatience for one
// whose reader takes nothing.
func appendTo(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("%s: no process reads this pipe", path)
	}
	if err != nil {
		return err
	}
	_ = f.SetWriteDeadline(time.Now().Add(pipePatience)) // a plain file has no deadline and needs none
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
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
