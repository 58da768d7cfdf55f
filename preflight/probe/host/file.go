package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// maxDigest bounds the size of files that are hashed.
const maxDigest = 64 << 20

// errTooLarge reports a file over maxDigest, which is not read.
var errTooLarge = fmt.Errorf("it is larger than %d MiB", maxDigest>>20)

// file describes Target. It reads the content only for the digest. Failures: file_missing, file_unreadable.
func (p *Prober) file(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.File = &diag.FileFacts{Path: req.Target}
	if _, err := os.Lstat(req.Target); err != nil {
		measure.Fail(f, "stat", measure.FileWord(err), err)
		return
	}
	resolved, err := filepath.EvalSymlinks(req.Target)
	if err != nil { // a dangling link, or a loop of links
		measure.Fail(f, "stat", measure.FileWord(err), err)
		return
	}
	if resolved != filepath.Clean(req.Target) {
		f.File.Resolved = resolved
	}
	st, err := os.Stat(resolved)
	if err != nil {
		measure.Fail(f, "stat", measure.FileWord(err), err)
		return
	}
	f.File.Size, f.File.Mode, f.File.ModTime = st.Size(), octal(st), diag.At(st.ModTime())
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		f.File.UID = int(sys.Uid)
	}
	if !st.Mode().IsRegular() {
		f.Detail = "not a regular file"
		return
	}
	f.File.SHA256, err = digest(ctx, resolved)
	switch {
	case errors.Is(err, errTooLarge):
		f.Detail = "not digested: " + err.Error()
	case err != nil && !measure.Interrupted(ctx, f, "read"):
		measure.Fail(f, "read", measure.FileWord(err), err)
	}
}

// octal returns the mode with its set-id and sticky bits, as chmod takes it.
func octal(st fs.FileInfo) string {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%04o", sys.Mode&0o7777)
	}
	return fmt.Sprintf("%04o", st.Mode().Perm())
}

// digest returns the SHA-256 of a regular file in lower-case hex. It never blocks on other types of files.
func digest(ctx context.Context, path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	st, err := file.Stat()
	switch {
	case err != nil:
		return "", err
	case !st.Mode().IsRegular():
		return "", &os.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	case st.Size() > maxDigest:
		return "", errTooLarge
	}
	h := sha256.New()
	bounded := io.LimitReader(file, maxDigest+1)
	n, err := io.Copy(h, readFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return bounded.Read(p)
	}))
	switch {
	case err != nil:
		return "", err
	case n > maxDigest: // it grew while we read
		return "", errTooLarge
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readFunc is a function as an io.Reader.
type readFunc func(p []byte) (int, error)

func (read readFunc) Read(p []byte) (int, error) { return read(p) }
