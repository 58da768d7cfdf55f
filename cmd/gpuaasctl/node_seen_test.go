package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// answersAbout are platforms by what they answer about a node and about an allocation; "" is HTTP 404. Only the first
// knows the node box1, and its allocation a1.
var answersAbout = map[string]func(path, now string) string{
	"knows": func(path, now string) string {
		return map[string]string{
			"/v1/admin/nodes/box1": `{"id": "box1", "agent": {"last_seen_at": "` + now + `"}}`,
			"/v1/allocations/a1":   `{"state": "active", "node_id": "box1"}`,
		}[path]
	},
	"knows none": func(string, string) string { return "" },
	"one answer": func(_, now string) string {
		return `{"id": "some", "state": "active", "node_id": "some", "agent": {"last_seen_at": "` + now + `"}}`
	},
	"no name":  func(_, now string) string { return `{"agent": {"version": "1", "last_seen_at": "` + now + `"}}` },
	"unmapped": func(_, now string) string { return `{"agent": {"last_seen_at": "` + now + `"}}` },
}

// seen is one walk of the node box1: what is given for it.
type seen struct {
	platform, entry, allocation string
	token, host                 bool
}

// args writes the profile of the walk, and returns its command line. Nothing listens at the SSH port.
func (s seen) args(t *testing.T, api string, port int) []string {
	dir := t.TempDir()
	text := fmt.Sprintf("api_base: %s\nssh: {port: %d}\nmapping:\n  paths: {node_tasks: \"-\", task: \"-\", "+
		"terminal_token: \"-\", evidence: \"-\", node_gpu: \"-\", trust: \"-\"", api, port)
	if s.platform == "unmapped" {
		text += `, node: "-", allocation: "-"`
	}
	text += "}\n  fields: {allocation.app_product_url: \"-\"}\n"
	if s.entry != "" {
		text += "nodes:\n  " + s.entry + ": {host: 127.0.0.1}\n"
	}
	if s.token {
		text += "auth: {token_file: " + filepath.Join(dir, "token") + "}\n"
	}
	for name, data := range map[string]string{"token": "words\n", "p.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"preflight", "box1", "--profile", filepath.Join(dir, "p.yaml"), "--no-save"}
	if s.host {
		args = append(args, "--node-host", "127.0.0.1")
	}
	if s.allocation != "" {
		args = append(args, "--allocation-id", s.allocation)
	}
	return args
}

// TestNoPassWithoutTheNode: a walk passes only if something of the node was measured, whatever is given for it, in
// every format and in its replay. Here nothing can be measured on the node, so only a platform that knows it counts.
func TestNoPassWithoutTheNode(t *testing.T) {
	tier.NeedsHost(t)
	port := closedPort(t)
	t.Setenv("HOME", t.TempDir())
	passed := 0
	for platform, answer := range answersAbout {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			text := answer(r.URL.Path, time.Now().UTC().Format(time.RFC3339))
			switch {
			case r.URL.Path == "/healthz":
				text = "{}"
			case text == "":
				w.WriteHeader(http.StatusNotFound)
				text = `{"error": {"code": "not_found"}}`
			}
			fmt.Fprint(w, text)
		}))
		defer server.Close()
		for _, s := range combinations(platform) {
			code, report := ran(t, nil, append(s.args(t, server.URL, port), "-o", "json")...)
			shows := platform == "knows" && s.token && s.allocation != "typo" && !s.host && s.entry != "box1"
			if (code == cmdutil.ExitPass) != shows {
				_, short := ran(t, report, "preflight", "replay", "-", "-o", "short")
				t.Errorf("%+v: exit code %d: %s", s, code, short)
			}
			if !s.token && !s.host && s.entry == "other" && code != cmdutil.ExitUsage {
				t.Errorf("%+v: exit code %d: the profile has no such node, and no platform is asked", s, code)
			}
			if code == cmdutil.ExitPass {
				passed++
			}
			if len(report) > 0 {
				sameInEveryFormat(t, s, code, report)
			}
		}
	}
	if passed == 0 {
		t.Error("no walk passes")
	}
}

