package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/tools/testkit/heaptest"
)

// heapOf is the memory limit of a command that reads a foreign file: above the cost of the largest file within the
// limits.
const heapOf = 200 << 20

// elements returns n times element between head and tail.
func elements(head, element, tail string, n int) string {
	return head + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + tail
}

// runHere runs a command line in this process.
func runHere(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	home := t.TempDir()
	a := &cmdutil.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: func(key string) string {
		if key == "HOME" {
			return home
		}
		return ""
	}}
	code = execute(a, t.Context(), args)
	return out.String(), errs.String(), code
}

// TestSmallFilesCostLittle: a file that would decode into gigabytes is refused for its contents, with its name and the
// limit: exit 2 or 3, within the memory limit.
func TestSmallFilesCostLittle(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	report := `{"apiVersion":"` + diag.APIVersion + `","kind":"` + diag.KindPreflight + `","facts":[`
	small, large := elements(report, "{}", "]}", 500_000), elements(report, "{}", "]}", 2_000_000)
	r1, r6 := write("small.json", []byte(small)), write("large.json", []byte(large))
	long := write("long.json", []byte(report+`{"id":"`+strings.Repeat("x", 40<<20)+`"}]}`))
	trust := write("trust.json", []byte(elements(`{"kind":"TrustReport","facts":[`, "{}", "]}", 500_000)))
	drills := write("drills.json", []byte(elements(`{"kind":"DrillReport","drills":[`, "{}", "]}", 500_000)))
	log := write("events.ndjson", []byte(elements(`{"seq":1,"plan":{"scenario":{"faults":[`, "{}", "]}}}\n", 1_000_000)))
	lines := write("lines.ndjson", []byte(`{"seq":1}`+"\n"+strings.Repeat("{}\n", 2_000_000)))
	bundle := write("bundle.tar.gz", bundleOf(t, "report.json", []byte(small)))
	record := write("record.tar.gz",
		bundleOf(t, "node/record.json", []byte(elements(`{"entries":[`, "{}", "]}", 1_000_000))))
	history := write("history.tar.gz", bundleOf(t, evidence.HistoryName, bytes.Repeat([]byte("{}\n"), 2_000_000)))
	files := elements(`{"files":[`, "{}", "]}", 300_000)
	manifest := write("manifest.tar.gz", archiveOf(t, evidence.ManifestName, files))
	bomb := write("bomb.tar.gz", bombOf(t))
	for i, tc := range []struct {
		name, says string
		args       []string
	}{
		{"1.5 MB of facts", "list elements", []string{"preflight", "replay", r1}},
		{"6 MB of facts", "list elements", []string{"preflight", "replay", r6}},
		{"6 MB of facts, classified", "list elements", []string{"diag", "classify", r6}},
		{"a long word", "bytes", []string{"preflight", "replay", long}},
		{"a baseline", "list elements",
			[]string{"preflight", "replay", filepath.Join("..", "..", "golden", "reports", "healthy.json"), "--baseline", r6}},
		{"facts of trust", "list elements", []string{"diag", "trust", "--replay", trust}},
		{"drills", "list elements", []string{"chaos", "report", drills}},
		{"a log of one line", "list elements", []string{"chaos", "report", log}},
		{"a log of many", "", []string{"chaos", "report", lines}},
		{"a bundle with a report", "list elements", []string{"diag", "classify", bundle}},
		{"a bundle with a record", "list elements", []string{"diag", "classify", record}},
		{"a bundle with a history", "list elements", []string{"diag", "timeline", history}},
		{"a bundle's manifest", "list elements", []string{"diag", "bundle", "verify", manifest}},
		{"a bomb", "bytes", []string{"diag", "bundle", "verify", bomb}},
		{"a bomb, classified", "bytes", []string{"diag", "classify", bomb}},
	} {
		if testing.Short() && i%4 != 0 { // the race detector's run is shorter: the code is the same
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			heaptest.Under(t, heapOf, func() {
				out, errs, code := runHere(t, tc.args...)
				file := filepath.Base(tc.args[len(tc.args)-1])
				if (code != cmdutil.ExitUsage && code != cmdutil.ExitFailed) || !strings.Contains(errs, tc.says) ||
					(tc.says != "" && !strings.Contains(errs, file)) {
					t.Errorf("exit %d, want %q of %s: %.400s %.100s", code, tc.says, file, errs, out)
				}
			})
		})
	}
}

// bundleOf packs a bundle with one file.
func bundleOf(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	m := &evidence.Manifest{Head: diag.NewHead(evidence.KindBundle), NodeID: "n1",
		Files: []evidence.File{{Path: name, Data: data}}}
	if err := evidence.Pack(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// archiveOf is an archive with one file.
func archiveOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)),
		Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// bombOf returns 255 KB that unpack to 250 MiB: a manifest, and one file.
func bombOf(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"files":[{"path":"a","size":1,"sha256":""}]}`, diag.APIVersion,
		evidence.KindBundle)
	for _, f := range []struct {
		name string
		size int64
		from io.Reader
	}{{evidence.ManifestName, int64(len(head)), strings.NewReader(head)}, {"a", 250 << 20, zeros{}}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: f.size, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, io.LimitReader(f.from, f.size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestReportIsItsOwners: a report written by --report can be read by its owner only, even if it replaces a file with a
// wider mode.
func TestReportIsItsOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cmdutil.WriteReport(path, &diag.Report{}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}
