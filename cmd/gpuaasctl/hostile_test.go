package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/evidence"
	"github.com/gpuaas/gpuaasctl/history"
	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// shown counts what a test has looked at: a command that always refuses shows nothing.
type shown struct {
	t             *testing.T
	home          string
	looks, passed int
}

// run runs a command and looks at both of its streams.
func (s *shown) run(field string, args ...string) bool {
	s.t.Helper()
	out, errs, code := s.exec(args...)
	s.looks++
	took := code != exitUsage && code != exitInternal
	if took {
		s.passed++
	}
	what := field + ": " + strings.Join(args[:min(len(args), 3)], " ")
	harmlessText(s.t, what+" (stdout)", out)
	harmlessText(s.t, what+" (stderr)", errs)
	wellFormed(s.t, what, args[len(args)-1], out)
	return took
}

func (s *shown) exec(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: func(key string) string {
		return map[string]string{"HOME": s.home, "XDG_STATE_HOME": s.home, "XDG_CONFIG_HOME": s.home}[key]
	}}
	code = a.execute(s.t.Context(), args)
	return out.String(), errs.String(), code
}

// formats runs a command once in each of its formats, or in the first alone where it refuses the document.
func (s *shown) formats(field string, formats []string, args ...string) bool {
	s.t.Helper()
	for _, f := range formats {
		if !s.run(field, append(slices.Clone(args), "-o", f)...) {
			return false
		}
	}
	return true
}

func harmlessText(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: bytes that are no UTF-8", what)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && clean.Hidden(r) }); i >= 0 {
		t.Errorf("%s: a hidden rune reaches the terminal: %q", what, text[max(0, i-40):min(len(text), i+20)])
	}
}

// wellFormed holds a document to its format.
func wellFormed(t *testing.T, what, format, text string) {
	t.Helper()
	switch {
	case text == "":
	case format == formatJSON && !json.Valid([]byte(text)):
		t.Errorf("%s: no JSON: %.300q", what, text)
	case format == formatNDJSON:
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: no JSON: %.300q", what, line)
			}
		}
	case format == formatJUnit:
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: no XML: %v", what, err)
				break
			}
		}
	}
}

// enough fails where too little was shown: refusing everything would pass.
func (s *shown) enough() {
	s.t.Helper()
	s.t.Logf("%d outputs, of which %d are documents", s.looks, s.passed)
	if s.passed*3 < s.looks {
		s.t.Errorf("%d of %d hostile documents were refused", s.looks-s.passed, s.looks)
	}
}

