package diagcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
)

// TestBundleIsNotLost: if FILE cannot be written, the evidence is written elsewhere, readable by its owner only, and a
// note has the path.
func TestBundleIsNotLost(t *testing.T) {
	dir, spare := t.TempDir(), t.TempDir()
	taken := filepath.Join(dir, "case.tar.gz")
	if err := os.WriteFile(taken, []byte("another run's"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	a := &cmdutil.App{Stderr: &said, Stdout: &bytes.Buffer{}, Env: func(string) string { return spare }}
	for _, path := range []string{taken, filepath.Join(dir, "gone", "case.tar.gz")} {
		said.Reset()
		o := &bundleOptions{file: path}
		if err := saveBundle(a, o, []byte("evidence")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(o.file)
		if err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(o.file) != spare ||
			!strings.Contains(said.String(), o.file) {
			t.Errorf("%s: in %s, %v: %s", path, o.file, err, said.String())
		}
		if b, _ := os.ReadFile(o.file); string(b) != "evidence" {
			t.Errorf("%s holds %q", o.file, b)
		}
	}
	if b, _ := os.ReadFile(taken); string(b) != "another run's" {
		t.Errorf("%s was replaced: %q", taken, b)
	}

	var out bytes.Buffer
	nowhere := &cmdutil.App{Stderr: &said, Stdout: &out, Env: func(string) string { return filepath.Join(dir, "gone") }}
	o := &bundleOptions{file: taken, output: cmdutil.FormatTable}
	if err := saveBundle(nowhere, o, []byte("evidence")); cmdutil.CodeOf(err) != cmdutil.ExitInternal {
		t.Errorf("nowhere: %v", err)
	}
	m := &evidence.Manifest{Sources: []evidence.Gathered{{Source: "record", Status: evidence.GotWhole, Why: "7 entries"}}}
	if err := showBundle(nowhere, m, o, 8); err != nil || !strings.Contains(out.String(), "7 entries") ||
		!strings.Contains(out.String(), "not written") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestVerifyIsOneDocument: even a damaged bundle gives one document. A file that is not a bundle is a usage error
// without a document.
func TestVerifyIsOneDocument(t *testing.T) {
	var good bytes.Buffer
	m := &evidence.Manifest{Head: diag.NewHead(evidence.KindBundle), NodeID: "n1",
		Files: []evidence.File{{Path: "a.txt", Data: []byte("a")}}}
	if err := evidence.Pack(&good, m); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"good": good.Bytes(), "longer": append(bytes.Clone(good.Bytes()), 'x'),
		"none": []byte("no bundle")} {
		path := filepath.Join(t.TempDir(), "case.tar.gz")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd := newBundleVerify(&cmdutil.App{Stdout: &out, Stderr: &bytes.Buffer{}, Env: func(string) string { return "" }})
		cmd.SetArgs([]string{path, "-o", "json"})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		code := cmdutil.CodeOf(cmd.Execute())
		if name == "none" {
			if code != cmdutil.ExitUsage || out.Len() > 0 {
				t.Errorf("%s: exit %d, %q", name, code, out.String())
			}
			continue
		}
		var doc struct {
			Kind     string `json:"kind"`
			AsPacked bool   `json:"as_packed"`
			Why      string `json:"why"`
		}
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %v: %q", name, err, out.String())
		}
		if doc.Kind != evidence.KindBundle || doc.AsPacked != (name == "good") || (doc.Why == "") != doc.AsPacked ||
			(code == cmdutil.ExitPass) != doc.AsPacked || (code != cmdutil.ExitPass && code != cmdutil.ExitFailed) {
			t.Errorf("%s: exit %d, %+v", name, code, doc)
		}
	}
}
