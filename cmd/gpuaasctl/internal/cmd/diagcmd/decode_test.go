package diagcmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// TestWhatIsNoRecord: any other file is a usage error, but a damaged or empty record is a record.
func TestWhatIsNoRecord(t *testing.T) {
	whole := record.Encode(record.FileRecord, 1,
		diag.RecordEntry{Seq: 1, At: diag.At(time.Unix(1, 0)), Reason: diag.RecProcessAlive})
	flipped := whole
	flipped[40] ^= 1
	for name, c := range map[string]struct {
		data []byte
		want string // "": it is a record
	}{
		"nothing":            {nil, "it is empty"},
		"text":               {[]byte("root:x:0:0:root:/root:/bin/bash\n"), "not the size of one"},
		"a page of text":     {[]byte(strings.Repeat("hello, ", 10000)[:record.Size*2]), "none of its 2 slots"},
		"zeros, any number":  {make([]byte, 700), "not the size of one"},
		"too many zeros":     {make([]byte, record.Size*(record.Slots+1)), "not the size of one"},
		"one that is new":    {make([]byte, record.Size*record.Slots), ""},
		"one entry":          {append(make([]byte, record.Size), whole[:]...), ""},
		"one entry, cut":     {append(append(make([]byte, record.Size), whole[:]...), 1, 2, 3), ""},
		"one entry, flipped": {append(make([]byte, record.Size), flipped[:]...), ""},
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readRecordAt("", path)
		if (c.want != "") != errors.Is(err, errNoRecord) ||
			(err != nil && !strings.Contains(err.Error(), path+": not a node record: ")) ||
			(c.want != "" && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestOpenFileNeverWaits: a pipe without a writer is read as empty, and a folder is refused.
func TestOpenFileNeverWaits(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no named pipe on this system: %v", err)
	}
	done := make(chan error, 2)
	go func() {
		_, err := (&cmdutil.App{}).ReadAll(t.Context(), pipe)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("reading a pipe that nobody writes to does not end")
		if w, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil { // lets the reader go
			_ = w.Close()
		}
	}
	if _, err := bounded.Open(filepath.Dir(pipe)); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
}
