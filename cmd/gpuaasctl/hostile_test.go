package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/hostiletest"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/ops/history"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// runs runs a command and checks both of its output streams.
func runs(s *hostiletest.Shown, field string, args ...string) bool {
	s.T.Helper()
	out, errs, code := execs(s, args...)
	s.Looks++
	took := code != cmdutil.ExitUsage && code != cmdutil.ExitInternal
	if took {
		s.Passed++
	}
	what := field + ": " + strings.Join(args[:min(len(args), 3)], " ")
	hostiletest.HarmlessText(s.T, what+" (stdout)", out)
	hostiletest.HarmlessText(s.T, what+" (stderr)", errs)
	hostiletest.WellFormed(s.T, what, args[len(args)-1], out)
	return took
}

func execs(s *hostiletest.Shown, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	a := &cmdutil.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: func(key string) string {
		return map[string]string{"HOME": s.Home, "XDG_STATE_HOME": s.Home, "XDG_CONFIG_HOME": s.Home}[key]
	}}
	code = execute(a, s.T.Context(), args)
	return out.String(), errs.String(), code
}

// inFormats runs a command once in each of its formats, or only in the first if it refuses the document.
func inFormats(s *hostiletest.Shown, field string, formats []string, args ...string) bool {
	s.T.Helper()
	for _, f := range formats {
		if !runs(s, field, append(slices.Clone(args), "-o", f)...) {
			return false
		}
	}
	return true
}

func golden(t *testing.T, parts ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestHostileReport plants hostile text in every string field of a report, and checks every command that reads one.
func TestHostileReport(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	text := golden(t, "golden", "reports", "api-egress-blocked.json")
	hostiletest.PlantedIn(t, text, func(field string, r *diag.Report) bool {
		file := s.Write("report.json", hostiletest.Encoded(t, r))
		took := inFormats(s, field, cmdutil.Formats, "preflight", "replay", file)
		inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "diag", "classify", file)
		inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "diag", "trust", "--replay", file)
		runs(s, field, "preflight", "replay", filepath.Join("..", "..", "golden", "reports", "healthy.json"), "--baseline",
			file)
		for _, f := range render.Formats { // with colour, foreign colours must not pass for ours
			var b bytes.Buffer
			if err := render.Report(&b, r, render.Options{Format: f, Color: true}); err == nil &&
				strings.Contains(b.String(), "X\x1b[31mX") {
				t.Errorf("%s: %s shows a foreign colour", field, f)
			}
		}
		return took
	})
	s.Enough()
}

// TestHostileHistory stores reports with hostile text, and checks how they are shown.
func TestHostileHistory(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	path, err := history.Path(func(key string) string { return map[string]string{"XDG_STATE_HOME": s.Home}[key] }, true)
	if err != nil {
		t.Fatal(err)
	}
	store, err := history.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	text := golden(t, "golden", "reports", "api-egress-blocked.json")
	n := 0
	hostiletest.PlantedIn(t, text, func(field string, r *diag.Report) bool {
		if n++; !strings.Contains(r.Run.ID, hostiletest.Hostile) {
			r.Run.ID = "run-" + strings.Repeat("a", n)
		}
		if err := store.Save(t.Context(), r, true, true); err != nil {
			t.Fatal(err)
		}
		runs(s, field, "history", "accept", r.Run.ID)
		inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatWide, cmdutil.FormatJSON}, "history", "diff", "run-a",
			r.Run.ID)
		return inFormats(s, field, cmdutil.Formats, "history", "show", r.Run.ID)
	})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	inFormats(s, "all", []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "history", "list")
	runs(s, "all", "history", "prune")
	s.Enough()
}

// TestHostileDrillReport plants hostile text in every string field of a report of drills, and of the events of a run.
func TestHostileDrillReport(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	hostiletest.PlantedIn(t, golden(t, "chaos", "render", "testdata", "residue.json"),
		func(field string, r *drill.Report) bool {
			took := inFormats(s, field, allDrillFormats(), "chaos", "report", s.Write("drills.json", hostiletest.Encoded(t, r)))
			for _, f := range drillrender.Formats {
				var b bytes.Buffer
				if err := drillrender.Report(&b, r, render.Options{Format: f, Color: true}); err == nil &&
					strings.Contains(b.String(), "X\x1b[31mX") {
					t.Errorf("%s: %s shows a foreign colour", field, f)
				}
			}
			return took
		})
	s.Enough()
}

