package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestEachLinkedModuleHasALicense: the notices of all programs have the license of each module that is linked into any
// of them, and of Go.
func TestEachLinkedModuleHasALicense(t *testing.T) {
	tier.NeedsHost(t)
	file := filepath.Join(t.TempDir(), "NOTICES")
	if err := run(t.Context(), []string{file, "../../cmd/..."}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	modules, err := linked(t.Context(), []string{"../../cmd/..."})
	if err != nil || len(modules) < 20 {
		t.Fatalf("%d modules, %v", len(modules), err)
	}
	for _, m := range modules {
		if !bytes.Contains(text, []byte("\n"+m.Path+" "+m.Version+" ")) {
			t.Errorf("%s is not listed", m.Path)
		}
	}
	for _, want := range []string{"Copyright 2009 The Go Authors", "modernc.org/sqlite ", "go-nvml "} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is not there", want)
		}
	}
}

// TestNoLicense: a module without a license, or with an empty one, is an error that names it.
func TestNoLicense(t *testing.T) {
	for _, name := range []string{"README.md", "LICENSE"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := write(&bytes.Buffer{}, []module{{Path: "example.test/m", Dir: dir}})
		if err == nil || !strings.Contains(err.Error(), "example.test/m") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoSuchPackage: a mistyped package is an error, and not one that links nothing.
func TestNoSuchPackage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "NOTICES")
	err := run(t.Context(), []string{file, "../../cmd/gpuaas-agent", "../../cmd/gpuaas-agnet"})
	if err == nil || !strings.Contains(err.Error(), "cmd/gpuaas-agnet") {
		t.Errorf("%v", err)
	}
}
