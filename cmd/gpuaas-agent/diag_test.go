package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/agent"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestDiag: a second process prints the decisions of the agent's process.
func TestDiag(t *testing.T) {
	dir := t.TempDir()
	where := recordFlags{dir: filepath.Join(dir, "disk"), mirror: filepath.Join(dir, "mirror")}
	cfg := agent.Config{NodeID: "node-1", Version: "v1"}
	closeRecord := where.keep(&cfg, slog.New(slog.DiscardHandler))
	if err := cfg.Recorder.Record(agent.Decision{Reason: diag.RecDNSFailed, About: "heartbeat", What: "retry", Attempt: 1,
		Detail: "no such\x1bhost"}); err != nil {
		t.Fatal(err)
	}
	closeRecord()
	run := func(args ...string) (int, string, string) {
		var out, err bytes.Buffer
		code := command(t.Context(), append([]string{"diag"}, args...),
			system{in: strings.NewReader(""), out: &out, err: &err, env: func(string) string { return "" }})
		return code, out.String(), err.String()
	}
	code, out, _ := run("--dir", where.dir)
	if code != exitOK || strings.Count(out, "dns_failed heartbeat retry attempt=1") != 2 ||
		strings.Contains(out, "\x1b") || !strings.Contains(out, "2 of 320 slots") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	code, out, _ = run("--dir", where.dir, "--json")
	var f diag.RecordFacts
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&f); err != nil || code != exitOK || len(f.Entries) != 1 ||
		f.Entries[0].NodeID != "node-1" {
		t.Errorf("exit %d, %v:\n%s", code, err, out)
	}
	behind := filepath.Join(dir, "behind") // as a full disk leaves it
	if err := os.CopyFS(behind, os.DirFS(where.dir)); err != nil {
		t.Fatal(err)
	}
	closeRecord = where.keep(&cfg, slog.New(slog.DiscardHandler))
	if err := cfg.Recorder.Record(agent.Decision{Reason: diag.RecShutdown, About: "agent", What: "stop"}); err != nil {
		t.Fatal(err)
	}
	closeRecord()
	code, out, _ = run("--dir", behind, "--mirror", where.mirror)
	if code != exitOK || !strings.Contains(out, "shutdown agent stop") || !strings.Contains(out, behind+": ") {
		t.Errorf("behind its mirror, exit %d:\n%s", code, out)
	}
	if _, out, _ = run("--dir", behind, "--mirror", ""); strings.Contains(out, "shutdown") {
		t.Errorf("without its mirror:\n%s", out)
	}
	code, out, _ = run("--dir", filepath.Join(dir, "none"), "--mirror", where.mirror)
	if code != exitOK || !strings.Contains(out, "degraded: ") || !strings.Contains(out, "dns_failed") {
		t.Errorf("the mirror, exit %d:\n%s", code, out)
	}
	if code, out, err := run("--dir", filepath.Join(dir, "none"), "--mirror", dir); code != exitInternal || out != "" ||
		!strings.Contains(err, "is missing") {
		t.Errorf("nothing to read, exit %d: %s%s", code, out, err)
	}
	for _, args := range [][]string{{"--limit", "-1"}, {"extra"}, {"--nonsense"}} {
		if code, _, _ := run(args...); code != exitUsage {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}