// TestHostileEvents plants hostile text in every string field of the first event of each kind in a run's log.
func TestHostileEvents(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	lines := bytes.SplitAfter(golden(t, "chaos", "render", "testdata", "residue.events.ndjson"), []byte("\n"))
	seen := map[drill.Kind]bool{}
	for i, line := range lines {
		var was drill.Event
		if json.Unmarshal(line, &was) != nil || seen[was.Kind] {
			continue
		}
		seen[was.Kind] = true
		hostiletest.PlantedIn(t, line, func(field string, e *drill.Event) bool {
			if i > 0 {
				e.Plan, e.Game = nil, nil // written once
			}
			log := bytes.Join(slices.Concat(lines[:i], [][]byte{hostiletest.Encoded(t, e)}, lines[i+1:]), nil)
			all := allDrillFormats()
			return inFormats(s, field, []string{all[i%len(all)], cmdutil.FormatWide}, "chaos", "report",
				s.Write("events.ndjson", log))
		})
	}
	if s.Passed < 100 && !testing.Short() {
		t.Errorf("%d logs were shown", s.Passed)
	}
}

// TestHostileBundle plants hostile text in every string field of a bundle's manifest, its history, its report and its
// record.
func TestHostileBundle(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	base := evidence.Manifest{Head: diag.NewHead(evidence.KindBundle), NodeID: "n1", RunID: "r1",
		Sources: []evidence.Gathered{{Source: "record", Status: evidence.GotPart, Why: "w"}}}
	pack := func(m *evidence.Manifest, name string, data []byte) string {
		m.Files = append([]evidence.File{}, evidence.File{Path: name, Data: data})
		var b bytes.Buffer
		if err := evidence.Pack(&b, m); err != nil {
			return s.Write("bundle.tar.gz", []byte("refused"))
		}
		return s.Write("bundle.tar.gz", b.Bytes())
	}
	look := func(field, file string) bool {
		took := inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "diag", "bundle", "verify", file)
		inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatNDJSON, cmdutil.FormatJSON}, "diag", "timeline", file)
		inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "diag", "classify", file)
		return took
	}
	event, report := []byte(`{"at":"2026-01-02T03:04:05.000Z","origin":"task","severity":"info","message":"m"}`),
		golden(t, "golden", "reports", "healthy.json")
	hostiletest.PlantedIn(t, hostiletest.Encoded(t, base), func(field string, m *evidence.Manifest) bool {
		return look(field, pack(m, evidence.HistoryName, event))
	})
	hostiletest.PlantedIn(t, event, func(field string, e *evidence.Event) bool {
		m := base
		return look(field, pack(&m, evidence.HistoryName, hostiletest.Encoded(t, e)))
	})
	m := base
	look("a file's name", pack(&m, "node/"+hostiletest.Hostile[:20]+".txt", report))
	hostiletest.PlantedIn(t, []byte(
		`{"slots":256,"entries":[{"seq":1,"reason":"dns_failed","node_id":"n"}],"damaged":[{}],"pinned":[{"seq":1,"pin":"first"}]}`), func(field string, f *diag.RecordFacts) bool {
		m := base
		file := pack(&m, "node/record.json", hostiletest.Encoded(t, f))
		inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "diag", "classify", file)
		return inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "diag", "classify",
			s.Write("record.json", hostiletest.Encoded(t, f)))
	})
	if s.Passed == 0 {
		t.Error("nothing was shown")
	}
	t.Logf("%d of %d shown", s.Passed, s.Looks)
}

