//go:build linux

package inprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Secrets that a product URL may contain: a notebook's login link, in each of its forms.
const (
	urlSecret   = "canary-in-a-query-4b1d"
	urlPassword = "canary-in-a-login-9c3e"
	urlFragment = "canary-in-a-fragment-77a0"
)

// canaries are the secrets of one world, by name. Tests search for them in everything that other users may read.
type canaries struct {
	mu sync.Mutex // guards m
	m  map[string]string
}

func (c *canaries) add(name, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[name] = value
}

// search fails the test for every secret in text.
func (c *canaries) search(t *testing.T, where, text string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, value := range c.m {
		if i := strings.Index(text, value); i >= 0 {
			t.Errorf("%s holds the %s: ...%s...", where, name, strings.ReplaceAll(text[max(0, i-80):i], "\n", " "))
		}
	}
}

// plant collects a world's secrets, and adds each terminal token that is minted from now on.
func plant(t *testing.T, w *world) *canaries {
	t.Helper()
	c := &canaries{m: map[string]string{"operator token": w.platform.OperatorToken.Reveal(), "edge cookie": w.cookie,
		"URL's secret": urlSecret, "URL's password": urlPassword, "URL's fragment": urlFragment,
		"enrollment token": w.platform.EnrollmentToken(nodeID).Reveal()}}
	for name, path := range map[string]string{"node's private key": filepath.Join(w.dir, "key.pem"),
		"operator's SSH key": w.load(t).SSH.Identity} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c.add(name, strings.Split(string(b), "\n")[1]) // a line of its base64
	}
	edge := w.platform.APIEdge
	edge.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Context().Value(throughKey{}) != nil || !strings.HasSuffix(r.URL.Path, "/terminal-token") {
			return false
		}
		rec := httptest.NewRecorder()
		edge.ServeHTTP(rec, r.Clone(context.WithValue(r.Context(), throughKey{}, true)))
		var minted struct{ Token string }
		if json.Unmarshal(rec.Body.Bytes(), &minted) == nil && minted.Token != "" {
			c.add("terminal token", minted.Token)
		}
		for k, v := range rec.Header() {
			rw.Header()[k] = v
		}
		rw.WriteHeader(rec.Code)
		_, _ = rw.Write(rec.Body.Bytes())
		return true
	})
	return c
}

// startSecret is a world whose workload has secrets in its URL.
func startSecret(t *testing.T, o options) *world {
	o.platform = func(p *platformtest.Options) {
		p.Workload = "me:" + urlPassword + "@" + p.Workload + "/lab?ticket=" + urlSecret + "#token=" + urlFragment
	}
	return start(t, o)
}

// TestNoSecretInAnyReport: healthy and broken, in every format.
func TestNoSecretInAnyReport(t *testing.T) {
	t.Parallel()
	login := func(f *platformtest.Front) { // an edge that requires a login, and repeats the request
		f.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			rw.Header().Set("Location", "https://login.test/?back="+r.URL.String()+"&cookie="+r.Header.Get("Cookie"))
			rw.WriteHeader(http.StatusFound)
			return true
		})
	}
	echo := func(f *platformtest.Front) { // an error page that repeats the request's secrets
		f.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusInternalServerError)
			words := "bad request " + r.Header.Get("Authorization") + " " + r.Header.Get("Cookie") + " " + r.URL.String() + " " +
				r.Header.Get("Sec-WebSocket-Protocol")
			_ = json.NewEncoder(rw).Encode(map[string]any{"error": map[string]string{"code": words, "message": words}})
			return true
		})
	}
	for name, do := range map[string]func(w *world){
		"healthy":            func(*world) {},
		"edges want a login": func(w *world) { login(w.platform.TerminalEdge); login(w.platform.AppEdge) },
		"edges repeat": func(w *world) {
			echo(w.platform.TerminalEdge)
			echo(w.platform.AppEdge)
			echo(w.platform.APIEdge)
		},
		"workload's edge repeats": func(w *world) { echo(w.platform.AppEdge) },
		"terminal's edge repeats": func(w *world) { echo(w.platform.TerminalEdge) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startSecret(t, options{})
			c := plant(t, w)
			do(w)
			r := w.walk(t)
			if (name == "healthy") != (r.Verdict.Outcome == diag.OutcomePass) {
				t.Errorf("\n%s", describe(r))
			}
			for _, format := range render.Formats {
				for _, color := range []bool{false, true} {
					var out bytes.Buffer
					if err := render.Report(&out, r, render.Options{Format: format, Width: 400, Color: color}); err != nil {
						t.Fatal(err)
					}
					c.search(t, "the report as "+string(format), out.String())
				}
			}
			c.search(t, "the agent's log", w.agentLog.String())
			c.search(t, "the platform's log", w.platformLog.String())
		})
	}
}

// TestNoSecretFromTheProgram runs the built program, and checks its command line and all of its output.
func TestNoSecretFromTheProgram(t *testing.T) {
	t.Parallel()
	tool := build(t)
	w := startSecret(t, options{})
	c := plant(t, w)
	file := filepath.Join(t.TempDir(), "report.json")
	cookie := w.load(t).Auth.EdgeCookieFile
	for _, tc := range []struct {
		name string
		do   func()
		code int
		argv []string
	}{
		{"healthy", func() {}, 0, []string{"-o", "full"}},
		{"report", func() {}, 0, []string{"-o", "json", "--report", file}},
		{"dry run", func() {}, 0, []string{"--dry-run"}},
		{"broken", func() { answer(w.platform.AppEdge, "/", 500) }, 3, []string{"-o", "table"}},
		{"secret file open to others", func() { _ = os.Chmod(cookie, 0o644) }, 2, nil},
	} {
		tc.do()
		argv := append([]string{"preflight", "--profile", w.profile, "--node-id", nodeID, "--allocation-id", alloc},
			tc.argv...)
		stdout, stderr, code := execute(t, c, tool, argv...)
		if code != tc.code {
			t.Errorf("%s: exit %d, want %d\n%s%s", tc.name, code, tc.code, stdout, stderr)
		}
		c.search(t, tc.name+": stdout", stdout)
		c.search(t, tc.name+": stderr", stderr)
	}
	report, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c.search(t, "the report's file", string(report))
	c.search(t, "the agent's log", w.agentLog.String())
	c.search(t, "the platform's log", w.platformLog.String())
	if c.m["terminal token"] == "" {
		t.Error("no terminal token was minted, so none could be looked for")
	}
}

// build returns the tool, which has next to it the agent of the same version, so that the tool uses the node's agent
// as it is.
func build(t *testing.T) string {
	t.Helper()
	_, err := agentProgram()
	path, errTool := toolProgram()
	if err = errors.Join(err, errTool); err != nil {
		t.Fatal(err)
	}
	return path
}

// execute runs the tool, and searches the command lines of all processes of this machine while it runs.
func execute(t *testing.T, c *canaries, tool string, argv ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), walkLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, argv...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, f := range files {
				if b, err := os.ReadFile(f); err == nil {
					c.search(t, "a command line ("+f+")", string(b))
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	err := cmd.Wait()
	close(stop)
	<-watched
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestNoSecretInErrors: an error about an unusable secret file names the file and not its content.
func TestNoSecretInErrors(t *testing.T) {
	begin(t)
	for name, text := range map[string]string{"two lines": "canary-first\ncanary-second\n",
		"a control character": "canary-\x01\n"} {
		path := filepath.Join(t.TempDir(), "secret")
		write(t, path, text)
		if _, err := profile.ReadSecret(t.Context(), path); err == nil || strings.Contains(err.Error(), "canary") ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
