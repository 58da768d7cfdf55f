package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

const root = "../.."

// TestPagesAreCurrent: generated pages match the program.
func TestPagesAreCurrent(t *testing.T) {
	made, err := pages(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range made {
		goldentest.Check(t, filepath.Join(root, path), string(want))
	}
}

// TestRunbookHasEveryAnchor: every anchor that a row refers to exists.
func TestRunbookHasEveryAnchor(t *testing.T) {
	anchors := map[string]bool{}
	for _, l := range strings.Split(runbookPage(), "\n") {
		if title, ok := strings.CutPrefix(l, "### "); ok {
			anchors[strings.ReplaceAll(title, " ", "-")] = true
		}
	}
	check := func(link string) {
		page, anchor, _ := strings.Cut(link, "#")
		if page != "https://wiki.test/runbook" || !anchors[anchor] {
			t.Errorf("%s leads nowhere", link)
		}
	}
	for _, s := range diag.Signals() {
		check(s.Runbook("https://wiki.test/runbook"))
	}
	for _, r := range diag.Reasons() {
		check(r.Runbook("https://wiki.test/runbook#"))
	}
}

// TestEveryHopIsDescribed: the chain has the hops of the catalogue, in its order, and no others.
func TestEveryHopIsDescribed(t *testing.T) {
	var walked []diag.HopID
	for _, h := range hops.BuiltIn().List() {
		walked = append(walked, h.ID)
	}
	if !slices.Equal(walked, diag.HopIDs()) {
		t.Errorf("the chain has\n%v, diag/catalogue/hops.yaml\n%v", walked, diag.HopIDs())
	}
}

// TestSignalsAreThoseThatWereSeen: every signal that a hop gave in a recorded report is in the hop's row.
func TestSignalsAreThoseThatWereSeen(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "golden", "reports", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded reports: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r diag.Report
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, h := range r.Hops {
			for _, f := range append([]diag.Finding{h.Finding}, h.Also...) {
				if f.Signal != "" && !slices.Contains(meaning(h.ID).Signals, f.Signal) {
					t.Errorf("%s: %s gave %s, which docs/hops.md does not list", filepath.Base(file), h.ID, f.Signal)
				}
			}
		}
	}
}

// TestRuns: codes become classes, and no text is lost.
func TestRuns(t *testing.T) {
	got := runs(" \x1b[2m#\x1b[0m \x1b[1;31m✘ fail\x1b[0m x")
	want := []textRun{{" ", ""}, {"#", "faint"}, {" ", ""}, {"✘ fail", "bad"}, {" x", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	picture := string(svg("a < b & c\n", "x"))
	if !strings.Contains(picture, "a &lt; b &amp; c") {
		t.Errorf("text is not escaped: %s", picture)
	}
}

// TestFillBlocks: a page that lost its marks is an error, not a page without a table.
func TestFillBlocks(t *testing.T) {
	got, err := fillBlocks([]byte("a\n<!-- t: made -->\nold\n<!-- /t -->\nb\n"), map[string]string{"t": "new\n"})
	if err != nil || string(got) != "a\n<!-- t: made -->\nnew\n<!-- /t -->\nb\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := fillBlocks([]byte("a"), map[string]string{"t": "new\n"}); err == nil {
		t.Error("a page without the block was taken")
	}
}

// TestEveryKeyIsDocumented: every profile key, and every field of a report and of its verdict, is documented.
func TestEveryKeyIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []struct {
		typ reflect.Type
		tag string
	}{
		{reflect.TypeFor[profile.Profile](), "yaml"}, {reflect.TypeFor[profile.SSH](), "yaml"},
		{reflect.TypeFor[profile.Node](), "yaml"}, {reflect.TypeFor[profile.Auth](), "yaml"},
		{reflect.TypeFor[profile.Trust](), "yaml"}, {reflect.TypeFor[profile.Agent](), "yaml"},
		{reflect.TypeFor[profile.Mapping](), "yaml"}, {reflect.TypeFor[profile.App](), "yaml"},
		{reflect.TypeFor[profile.Chaos](), "yaml"}, {reflect.TypeFor[drill.Report](), "json"},
		{reflect.TypeFor[drill.Drill](), "json"}, {reflect.TypeFor[diag.Report](), "json"},
		{reflect.TypeFor[diag.Run](), "json"}, {reflect.TypeFor[diag.Verdict](), "json"},
		{reflect.TypeFor[diag.Dashboard](), "json"},
	} {
		for i := range what.typ.NumField() {
			key, _, _ := strings.Cut(what.typ.Field(i).Tag.Get(what.tag), ",")
			if key != "-" && !bytes.Contains(page, []byte("`"+key+"`")) && key != "apiVersion" && key != "kind" {
				t.Errorf("docs/contract.md does not name `%s` of %s", key, what.typ)
			}
		}
	}
}

// TestEveryVariableIsDocumented: every environment variable is documented.
func TestEveryVariableIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "contract.md"))
	if err != nil {
		t.Fatal(err)
	}
	for key, name := range profile.Env() {
		if !bytes.Contains(page, []byte("`"+strings.TrimPrefix(name, profile.EnvPrefix)+"`")) {
			t.Errorf("docs/contract.md does not name %s, which stands for %s", name, key)
		}
	}
}

// TestTheMovingPicture: it is small, contains both recordings, and is valid XML.
func TestTheMovingPicture(t *testing.T) {
	picture, err := moving(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(picture) > 200<<10 {
		t.Errorf("it has %d bytes", len(picture))
	}
	for _, want := range []string{"gpuaasctl preflight compute-node-01", "gpuaasctl chaos run " + drillOf, "pending",
		"blame"} {
		if !bytes.Contains(picture, []byte(want)) {
			t.Errorf("it lacks %q", want)
		}
	}
	d := xml.NewDecoder(bytes.NewReader(picture))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