// TestHostileRecord plants hostile text in every string field of a record's entries on disk.
func TestHostileRecord(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	hostiletest.PlantedIn(t, []byte(`{"seq":1,"reason":"dns_failed","about":"heartbeat","attempt":1,"facts":{"a":"b"}}`),
		func(field string, e *diag.RecordEntry) bool {
			e.Pin = ""
			b := record.Encode(record.FileRecord, record.SlotOf(e.Seq), *e)
			ring := append(make([]byte, record.Size), b[:]...)
			file := s.Write("ring", ring)
			inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "diag", "classify", file)
			return inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatJSON, cmdutil.FormatNDJSON}, "diag", "decode",
				file)
		})
	s.Enough()
}

// hostileName is a hostile file name that file systems accept.
var hostileName = strings.ReplaceAll(hostiletest.Hostile, "\x00", "")

// TestHostileNames: files, profiles and arguments with hostile names, whether or not they exist.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(s.Home, "gpuaasctl"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "api_base: https://api.test\nauth:\n  token_file: \"t\\x1b[31m\\u202e\"\nnodes:\n  " +
		"\"n\\x1b[31m\\u202e\\u009b\":\n    host: \"h\\x1b]0;x\\a\\u009b\"\n"
	profileFile := s.Write(filepath.Join("gpuaasctl", "name.yaml"), []byte(text))
	named := s.Write(filepath.Join("gpuaasctl", "p"+strings.ReplaceAll(hostileName, "/", "")+".yaml"),
		[]byte("api_base: https://api.test\n"))
	bad := s.Write("bad"+hostileName+".yaml", []byte("api_bse: \"\\u202e\"\n\"k\\u009b\": 1\n"))
	for _, file := range []string{profileFile, named, bad, "gone" + hostileName} {
		runs(s, file, "profile", "validate", file)
		runs(s, file, "profile", "show", file)
		runs(s, file, "profile", "path", file)
		inFormats(s, file, []string{"yaml", cmdutil.FormatJSON}, "profile", "show", file)
		inFormats(s, file, []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "preflight", "--dry-run", "--profile", file,
			"--node-id", "n1")
		inFormats(s, file, []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "chaos", "plan", "agent-stopped", "--profile",
			file)
	}
	inFormats(s, "profiles", []string{cmdutil.FormatTable, cmdutil.FormatJSON}, "profile", "list")
	completion, _, _ := execs(s, "__complete", "preflight", "--profile", "")
	hostiletest.HarmlessText(t, "completion of a profile", completion)
	drillFile := s.Write("drill"+hostileName+".yaml",
		[]byte("metadata:\n  id: \"a\\u009b\"\n  title: \"t\\x1b[31m\\u202e\"\n"))
	for _, args := range [][]string{
		{"preflight", "replay"}, {"diag", "classify"}, {"diag", "decode"}, {"diag", "bundle", "verify"}, {"diag", "timeline"},
		{"diag", "trust", "--replay"}, {"chaos", "report"}, {"chaos", "show"}, {"chaos", "validate"}, {"chaos", "list"},
		{"chaos", "plan"}, {"history", "show"}, {"history", "diff", "a"}, {"node", "status"}, {"diag", "show"}, {"nonsense"},
		{"preflight", "--profile"}, {"preflight", "--report"}, {"help"}, {"ssh", "trust"}, {"node", "reenroll"},
	} {
		for _, name := range []string{drillFile, named, "gone" + hostileName, s.Home + "/gone" + hostileName + "/x"} {
			runs(s, "a name", append(slices.Clone(args), name)...)
		}
	}
}

// TestHostilePlatform: hostile text in all strings of every answer of a platform, and in each of its first two alone,
// for every command that uses one.
func TestHostilePlatform(t *testing.T) {
	tier.NeedsHost(t)
	for name, args := range platformCommands() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for nth := range 3 { // a walk of a hostile platform takes two seconds
				p := &mappedPlatform{t: t, alter: func(_ string, answer []byte) []byte { return hostiletest.AlterNth(answer, nth) }}
				_, said := p.runOn(append(slices.Clone(args), "-o", []string{cmdutil.FormatTable, cmdutil.FormatJSON}[nth%2]))
				hostiletest.HarmlessText(t, name, said)
			}
		})
	}
}

// allDrillFormats returns the formats of a report of drills.
func allDrillFormats() (names []string) {
	for _, f := range drillrender.Formats {
		names = append(names, string(f))
	}
	return names
}