// combinations are all walks at a platform.
func combinations(platform string) (all []seen) {
	for _, entry := range []string{"", "box1", "other"} {
		for _, allocation := range []string{"", "a1", "typo"} {
			for i := range 4 {
				all = append(all, seen{platform: platform, entry: entry, allocation: allocation, token: i&1 != 0, host: i&2 != 0})
			}
		}
	}
	return all
}

// sameInEveryFormat replays a report in every format, and fails the test where one has another outcome or exit code.
func sameInEveryFormat(t *testing.T, s seen, code int, report []byte) {
	t.Helper()
	var doc struct {
		Verdict struct{ Outcome, Because string }
	}
	if err := json.Unmarshal(report, &doc); err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	for _, format := range render.Formats {
		again, text := ran(t, report, "preflight", "replay", "-", "-o", string(format))
		if outcome := statedOutcome(t, format, text); again != code || outcome != doc.Verdict.Outcome {
			t.Errorf("%+v: %s with exit code %d; %s has %s with %d", s, doc.Verdict.Outcome, code, format, outcome, again)
		}
		if format == render.JUnit && (code == cmdutil.ExitPass) != !bytes.ContainsAny(problems(text), "123456789") {
			t.Errorf("%+v: exit code %d, and JUnit has %s", s, code, problems(text))
		}
	}
}

// problems returns the counts of failures and errors of a JUnit page.
func problems(page []byte) []byte {
	_, rest, _ := bytes.Cut(page, []byte("failures="))
	counts, _, _ := bytes.Cut(rest, []byte("time="))
	return counts
}

// ran executes a command line in this process, and returns its exit code and stdout.
func ran(t *testing.T, in []byte, args ...string) (int, []byte) {
	t.Helper()
	out, words := &bytes.Buffer{}, &bytes.Buffer{}
	a := &cmdutil.App{Stdin: bytes.NewReader(in), Stdout: out, Stderr: words, Env: func(string) string { return "" }}
	code := execute(a, t.Context(), args)
	if code == cmdutil.ExitInternal {
		t.Fatalf("%v: %s", args, words)
	}
	return code, out.Bytes()
}

func closedPort(t *testing.T) int {
	t.Helper()
	tier.NeedsHost(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// TestPathsAreNoNodes: two reports, a file where an allocation may be given, an id with a slash, and ids from unset
// variables are refused before anything is asked, in the words that lead on.
func TestPathsAreNoNodes(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.json", "b.json", "notes"} {
		if err := os.WriteFile(name, []byte("# no report\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := worldOf(t, closedPort(t), "")
	for line, want := range map[string]string{
		"preflight a.json b.json":                        "one report at a time; --compare takes the second",
		"preflight a.json compute-node-01":               "a.json is a report",
		"preflight compute-node-01 a.json":               "ALLOCATION is meant",
		"preflight compute-node-01 ./x":                  "ALLOCATION is meant",
		"preflight a.json b.json notes":                  "one argument too many",
		"preflight --node-id dir/x":                      `--node-id: "dir/x" cannot be one`,
		"preflight compute-node-01 --allocation-id x/y":  `--allocation-id: "x/y" cannot be one`,
		"preflight compute-node-01 --allocation-id=":     "--allocation-id: it is empty",
		"preflight compute-node-01 --node-host=":         "--node-host: it is empty",
		"preflight compute-node-01 --token-file=":        "--token-file: it is empty",
		"preflight --out= a.json":                        "--out: it is empty",
		"preflight --baseline= a.json":                   "--baseline: it is empty",
		"preflight nosuchfile.txt":                       "has no node nosuchfile.txt (it has",
		"preflight notes":                                "notes: not a report (JSON)",
		"preflight compute-node-1 --skip node_heartbeat": "has no node compute-node-1 (it has",
		"preflight compute-node-1 --dry-run":             "has no node compute-node-1 (it has",
	} {
		args := strings.Fields(line)
		if !slices.Contains(args, "notes") && !strings.HasSuffix(line, ".json") {
			args = append(args, "--profile", file)
		}
		code, out, words := said(t, args...)
		if code != cmdutil.ExitUsage || out != "" || !strings.Contains(words, want) {
			t.Errorf("%s: exit code %d: %s%s", line, code, out, words)
		}
	}
}
