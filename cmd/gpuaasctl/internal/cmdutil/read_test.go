package cmdutil

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
)

// TestANewerReportIsRead: fields that a later version added are ignored and named, with the version that wrote them;
// the verdict equals that of the report without them. --quiet omits the note.
func TestANewerReportIsRead(t *testing.T) {
	text, err := os.ReadFile("../../../../golden/reports/stale-ca-bundle.json")
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(text, []byte(`"verdict": {`), []byte(`"verdict": {"risk": 1,`), 1)
	newer = bytes.Replace(newer, []byte(`"run": {`), []byte(`"weather": {"rain": []}, "run": {`), 1)
	for _, quiet := range []bool{false, true} {
		var said bytes.Buffer
		a := &App{Stderr: &said, Quiet: quiet, Built: "v0"}
		was, err := a.Rejudge(text)
		if err != nil || said.Len() != 0 {
			t.Fatalf("%v %s", err, &said)
		}
		is, err := a.Rejudge(newer)
		if err != nil {
			t.Fatal(err)
		}
		if was.Verdict.Outcome != diag.OutcomeFail || !reflect.DeepEqual(is.Verdict, was.Verdict) {
			t.Errorf("another verdict: %+v", is.Verdict)
		}
		note := "gpuaasctl: PreflightReport of gpuaasctl " + is.Run.ToolVersion +
			": ignored fields that gpuaasctl v0 does not know: verdict.risk, weather\n"
		if quiet {
			note = ""
		}
		if said.String() != note {
			t.Errorf("quiet %t: %q, want %q", quiet, &said, note)
		}
	}
	var said bytes.Buffer
	(&App{Stderr: &said, Built: "v0"}).NoteUnknown("K", "", strings.Split("a b c d e f g", " "))
	want := "gpuaasctl: K: ignored fields that gpuaasctl v0 does not know: a, b, c, d, e and 2 more\n"
	if said.String() != want {
		t.Errorf("%q, want %q", &said, want)
	}
}

// TestUntil: a read of a pipe ends with ctx, whether the pipe blocks or not, and leaves no goroutine behind.
func TestUntil(t *testing.T) {
	defer leaktest.None(t)
	for name, nonblock := range map[string]bool{"blocking": false, "non-blocking": true} {
		var ends [2]int
		if err := errors.Join(syscall.Pipe(ends[:]), syscall.SetNonblock(ends[0], nonblock)); err != nil {
			t.Fatal(err)
		}
		pipe, writer := os.NewFile(uintptr(ends[0]), "pipe"), os.NewFile(uintptr(ends[1]), "writer")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := From(ctx, &App{Stdin: pipe}, "it", "-", io.ReadAll)
		if cancel(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		_, _ = writer.WriteString("later")
		writer.Close()
		got, err := From(t.Context(), &App{Stdin: pipe}, "it", "-", io.ReadAll)
		if string(got) != "later" || err != nil {
			t.Errorf("%s: then %q, %v", name, got, err)
		}
		pipe.Close()
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("all"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for from, stdin := range map[string]io.Reader{path: nil, "-": file} {
		if got, err := From(t.Context(), &App{Stdin: stdin}, "it", from, io.ReadAll); string(got) != "all" || err != nil {
			t.Errorf("%s: %q, %v", from, got, err)
		}
	}
}
