package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// mappedPlatform is a healthy platform's API that fails the test on a request to a path that is not mapped.
type mappedPlatform struct {
	t       *testing.T
	mapping profile.Mapping
	mu      sync.Mutex                              // guards the fields below
	what    string                                  // the command that runs
	status  int                                     // status instead of a healthy answer, except for healthz
	alter   func(name string, answer []byte) []byte // nil: answers are not modified
	patient bool                                    // a late answer of a busy machine does not fail the test
	run     func(args []string) int                 // nil: the command runs in this process, without a terminal
}

var placeholder = regexp.MustCompile(`\\\{\w+\\\}`)

// asks returns the mapped paths of the API that a request may be for.
func (p *mappedPlatform) asks(r *http.Request) string {
	for name, template := range p.mapping.Paths {
		form := "^" + placeholder.ReplaceAllString(regexp.QuoteMeta(template), `[^/?&]+`) + "$"
		posted := slices.Contains([]string{profile.PathNodeTasks, profile.PathTerminalToken, profile.PathNodeReenroll}, name)
		if template != profile.Absent && regexp.MustCompile(form).MatchString(r.URL.RequestURI()) &&
			posted == (r.Method == http.MethodPost) {
			return name
		}
	}
	return ""
}

func (p *mappedPlatform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := p.asks(r)
	if p.alter == nil {
		p.serve(w, r, name)
		return
	}
	made := httptest.NewRecorder()
	p.serve(made, r, name)
	maps.Copy(w.Header(), made.Header())
	w.WriteHeader(made.Code)
	_, _ = w.Write(p.alter(name, made.Body.Bytes()))
}

func (p *mappedPlatform) serve(w http.ResponseWriter, r *http.Request, name string) {
	if name == "" {
		p.mu.Lock()
		p.t.Errorf("%s sends %s %s, which no mapped path makes", p.what, r.Method, r.URL.RequestURI())
		p.mu.Unlock()
	}
	now := time.Now().UTC().Format(time.RFC3339Nano)
	w.Header().Set("Content-Type", "application/json")
	// both are one path of one server in the default mapping
	health := name == profile.PathHealthz || name == profile.PathTerminalHealthz
	if p.status != 0 && !health {
		w.WriteHeader(p.status)
		fmt.Fprint(w, `{"error":{"code":"unauthorized","message":"who is that"}}`)
		return
	}
	answers := map[string]any{
		profile.PathTrust: map[string]string{"signing_ca": "aa", "ingress_ca": "aa"},
		profile.PathNode: map[string]any{"id": "n1", "now": now, "status": "ready", "stale_tasks": 0,
			"agent": map[string]string{"last_seen_at": now}},
		profile.PathNodeGPU:    map[string]any{"health": "HEALTHY", "gpus": []any{}, "now": now, "judged_at": now},
		profile.PathAllocation: map[string]any{"id": "a1", "state": "active", "node_id": "n1", "os_user": "tenant"},
		profile.PathNodeTasks:  map[string]string{"id": "task-1"},
		profile.PathTask: map[string]string{"id": "task-1", "status": "completed", "queued_at": now,
			"claimed_at": now, "completed_at": now},
		profile.PathTerminalToken: map[string]string{"session_id": "s1", "token": "terminal-token"},
		profile.PathNodeReenroll: wire.Bundle{NodeID: "n1", Token: canary, Profile: "lab", APIURL: "https://node-api.test",
			CABundle: "PEM"},
	}
	if name == profile.PathEvidence || name == profile.PathNodeEvidence || name == profile.PathSessionEvidence {
		fmt.Fprintf(w, `{"items":[{"at":%q,"kind":"task.queued","node_id":"n1","task_id":"task-1"}]}`, now)
		return
	}
	_ = json.NewEncoder(w).Encode(answers[name])
}

