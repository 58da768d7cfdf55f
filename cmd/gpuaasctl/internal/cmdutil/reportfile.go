package cmdutil

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// WriteReport writes r to path, completely or not at all: as a page for a browser if its name ends in .html, else as
// JSON.
func WriteReport(path string, r *diag.Report) error {
	o := render.Options{Format: render.JSON}
	if strings.EqualFold(filepath.Ext(path), ".html") {
		o.Format = render.HTML
	}
	var b bytes.Buffer
	if err := render.Report(&b, r, o); err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := ReplaceFile(path, b.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// otherDocuments are endings of files that readers would take for another document than JSON. Any other one, as of the
// name of a temporary file, is JSON.
var otherDocuments = []string{".csv", ".docx", ".gz", ".htm", ".html", ".jsonl", ".markdown", ".md", ".ndjson", ".pdf",
	".svg", ".tar", ".tgz", ".txt", ".xhtml", ".xml", ".yaml", ".yml", ".zip"}

// CheckReportPath refuses, before any measurement, a path to which no report can be written: as JSON, or in one of
// kinds (".html").
func CheckReportPath(path string, kinds ...string) error {
	switch {
	case path == "":
		return nil
	case path == "-":
		return errors.New("--out: want a file; for the report on stdout use -o json")
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("--out: %s is a folder", path)
	}
	ext := strings.ToLower(filepath.Ext(path))
	if slices.Contains(otherDocuments, ext) && !slices.Contains(kinds, ext) {
		return fmt.Errorf("--out: %s: want %s, not %s; -o writes other formats to stdout", path,
			OneOf(append([]string{".json"}, kinds...)), ext)
	}
	return checkFolder("--out", path)
}

// CheckNotInput refuses to overwrite an input file: inputs are their paths, some of which may be "".
func CheckNotInput(out string, inputs ...string) error {
	info, err := os.Stat(out)
	if out == "" || err != nil || !info.Mode().IsRegular() {
		return nil // there is no file to overwrite; other errors are reported elsewhere
	}
	for _, in := range inputs {
		if read, err := os.Stat(in); in != "" && err == nil && os.SameFile(info, read) {
			return fmt.Errorf("--out: %s is read by this command as %s, and is not replaced", out, in)
		}
	}
	return nil
}

// ReplaceFile replaces the file at path, completely or not at all. A symbolic link is kept, and its target is replaced.
// Anything but a regular file, and a path in a device folder (/dev/stdout and /dev/fd/3 lead to another process's open
// file), is appended to in place.
func ReplaceFile(path string, data []byte) error {
	info, err := os.Stat(path)
	if (err == nil && !info.Mode().IsRegular()) || isDevice(path) {
		return appendTo(path, data)
	}
	if path, err = target(path); err != nil {
		return err
	}
	return durable.Replace(path, data, 0o600)
}

// target resolves the links of a path. It follows no link that another user than root has put there as the file, to
// have one of ours replaced: the kernel's own protection is for programs that open the link.
func target(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		return path, nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is a link of user %d, and is not followed", path, st.Uid)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	return path, nil
}

// isDevice reports whether path is in /dev or /proc, whose entries must never be replaced by files.
func isDevice(path string) bool {
	abs, err := filepath.Abs(path)
	return err == nil && (strings.HasPrefix(abs, "/dev/") || strings.HasPrefix(abs, "/proc/"))
}

// pipePatience bounds the wait for the reader of a pipe that stopped reading.
const pipePatience = 5 * time.Second

// appendTo appends to an existing file. It fails at once for a pipe without a reader, and after pipePatience for one
// whose reader stopped reading.
func appendTo(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("%s: no process reads this pipe", path)
	}
	if err != nil {
		return err
	}
	_ = f.SetWriteDeadline(time.Now().Add(pipePatience)) // a regular file has no deadline and needs none
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
