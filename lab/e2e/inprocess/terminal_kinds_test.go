package inprocess

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/profile"
)

// wireOf is how a stand-in of a terminal's server writes what its shell shows, and reads what its user types.
type wireOf struct {
	protocols []string
	show      func(b []byte) (websocket.MessageType, []byte)
	typed     func(b []byte) ([]byte, bool)
	end       func(code int) []byte // the last message, nil: none
}

func textFrame(format string, args ...any) (websocket.MessageType, []byte) {
	return websocket.MessageText, fmt.Appendf(nil, format, args...)
}

func asJSON(b []byte) string {
	q, _ := json.Marshal(string(b))
	return string(q)
}

// element returns element n of a JSON list whose first one is a word.
func element(b []byte, word string) ([]byte, bool) {
	var list []string
	if json.Unmarshal(b, &list) != nil || len(list) != 2 || list[0] != word {
		return nil, false
	}
	return []byte(list[1]), true
}

func afterPrefix(prefix string) func(b []byte) ([]byte, bool) {
	return func(b []byte) ([]byte, bool) {
		rest, ok := strings.CutPrefix(string(b), prefix)
		return []byte(rest), ok && !strings.HasPrefix(rest, "{")
	}
}

// wires are the servers that profiles name by terminal.like, as their own documents describe them.
var wires = map[string]wireOf{
	"raw": {show: func(b []byte) (websocket.MessageType, []byte) { return websocket.MessageBinary, b },
		typed: func(b []byte) ([]byte, bool) { return b, true }},
	"json": {show: func(b []byte) (websocket.MessageType, []byte) {
		return textFrame(`{"type":"data","data":%s}`, asJSON(b))
	}, typed: func(b []byte) ([]byte, bool) {
		var m struct{ Type, Data string }
		err := json.Unmarshal(b, &m)
		return []byte(m.Data), err == nil && m.Type == "data"
	}},
	"ttyd": {protocols: []string{"tty"}, show: func(b []byte) (websocket.MessageType, []byte) {
		return websocket.MessageBinary, append([]byte("0"), b...)
	}, typed: afterPrefix("0")},
	"gotty": {protocols: []string{"webtty"}, show: func(b []byte) (websocket.MessageType, []byte) {
		return textFrame("1%s", base64.StdEncoding.EncodeToString(b))
	}, typed: afterPrefix("1")},
	"wetty": {show: func(b []byte) (websocket.MessageType, []byte) { return textFrame(`42["data",%s]`, asJSON(b)) },
		typed: func(b []byte) ([]byte, bool) { return element([]byte(strings.TrimPrefix(string(b), "42")), "input") }},
	"jupyter": {show: func(b []byte) (websocket.MessageType, []byte) { return textFrame(`["stdout",%s]`, asJSON(b)) },
		typed: func(b []byte) ([]byte, bool) { return element(b, "stdin") }},
	"kubernetes": {protocols: []string{"v5.channel.k8s.io"}, show: func(b []byte) (websocket.MessageType, []byte) {
		return websocket.MessageBinary, append([]byte{1}, b...)
	}, typed: afterPrefix("\x00"), end: func(code int) []byte {
		if code == 0 {
			return []byte("\x03" + `{"metadata":{},"status":"Success"}`)
		}
		return fmt.Appendf(nil, "\x03"+`{"metadata":{},"status":"Failure","message":"command terminated with non-zero `+
			`exit code","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"%d"}]}}`, code)
	}},
}

// serve upgrades and calls use.
func (w wireOf) serve(use func(ctx context.Context, c *websocket.Conn)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{Subprotocols: w.protocols, InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer c.CloseNow()
		use(r.Context(), c)
	}
}

// shell runs a program behind the wire; what it reads is what the user types.
func (w wireOf) shell(argv ...string) http.HandlerFunc {
	return w.serve(func(ctx context.Context, c *websocket.Conn) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		cmd.Stderr = cmd.Stdout
		if cmd.Start() != nil {
			return
		}
		var typing sync.WaitGroup
		typing.Go(func() {
			defer in.Close()
			for {
				_, b, err := c.Read(ctx)
				if err != nil {
					return
				}
				if typed, ok := w.typed(b); ok {
					_, _ = in.Write(typed)
				}
			}
		})
		for buf := make([]byte, 64); ; {
			n, err := out.Read(buf)
			if n > 0 {
				kind, b := w.show(buf[:n])
				_ = c.Write(ctx, kind, b)
			}
			if err != nil {
				break
			}
		}
		_ = cmd.Wait()
		if w.end != nil {
			_ = c.Write(ctx, websocket.MessageBinary, w.end(cmd.ProcessState.ExitCode()))
		}
		_ = c.Close(websocket.StatusNormalClosure, "")
		cancel()
		typing.Wait()
	})
}