// runOn runs a command against the platform, with the named paths and fields mapped away.
func (p *mappedPlatform) runOn(args []string, away ...string) (code int, said string) {
	p.t.Helper()
	m := profile.DefaultMapping()
	lacking := profile.Mapping{Paths: map[string]string{}, Fields: map[string]string{}}
	for _, n := range away {
		if _, path := m.Paths[n]; path {
			lacking.Paths[n] = profile.Absent
		} else {
			lacking.Fields[n] = profile.Absent
		}
	}
	p.mapping = profile.Profile{Mapping: lacking}.WithDefaults().Mapping
	p.mu.Lock()
	p.what = fmt.Sprintf("%v without %v", args, away)
	p.mu.Unlock()
	server := httptest.NewServer(p)
	defer server.Close()
	dir := p.t.TempDir()
	budgets := map[string]string{}
	for _, hop := range hops.BuiltIn().List() {
		if p.patient {
			budgets[string(hop.ID)] = "1m"
		}
	}
	text, err := yaml.Marshal(map[string]any{
		"budgets":  budgets,
		"api_base": server.URL, "auth": map[string]string{"token_file": "token"},
		"mapping": map[string]any{"paths": lacking.Paths, "fields": lacking.Fields},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	for name, content := range map[string]string{"token": "operator-token\n", "p.yaml": string(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	var out bytes.Buffer
	a := &cmdutil.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Env: func(key string) string {
		return map[string]string{"XDG_STATE_HOME": dir, "TMPDIR": dir}[key]
	}}
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "DIR", dir)
	}
	args = append(args, "--profile", filepath.Join(dir, "p.yaml"))
	if p.run != nil {
		return p.run(args), ""
	}
	return execute(a, p.t.Context(), args), out.String()
}

// platformCommands are the commands that use a platform's API, except for a drill's.
func platformCommands() map[string][]string {
	return map[string][]string{
		"preflight": {"preflight", "--node-id", "n1", "--allocation-id", "a1", "--session-id", "s0", "--correlation-id",
			"c0"},
		"diag trust":    {"diag", "trust", "n1"},
		"diag classify": {"diag", "classify", "n1"},
		"diag bundle":   {"diag", "bundle", "n1", "--file", "DIR/case.tar.gz"},
		"diag timeline": {"diag", "timeline", "n1"},
		"diag export":   {"diag", "export", "n1"},
		"node status":   {"node", "status", "n1"},
		"node reenroll": {"node", "reenroll", "n1", "--reason", "drift", "--out", "DIR/bundle.json"},
	}
}

// TestCommandsSendNothingToAnAbsentPath: no command uses what a profile maps to "-": each path, each field, and
// everything at once. A healthy platform never fails for what it lacks.
func TestCommandsSendNothingToAnAbsentPath(t *testing.T) {
	tier.NeedsHost(t)
	d := profile.DefaultMapping()
	paths, fields := slices.Sorted(maps.Keys(d.Paths)), slices.Sorted(maps.Keys(d.Fields))
	sets := [][]string{nil, paths, fields, slices.Concat(paths, fields)}
	for _, n := range paths {
		sets = append(sets, []string{n})
	}
	for name, args := range platformCommands() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, set := range sets {
				p := &mappedPlatform{t: t, patient: true}
				code, said := p.runOn(slices.Clone(args), set...)
				gathers := slices.Contains([]string{"diag bundle", "diag timeline", "diag export"}, name)
				lacks := name == "node reenroll" && slices.Contains(set, profile.PathNodeReenroll)
				switch {
				case lacks && (code != cmdutil.ExitUsage || !strings.Contains(said, "mapping.paths.node_reenroll")):
					t.Errorf("without %v: exit %d: %s", set, code, said)
				case gathers && !slices.ContainsFunc(paths, func(n string) bool { return !slices.Contains(set, n) }):
					// without access to the node and without the path nothing can be gathered, which exit code 3
					// reports
				case !lacks && (code == cmdutil.ExitFailed || code == cmdutil.ExitUsage || code == cmdutil.ExitInternal):
					t.Errorf("without %v: exit %d: %s", set, code, said)
				}
			}
		})
	}
}

// TestWrongTokenIsNotAccepted: if no mapped path answers a request with the token, no hop reports the token as
// accepted, and a refusal is not blamed on the platform.
func TestWrongTokenIsNotAccepted(t *testing.T) {
	tier.NeedsHost(t)
	p := &mappedPlatform{t: t, status: http.StatusUnauthorized, patient: true}
	code, said := p.runOn([]string{"preflight", "--node-id", "n1", "-o", "wide"}, profile.PathTrust)
	if strings.Contains(said, "the token is accepted") || !strings.Contains(said, "mapping.paths.trust") ||
		code != cmdutil.ExitInconclusive {
		t.Errorf("exit %d: %s", code, said)
	}
}

// TestPlanNamesWhatIsAbsent: --dry-run lists what a platform lacks, and sends nothing.
func TestPlanNamesWhatIsAbsent(t *testing.T) {
	tier.NeedsHost(t)
	p := &mappedPlatform{t: t, status: http.StatusTeapot}
	code, said := p.runOn([]string{"preflight", "--dry-run", "--node-id", "n1", "-o", "json"}, profile.PathNode,
		"task.status")
	if code != cmdutil.ExitPass || !strings.Contains(said, "mapping.paths.node:") ||
		!strings.Contains(said, "reports no task.status") {
		t.Errorf("exit %d: %s", code, said)
	}
}