func (s *shown) write(name string, text []byte) string {
	s.t.Helper()
	path := filepath.Join(s.home, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func golden(t *testing.T, parts ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestHostileReport plants in every string field of a report, and looks at every command that reads one.
func TestHostileReport(t *testing.T) {
	t.Parallel()
	s := &shown{t: t, home: t.TempDir()}
	text := golden(t, "golden", "reports", "api-egress-blocked.json")
	plantedIn(t, text, func(field string, r *diag.Report) bool {
		file := s.write("report.json", encoded(t, r))
		took := s.formats(field, formats[:], "preflight", "replay", file)
		s.formats(field, []string{formatTable, formatJSON}, "diag", "classify", file)
		s.formats(field, []string{formatTable, formatJSON}, "diag", "trust", "--replay", file)
		s.run(field, "preflight", "replay", filepath.Join("..", "..", "golden", "reports", "healthy.json"), "--baseline", file)
		for _, f := range render.Formats { // in colour a foreign one must not pass for ours
			var b bytes.Buffer
			if err := render.Report(&b, r, render.Options{Format: f, Color: true}); err == nil && strings.Contains(b.String(), "X\x1b[31mX") {
				t.Errorf("%s: %s shows a foreign colour", field, f)
			}
		}
		return took
	})
	s.enough()
}

// TestHostileHistory keeps planted reports, and looks at what is said of them.
func TestHostileHistory(t *testing.T) {
	t.Parallel()
	s := &shown{t: t, home: t.TempDir()}
	path, err := history.Path(func(key string) string { return map[string]string{"XDG_STATE_HOME": s.home}[key] }, true)
	if err != nil {
		t.Fatal(err)
	}
	store, err := history.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	text := golden(t, "golden", "reports", "api-egress-blocked.json")
	n := 0
	plantedIn(t, text, func(field string, r *diag.Report) bool {
		if n++; !strings.Contains(r.Run.ID, hostile) {
			r.Run.ID = "run-" + strings.Repeat("a", n)
		}
		if err := store.Save(t.Context(), r, true, true); err != nil {
			t.Fatal(err)
		}
		s.run(field, "history", "accept", r.Run.ID)
		s.formats(field, []string{formatTable, formatWide, formatJSON}, "history", "diff", "run-a", r.Run.ID)
		return s.formats(field, formats[:], "history", "show", r.Run.ID)
	})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	s.formats("all", []string{formatTable, formatJSON}, "history", "list")
	s.run("all", "history", "prune")
	s.enough()
}

// TestHostileDrillReport plants in every string field of a report of drills, and of the events of a run.
func TestHostileDrillReport(t *testing.T) {
	t.Parallel()
	s := &shown{t: t, home: t.TempDir()}
	plantedIn(t, golden(t, "chaos", "render", "testdata", "residue.json"), func(field string, r *drill.Report) bool {
		took := s.formats(field, drillFormats(), "chaos", "report", s.write("drills.json", encoded(t, r)))
		for _, f := range drillrender.Formats {
			var b bytes.Buffer
			if err := drillrender.Report(&b, r, render.Options{Format: f, Color: true}); err == nil && strings.Contains(b.String(), "X\x1b[31mX") {
				t.Errorf("%s: %s shows a foreign colour", field, f)
			}
		}
		return took
	})
	s.enough()
}

// TestHostileEvents plants in every string field of the first event of each kind in a log of a run.
func TestHostileEvents(t *testing.T) {
	t.Parallel()
	s := &shown{t: t, home: t.TempDir()}
	lines := bytes.SplitAfter(golden(t, "chaos", "render", "testdata", "residue.events.ndjson"), []byte("\n"))
	seen := map[drill.Kind]bool{}
	for i, line := range lines {
		var was drill.Event
		if json.Unmarshal(line, &was) != nil || seen[was.Kind] {
			continue
		}
		seen[was.Kind] = true
		plantedIn(t, line, func(field string, e *drill.Event) bool {
			if i > 0 {
				e.Plan, e.Book = nil, nil // told once
			}
			log := bytes.Join(slices.Concat(lines[:i], [][]byte{encoded(t, e)}, lines[i+1:]), nil)
			all := drillFormats()
			return s.formats(field, []string{all[i%len(all)], formatWide}, "chaos", "report", s.write("events.ndjson", log))
		})
	}
	if s.passed < 100 {
		t.Errorf("%d logs were shown", s.passed)
	}
}

// TestHostileBundle plants in every string field of a bundle's manifest, its history, its report and its record.
func TestHostileBundle(t *testing.T) {
	t.Parallel()
	s := &shown{t: t, home: t.TempDir()}
	base := evidence.Manifest{APIVersion: diag.APIVersion, Kind: evidence.KindBundle, NodeID: "n1", RunID: "r1", Sources: []evidence.Gathered{{Source: "record", Status: evidence.GotPart, Why: "w"}}}
	pack := func(m *evidence.Manifest, name string, data []byte) string {
		m.Files = append([]evidence.File{}, evidence.File{Path: name, Data: data})
		var b bytes.Buffer
		if err := evidence.Pack(&b, m); err != nil {
			return s.write("bundle.tar.gz", []byte("refused"))
		}
		return s.write("bundle.tar.gz", b.Bytes())
	}
	look := func(field, file string) bool {
		took := s.formats(field, []string{formatTable, formatJSON}, "diag", "bundle", "verify", file)
		s.formats(field, []string{formatTable, formatNDJSON, formatJSON}, "diag", "timeline", file)
		s.formats(field, []string{formatTable, formatJSON}, "diag", "classify", file)
		return took
	}
	event, report := []byte(`{"at":"2026-01-02T03:04:05.000Z","origin":"task","severity":"info","message":"m"}`), golden(t, "golden", "reports", "healthy.json")
	plantedIn(t, encoded(t, base), func(field string, m *evidence.Manifest) bool {
		return look(field, pack(m, evidence.HistoryName, event))
	})
	plantedIn(t, event, func(field string, e *evidence.Event) bool {
		m := base
		return look(field, pack(&m, evidence.HistoryName, encoded(t, e)))
	})
	m := base
	look("a file's name", pack(&m, "node/"+hostile[:20]+".txt", report))
	plantedIn(t, []byte(`{"slots":256,"entries":[{"seq":1,"reason":"dns_failed","node_id":"n"}],"damaged":[{}],"pinned":[{"seq":1,"pin":"first"}]}`), func(field string, f *diag.RecordFacts) bool {
		m := base
		file := pack(&m, "node/record.json", encoded(t, f))
		s.formats(field, []string{formatTable, formatJSON}, "diag", "classify", file)
		return s.formats(field, []string{formatTable, formatJSON}, "diag", "classify", s.write("record.json", encoded(t, f)))
	})
	if s.passed == 0 {
		t.Error("nothing was shown")
	}
	t.Logf("%d of %d shown", s.passed, s.looks)
}

// TestHostileRecord plants in every string field of a record's entries, as a disk has them.
func TestHostileRecord(t *testing.T) {
	t.Parallel()
	s := &shown{t: t, home: t.TempDir()}
	plantedIn(t, []byte(`{"seq":1,"reason":"dns_failed","about":"heartbeat","attempt":1,"facts":{"a":"b"}}`), func(field string, e *diag.RecordEntry) bool {
		e.Pin = ""
		b := record.Encode(record.FileRecord, record.Place(e.Seq), *e)
		ring := append(make([]byte, record.Size), b[:]...)
		file := s.write("ring", ring)
		s.formats(field, []string{formatTable, formatJSON}, "diag", "classify", file)
		return s.formats(field, []string{formatTable, formatJSON, formatNDJSON}, "diag", "decode", file)
	})
	s.enough()
}

// hostileName is a file's name that a file system takes.
var hostileName = strings.ReplaceAll(hostile, "\x00", "")

// TestHostileNames: files, profiles and arguments with such names, whether they are there or not.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := &shown{t: t, home: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(s.home, "gpuaasctl"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "api_base: https://api.test\nauth:\n  token_file: \"t\\x1b[31m\\u202e\"\nnodes:\n  \"n\\x1b[31m\\u202e\\u009b\":\n    host: \"h\\x1b]0;x\\a\\u009b\"\n"
	profileFile := s.write(filepath.Join("gpuaasctl", "name.yaml"), []byte(text))
	named := s.write(filepath.Join("gpuaasctl", "p"+strings.ReplaceAll(hostileName, "/", "")+".yaml"), []byte("api_base: https://api.test\n"))
	bad := s.write("bad"+hostileName+".yaml", []byte("api_bse: \"\\u202e\"\n\"k\\u009b\": 1\n"))
	for _, file := range []string{profileFile, named, bad, "gone" + hostileName} {
		s.run(file, "profile", "validate", file)
		s.run(file, "profile", "show", file)
		s.run(file, "profile", "path", file)
		s.formats(file, []string{"yaml", formatJSON}, "profile", "show", file)
		s.formats(file, []string{formatTable, formatJSON}, "preflight", "--dry-run", "--profile", file, "--node-id", "n1")
		s.formats(file, []string{formatTable, formatJSON}, "chaos", "plan", "agent-stopped", "--profile", file)
	}
	s.formats("profiles", []string{formatTable, formatJSON}, "profile", "list")
	completion, _, _ := s.exec("__complete", "preflight", "--profile", "")
	harmlessText(t, "completion of a profile", completion)
	drillFile := s.write("drill"+hostileName+".yaml", []byte("metadata:\n  id: \"a\\u009b\"\n  title: \"t\\x1b[31m\\u202e\"\n"))
	for _, args := range [][]string{
		{"preflight", "replay"}, {"diag", "classify"}, {"diag", "decode"}, {"diag", "bundle", "verify"}, {"diag", "timeline"}, {"diag", "trust", "--replay"},
		{"chaos", "report"}, {"chaos", "show"}, {"chaos", "validate"}, {"chaos", "list"}, {"chaos", "plan"}, {"history", "show"}, {"history", "diff", "a"},
		{"node", "status"}, {"diag", "show"}, {"nonsense"}, {"preflight", "--profile"}, {"preflight", "--report"}, {"help"}, {"ssh", "trust"}, {"node", "reenroll"},
	} {
		for _, name := range []string{drillFile, named, "gone" + hostileName, s.home + "/gone" + hostileName + "/x"} {
			s.run("a name", append(slices.Clone(args), name)...)
		}
	}
}

// TestHostilePlatform: all strings of every answer of a platform, and each of its first two alone, to every command that asks one.
func TestHostilePlatform(t *testing.T) {
	for name, args := range platformCommands() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for nth := range 3 { // a walk of a platform that lies takes two seconds
				p := &mappedPlatform{t: t, alter: func(_ string, answer []byte) []byte { return alterNth(answer, nth) }}
				_, said := p.runOn(append(slices.Clone(args), "-o", []string{formatTable, formatJSON}[nth%2]))
				harmlessText(t, name, said)
			}
		})
	}
}

// alterNth plants in the nth string of a JSON text; in all of them for 0.
func alterNth(text []byte, nth int) []byte {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return text
	}
	seen := 0
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if seen++; seen == nth || nth == 0 {
				return v + hostile
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		return text
	}
	return out
}