// echo shows what is typed, as a terminal without a shell does.
func (w wireOf) echo() http.HandlerFunc {
	return w.serve(func(ctx context.Context, c *websocket.Conn) {
		for {
			_, b, err := c.Read(ctx)
			if err != nil {
				return
			}
			if typed, ok := w.typed(b); ok {
				kind, shown := w.show(typed)
				_ = c.Write(ctx, kind, shown)
			}
		}
	})
}

// sends sends messages, and then closes with a code, or with 0 waits for its peer.
func (w wireOf) sends(code int, reason string, messages ...string) http.HandlerFunc {
	return w.serve(func(ctx context.Context, c *websocket.Conn) {
		for _, m := range messages {
			_ = c.Write(ctx, websocket.MessageText, []byte(m))
		}
		if code == 0 {
			for {
				if _, _, err := c.Read(ctx); err != nil {
					return
				}
			}
		}
		_ = c.Close(websocket.StatusCode(code), reason)
	})
}

// refusesWith refuses the upgrade.
func refusesWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// terminalProfile is a platform that has a terminal, and nothing else that this tool knows.
func terminalProfile(t profile.Terminal, base string) profile.Profile {
	no := false
	p := profile.Profile{Name: "test", TerminalBase: base, Terminal: t, Agent: profile.Agent{Present: &no},
		Allocation: profile.Allocation{Present: &no},
		Budgets:    map[diag.HopID]time.Duration{diag.HopBrowserTerminalWS: 4 * time.Second}}
	return p.WithDefaults()
}

// walkTerminal walks a platform that has only a terminal.
func walkTerminal(t *testing.T, p profile.Profile) *diag.Report {
	t.Helper()
	e := &hop.Env{Profile: p, Subject: hop.NewSubject(p, "node-1", "", "", ""), CorrelationID: "corr-1",
		Token: diag.NewSecret("canary-token")}
	chain := hops.BuiltIn()
	plan := chain.NewPlan(p, e.Subject, hop.Options{Session: true, Token: true})
	here := vantage.Operator(&probe.Prober{Vantage: hop.Operator})
	defer here.Close()
	facts, ended := walk.Walk(t.Context(), e, plan, map[string]hop.Vantage{hop.Operator: here}, nil)
	r := &diag.Report{Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan, Facts: facts,
		Run: diag.Run{ID: "run-1", CorrelationID: e.CorrelationID, EndedBy: ended}}
	verdict.Judge(chain, r)
	return r
}

// TestTerminalsOfEveryDialect: a shell behind each of the servers that a profile can name computes, and no hop that
// such a platform lacks is more than skipped.
func TestTerminalsOfEveryDialect(t *testing.T) {
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			begin(t)
			t.Parallel()
			terminal := profile.Terminal{Kind: diag.TerminalWS, Like: name, Path: "/ws"}
			if name == "kubernetes" {
				terminal = execTerminal()
			}
			s := httptest.NewServer(wire.shell("/bin/sh"))
			defer s.Close()
			r := walkTerminal(t, terminalProfile(terminal, s.URL))
			for _, h := range r.Hops {
				want := diag.StatusSkipped
				if h.ID == diag.HopBrowserTerminalWS || h.ID == diag.HopTerminalStartup {
					want = diag.StatusPass
				}
				if h.Status != want {
					t.Errorf("%s is %s, want %s: %s%s", h.ID, h.Status, want, h.Text, h.Because)
				}
			}
		})
	}
}

func execTerminal() profile.Terminal {
	return profile.Terminal{Kind: diag.TerminalExec, Namespace: "tenants", Pod: "{node_id}", Container: "main"}
}

// terminalFault is one fault of a terminal's server: which hop it is blamed on, how, and what the text says.
type terminalFault struct {
	name   string
	server http.HandlerFunc
	at     diag.HopID
	status diag.Status
	owner  string // the first one
	want   string
}

