package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

func TestFile(t *testing.T) {
	path := kit.TempFile(t, "secret text")
	if err := os.Chmod(path, 0o750|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	link := path + "-link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	f := run(t, diag.Request{Op: diag.OpFile, Target: link})
	sum := sha256.Sum256([]byte("secret text"))
	if f.Failure != diag.OK || f.File.Path != link || f.File.Resolved != real || f.File.Size != 11 ||
		f.File.UID != os.Getuid() || f.File.SHA256 != hex.EncodeToString(sum[:]) || f.File.ModTime.IsZero() {
		t.Errorf("%+v %+v", f, f.File)
	}
	if os.Getuid() == 0 && f.File.Mode != "4750" {
		t.Errorf("mode = %s", f.File.Mode)
	}
}

func TestFileFailures(t *testing.T) {
	dir := t.TempDir()
	dangling, fifo, large := filepath.Join(dir, "dangling"), filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	for _, err := range []error{os.Symlink("/nowhere/at/all", dangling), syscall.Mkfifo(fifo, 0o600),
		os.WriteFile(large, nil, 0o600), os.Truncate(large, maxDigest+1)} {
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		target string
		word   diag.Failure
		detail string
	}{
		{filepath.Join(dir, "none"), diag.FileMissing, ""},
		{dangling, diag.FileMissing, ""},
		{filepath.Join(large, "under"), diag.FileMissing, ""},
		{fifo, diag.OK, "not a regular file"}, // a read would block for ever
		{dir, diag.OK, "not a regular file"},
		{large, diag.OK, "larger than 64 MiB"},
	} {
		f := run(t, diag.Request{Op: diag.OpFile, Target: c.target})
		if f.Failure != c.word || !strings.Contains(f.Detail, c.detail) || f.File == nil || f.File.SHA256 != "" {
			t.Errorf("%s: %+v %+v", c.target, f, f.File)
		}
	}
}

func TestDigestEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if sum, err := digest(ctx, kit.TempFile(t, "x")); err == nil {
		t.Errorf("digest = %s", sum)
	}
}