func (f terminalFault) check(t *testing.T, terminal profile.Terminal) {
	t.Helper()
	begin(t)
	s := httptest.NewServer(f.server)
	defer s.Close()
	r := walkTerminal(t, terminalProfile(terminal, s.URL))
	h := *reading.HopNamed(r.Hops, f.at)
	if h.Status != f.status || !strings.Contains(h.Text+h.Because, f.want) {
		t.Errorf("%s is %s: %s%s; want %s with %q\n%s", f.at, h.Status, h.Text, h.Because, f.status, f.want, describe(r))
	}
	if f.owner != "" && (len(r.Verdict.Owners) == 0 || r.Verdict.Owners[0] != f.owner) {
		t.Errorf("owners %q, want %s", r.Verdict.Owners, f.owner)
	}
	all := strings.ToLower(h.Text + h.Because + r.Verdict.Owner)
	for _, foreign := range []string{"gateway", "gpuaas", "terminal.open", "allocation"} {
		if strings.Contains(all, foreign) {
			t.Errorf("says %q, which this platform does not have: %s", foreign, all)
		}
	}
	whole, err := json.Marshal(r)
	if err != nil || strings.Contains(string(whole), "canary-token") {
		t.Errorf("the report has the token, or %v", err)
	}
}

const (
	opened = diag.HopBrowserTerminalWS
	shell  = diag.HopTerminalStartup
	fail   = diag.StatusFail
	unsure = diag.StatusInconclusive
)

func TestFaultsOfTerminalServers(t *testing.T) {
	ttyd := wires["ttyd"]
	own := profile.Terminal{Kind: diag.TerminalWS, Like: "ttyd", Path: "/ws",
		Closes: map[int]string{4401: "token_refused", 4502: "node_unreachable", 4500: "shell_failed"}}
	for _, f := range []terminalFault{
		{"no upgrade", refusesWith(200, `{}`), opened, fail, "terminal server", "does not upgrade"},
		{"no such path", refusesWith(404, `{}`), opened, fail, "terminal server", "HTTP 404"},
		{"401", refusesWith(401, `{"error":{"code":"x"}}`), opened, fail, "terminal server",
			"refuses the terminal: HTTP 401 x"},
		{"403", refusesWith(403, `{}`), opened, fail, "terminal server", "HTTP 403"},
		{"502", refusesWith(502, `{}`), opened, fail, "", "HTTP 502"},
		{"another subprotocol", wireOf{}.sends(0, ""), opened, fail, "terminal server", "(tty)"},
		{"silence", ttyd.sends(0, ""), opened, fail, "terminal server", "sent nothing that terminal.frames knows"},
		{"frames of another dialect", ttyd.sends(0, "", `["stdout","x"]`), opened, fail, "terminal server",
			"sent nothing that terminal.frames knows"},
		{"a listed close", ttyd.sends(4401, "no"), opened, fail, "terminal server",
			"close code 4401 no: the token was refused"},
		{"the node", ttyd.sends(4502, ""), opened, fail, "terminal server", "does not reach the node"},
		{"no shell", ttyd.sends(4500, ""), opened, fail, "node runtime", "started no shell"},
		{"a close that nothing lists", ttyd.sends(4999, "bye"), opened, fail, "terminal server",
			"close code 4999 bye, whose meaning the profile does not list"},
		{"a standard close", ttyd.sends(1013, ""), opened, fail, "terminal server", "too many sessions"},
		{"no close frame", ttyd.serve(func(context.Context, *websocket.Conn) {}), opened, fail, "terminal server",
			"without a close frame"},
		{"an oversized message", ttyd.sends(0, "", "0"+strings.Repeat("x", 1<<20+1)), opened, fail, "terminal server",
			"ended the session"},
		{"an echo is no shell", ttyd.echo(), shell, fail, "node runtime", "no shell computes"},
		{"the shell ends", ttyd.shell("/bin/sh", "-c", "echo no such shell; exit 127"), shell, fail, "node runtime",
			"before its shell computed"},
	} {
		t.Run(f.name, func(t *testing.T) { t.Parallel(); f.check(t, own) })
	}
	auth := own
	auth.Token, auth.TokenIn, auth.TokenName = profile.TokenAuth, "header", "Authorization"
	for _, f := range []terminalFault{
		{"the operator's token, 401", refusesWith(401, `{}`), opened, unsure, "operator access",
			"does not let this operator"},
		{"the operator's token, 4401", ttyd.sends(4401, ""), opened, unsure, "operator access", "the token was refused"},
	} {
		t.Run(f.name, func(t *testing.T) { t.Parallel(); f.check(t, auth) })
	}
}

func TestFaultsOfExec(t *testing.T) {
	api := wires["kubernetes"]
	status := func(code int, reason, message string) http.HandlerFunc {
		return refusesWith(code, fmt.Sprintf(`{"kind":"Status","status":"Failure","reason":%q,"message":%q,"code":%d}`,
			reason, message, code))
	}
	channel := func(status string) http.HandlerFunc {
		return api.serve(func(ctx context.Context, c *websocket.Conn) {
			_ = c.Write(ctx, websocket.MessageBinary, []byte("\x03"+status))
			_ = c.Close(websocket.StatusNormalClosure, "")
		})
	}
	for _, f := range []terminalFault{
		{"the token", status(401, "Unauthorized", "Unauthorized"), opened, unsure, "operator access",
			"HTTP 401 Unauthorized"},
		{"forbidden", status(403, "Forbidden", `pods "node-1" is forbidden`), opened, unsure, "operator access",
			`pods "node-1" is forbidden`},
		{"no pod", status(404, "NotFound", `pods "node-1" not found`), opened, fail, "app runtime", "not found"},
		{"no container", status(400, "BadRequest", "container main is not valid for pod node-1"), opened, fail, "app runtime",
			"container main is not valid"},
		{"SPDY only", status(400, "BadRequest", "Upgrade request required"), opened, unsure, "", "SPDY"},
		{"no upgrade", refusesWith(200, `{}`), opened, fail, "terminal server", "does not upgrade"},
		{"another subprotocol", wireOf{}.sends(0, ""), opened, fail, "terminal server",
			"v5.channel.k8s.io, v4.channel.k8s.io"},
		{"silence", api.sends(0, ""), opened, fail, "terminal server", "sent nothing"},
		{"the error channel, forbidden", channel(`{"status":"Failure","reason":"Forbidden","message":"no"}`), opened, unsure,
			"operator access", "Forbidden no"},
		{"the error channel, not running", channel(`{"status":"Failure","reason":"InternalError","message":"container not ` +
			`running"}`), opened, fail, "app runtime", "container not running"},
		{"no such program", api.shell("/bin/sh", "-c", "exit 127"), shell, fail, "app runtime", "with exit code 127"},
		{"the shell ends", api.shell("/bin/sh", "-c", "echo bye"), shell, fail, "app runtime", "ended by itself"},
		{"an echo is no shell", api.echo(), shell, fail, "app runtime", "no shell computes"},
		{"a close", api.sends(1011, "stream error"), opened, fail, "terminal server", "error of its own"},
	} {
		t.Run(f.name, func(t *testing.T) { t.Parallel(); f.check(t, execTerminal()) })
	}
}

// TestV4OfExec: an older API speaks v4 alone.
func TestV4OfExec(t *testing.T) {
	api := wires["kubernetes"]
	api.protocols = []string{"v4.channel.k8s.io"}
	asked := make(chan *http.Request, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		api.shell("/bin/sh")(w, r)
	}))
	defer s.Close()
	r := walkTerminal(t, terminalProfile(execTerminal(), s.URL))
	if h := *reading.HopNamed(r.Hops, shell); h.Status != diag.StatusPass {
		t.Fatalf("%s", describe(r))
	}
	got := <-asked
	const want = "/api/v1/namespaces/tenants/pods/node-1/exec?command=%2Fbin%2Fsh&container=main&stderr=1&stdin=1&" +
		"stdout=1&tty=1"
	if got.URL.String() != want || got.Header.Get("Authorization") != "Bearer canary-token" ||
		got.Header.Get("Sec-WebSocket-Protocol") != "v5.channel.k8s.io,v4.channel.k8s.io" {
		t.Errorf("asked %s with %v", got.URL, got.Header)
	}
	for _, f := range r.Facts {
		if f.WS != nil && f.WS.Subprotocol != "v4.channel.k8s.io" {
			t.Errorf("speaks %q", f.WS.Subprotocol)
		}
	}
}

// TestNoTerminal: a platform without terminals has no hop about one.
func TestNoTerminal(t *testing.T) {
	r := walkTerminal(t, terminalProfile(profile.Terminal{Kind: diag.TerminalNone}, "https://term.test"))
	for _, id := range hop.HopsThrough(diag.HopTerminalTokenMint, diag.HopTerminalStartup) {
		h := *reading.HopNamed(r.Hops, id)
		if h.Status != diag.StatusSkipped || !strings.Contains(h.Because, "terminal.kind: none") {
			t.Errorf("%s is %s: %s", id, h.Status, h.Because)
		}
	}
	if len(r.Facts) != 0 {
		t.Errorf("asked %v", r.Facts)
	}
}
