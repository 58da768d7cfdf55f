package net

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/ptmx"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

const terminalProtocol = "gpuaas.terminal.v1"

func wsRequest(op diag.Op, url string, ca kit.Authority) diag.Request {
	return diag.Request{
		Op: op, Target: strings.Replace(url, "https:", "wss:", 1), CAInline: ca.PEM, TimeoutMS: 20_000,
		Header:       map[string]string{"Origin": "https://term.gpuaas.test"},
		Subprotocols: []string{terminalProtocol}, Token: diag.NewSecret(kit.Canary),
	}
}

// refusedUpgrade requests an upgrade only.
func refusedUpgrade(h http.HandlerFunc) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), h)
		return run(t, wsRequest(diag.OpWS, s.URL, ca))
	}
}

// gateway is a handler that upgrades and then calls serve. Its goroutines end with the test's connections.
func gateway(t *testing.T, accept *websocket.AcceptOptions, serve func(context.Context, *websocket.Conn)) http.Handler {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wg.Add(1)
		defer wg.Done()
		c, err := websocket.Accept(w, r, accept)
		if err != nil {
			return
		}
		defer c.CloseNow()
		serve(ctx, c)
	})
}

// terminalOf opens a session at a gateway that behaves like serve.
func terminalOf(serve func(context.Context, *websocket.Conn)) func(t *testing.T) diag.Fact {
	return terminalBy(wsAccept(), serve)
}

// silence is terminalOf for a session that ends by timeout.
func silence(word diag.Failure, phase, name string, serve func(context.Context, *websocket.Conn)) misfortune {
	return late(word, phase, name, func(t *testing.T, ms int64) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		req := wsRequest(diag.OpSession, kit.Site(t, ca.Leaf(t, kit.Leaf{}), gateway(t, wsAccept(), serve)).URL, ca)
		req.TimeoutMS = 2 * ms // two handshakes, and frames
		return run(t, req)
	})
}

// wsAccept is how a healthy gateway upgrades.
func wsAccept() *websocket.AcceptOptions {
	return &websocket.AcceptOptions{Subprotocols: []string{terminalProtocol}, InsecureSkipVerify: true}
}

func terminalBy(accept *websocket.AcceptOptions,
	serve func(context.Context, *websocket.Conn)) func(t *testing.T) diag.Fact {
	return func(t *testing.T) diag.Fact {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), gateway(t, accept, serve))
		return run(t, wsRequest(diag.OpSession, s.URL, ca))
	}
}

// sendTexts sends text frames, and leaves the connection to the peer.
func sendTexts(texts ...string) func(context.Context, *websocket.Conn) {
	return func(ctx context.Context, c *websocket.Conn) {
		for _, text := range texts {
			_ = c.Write(ctx, websocket.MessageText, []byte(text))
		}
		if !strings.Contains(texts[0], "ready") || len(texts) > 1 {
			_ = c.Close(websocket.StatusNormalClosure, "done")
		}
	}
}

// echo is what a PTY without a shell does.
func echo(ctx context.Context, c *websocket.Conn) {
	sendTexts(`{"type":"ready"}`)(ctx, c)
	for {
		_, b, err := c.Read(ctx)
		if err != nil || c.Write(ctx, websocket.MessageBinary, b) != nil {
			return
		}
	}
}

// ttyOf runs a real shell on a real PTY behind the WebSocket.
func ttyOf(argv ...string) func(context.Context, *websocket.Conn) { return ttyIn("", argv...) }

// ttyIn is ttyOf with a home folder.
func ttyIn(home string, argv ...string) func(context.Context, *websocket.Conn) {
	return func(ctx context.Context, c *websocket.Conn) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "PS1=\x1b[32m$ \x1b[0m", "TERM=xterm-256color"}
		if home != "" {
			cmd.Env = append(cmd.Env, "HOME="+home)
		}
		tty, far, err := ptmx.Open()
		if err == nil {
			cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			err = cmd.Start()
			far.Close()
		}
		if err != nil {
			_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"error","code":"pty_failed"}`))
			return
		}
		_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"resize"}`))
		_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"ready"}`))
		var wg sync.WaitGroup
		wg.Go(func() {
			buf := make([]byte, 7) // in odd portions
			for {
				n, err := tty.Read(buf)
				if n > 0 {
					_ = c.Write(ctx, websocket.MessageBinary, buf[:n])
				}
				if err != nil {
					break
				}
			}
			_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"exit"}`))
			_ = c.Close(websocket.StatusNormalClosure, "shell ended")
		})
		for {
			_, r, err := c.Reader(ctx)
			if err != nil {
				break
			}
			_, _ = io.Copy(tty, r)
		}
		tty.Close() // which hangs up
		_ = cmd.Wait()
		wg.Wait()
	}
}

func TestSessionComputesInARealShell(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	f := terminalOf(ttyOf("/bin/sh", "-i"))(t)
	if !f.Passed() {
		t.Fatalf("got %s in %s: %s; %+v %+v", f.Failure, f.Phase, f.Detail, f.WS, f.PTY)
	}
	w, p := f.WS, f.PTY
	if !w.Upgraded || w.Subprotocol != terminalProtocol || w.FirstFrame != "ready" || w.FirstFrameMS == 0 {
		t.Errorf("websocket: %+v", w)
	}
	if !p.NonceOK || p.FirstByteMS == 0 || p.DurationMS == 0 {
		t.Errorf("pty: %+v", p)
	}
	if w.CloseCode != 1000 || w.CloseReason != "shell ended" {
		t.Errorf("the shell's own end was not seen: %d %q", w.CloseCode, w.CloseReason)
	}
	if f.DNS == nil || f.TCP == nil || f.TLS == nil || !f.TLS.Verified || f.HTTP == nil || f.HTTP.Status != 101 {
		t.Errorf("a rung is missing: %+v", f)
	}
}

// TestSessionLeavesNoHistory: a session writes nothing to the tenant's home, whether its shell exits or is hung up, and
// also if the shell keeps lines that begin with a blank and appends each line as it is entered.
func TestSessionLeavesNoHistory(t *testing.T) {
	tier.NeedsHost(t)
	const kept = "PROMPT_COMMAND='history -a'\nHISTCONTROL=\n"
	for name, argv := range map[string][]string{"bash": {"/bin/bash", "--login", "-i"}, "sh": {"/bin/sh", "-l", "-i"}} {
		for _, end := range []string{"exit", "hang-up"} {
			t.Run(name+" "+end, func(t *testing.T) {
				home, ended := t.TempDir(), make(chan struct{})
				for file, text := range map[string]string{".bash_profile": kept, ".bash_history": "earlier\n"} {
					if err := os.WriteFile(filepath.Join(home, file), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				shell := ttyIn(home, argv...)
				ca := kit.NewAuthority(t, "ca")
				req := wsRequest(diag.OpSession, kit.Site(t, ca.Leaf(t, kit.Leaf{}), gateway(t, wsAccept(),
					func(ctx context.Context, c *websocket.Conn) { defer close(ended); shell(ctx, c) })).URL, ca)
				computed := false
				if end == "exit" {
					f := run(t, req)
					computed = f.PTY != nil && f.PTY.NonceOK
				} else {
					ctx, cancel := context.WithCancel(t.Context())
					hold(ctx, req, " :\n", func() { computed = true; cancel() })
				}
				<-ended
				if !computed {
					t.Fatal("no shell computed")
				}
				files, err := os.ReadDir(home)
				if err != nil || len(files) != 2 {
					t.Errorf("the home has %v, %v", files, err)
				}
				if text, err := os.ReadFile(filepath.Join(home, ".bash_history")); err != nil || string(text) != "earlier\n" {
					t.Errorf("the history is %q, %v", text, err)
				}
			})
		}
	}
}

// TestHoldSession: a session is held until the peer ends it, with its code and reason in the fact, or until its time is
// over.
func TestHoldSession(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	hold := func(serve func(context.Context, *websocket.Conn), within int64, opened func()) diag.Fact {
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), gateway(t, wsAccept(), serve))
		req := wsRequest(diag.OpSession, s.URL, ca)
		req.TimeoutMS = within
		return hold(kit.Patient(t), req, "typed-by-the-drill\n", opened)
	}
	typed, opened := make(chan struct{}), false
	f := hold(func(ctx context.Context, c *websocket.Conn) {
		_ = c.Write(ctx, websocket.MessageText, []byte(`{"type":"ready"}`))
		for {
			_, b, err := c.Read(ctx)
			if err != nil {
				return
			}
			var a, d int
			if n, _ := fmt.Sscanf(string(b), " (echo $((%d*%d)))", &a, &d); n == 2 {
				_ = c.Write(ctx, websocket.MessageBinary, fmt.Append(nil, a*d))
			} else if string(b) == "typed-by-the-drill\n" {
				close(typed)
				time.Sleep(50 * time.Millisecond)
				_ = c.Close(4000, "allocation_released")
				return
			}
		}
	}, 60_000, func() { opened = true })
	if f.Passed() {
		<-typed
	}
	if !opened || !f.Passed() || f.WS.CloseCode != 4000 || f.WS.CloseReason != "allocation_released" || !f.PTY.NonceOK {
		t.Errorf("ended by the far side: opened %v, %s %s, %+v", opened, f.Failure, f.Detail, f.WS)
	}
	opened = false
	if f := kit.OutOfTime(func(ms int64) diag.Fact {
		return hold(ttyOf("/bin/sh", "-i"), 3*ms, func() { opened = true })
	}, func(diag.Fact) bool { return opened }); !opened || f.WS.CloseCode != 0 {
		t.Errorf("nobody ended it: opened %v, %+v", opened, f.WS)
	}
	opened = false
	if f := hold(sendTexts(`{"type":"error","code":"user_missing"}`), 60_000, func() { opened = true }); opened ||
		f.Failure != diag.UserMissing {
		t.Errorf("never a shell: opened %v, %s", opened, f.Failure)
	}
}

func TestWebSocketFacts(t *testing.T) {
	kit.NoLeaks(t)
	got := make(chan http.Header, 1)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		kit.Page(403, kit.JSONType, `{"error":{"code":"token_expired","message":"token `+kit.Canary+
			` is over","correlation_id":"c-1"}}`)(w, r)
	}))
	req := wsRequest(diag.OpWS, s.URL, ca)
	req.Header["X-Correlation-Id"] = "c-1"
	f := run(t, req)
	h := <-got
	if h.Get("Origin") != "https://term.gpuaas.test" || h.Get("X-Correlation-Id") != "c-1" ||
		h.Get("Sec-WebSocket-Protocol") != terminalProtocol+",bearer."+kit.Canary {
		t.Errorf("sent %v", h)
	}
	kit.WantFailure(t, f, diag.WSUpgradeRejected)
	if f.WS == nil || f.WS.Upgraded || f.WS.Status != 403 {
		t.Errorf("websocket: %+v", f.WS)
	}
	if f.HTTP == nil || f.HTTP.ErrorCode != "token_expired" || f.HTTP.ErrorMessage != "token "+diag.Redacted+" is over" ||
		f.HTTP.Correlation != "c-1" {
		t.Errorf("evidence: %+v", f.HTTP)
	}
}

func TestCloseCodeAndFrameAreEvidence(t *testing.T) {
	kit.NoLeaks(t)
	f := terminalOf(func(ctx context.Context, c *websocket.Conn) {
		_ = c.Write(ctx, websocket.MessageText,
			[]byte(`{"type":"error","code":"node_stream_timeout","message":"bearer.`+kit.Canary+` had no stream"}`))
		_ = c.Close(4008, "node_stream_timeout")
	})(t)
	kit.WantFailure(t, f, diag.WSClosed)
	w := f.WS
	if w.FirstFrame != "error" || w.FrameCode != "node_stream_timeout" || w.CloseCode != 4008 ||
		w.CloseReason != "node_stream_timeout" {
		t.Errorf("websocket: %+v", w)
	}
	if strings.Contains(w.FrameMessage, kit.Canary) {
		t.Errorf("the message holds the token: %s", w.FrameMessage)
	}
}

func TestBrokenConnectionIs1006(t *testing.T) {
	kit.NoLeaks(t)
	f := terminalOf(func(_ context.Context, c *websocket.Conn) { _ = c.CloseNow() })(t)
	if f.WS.CloseCode != 1006 {
		t.Errorf("close code %d", f.WS.CloseCode)
	}
}

func TestPlainText(t *testing.T) {
	in := "\x1b[?2004h\x1b]0;title 111\x07\x1b[1;32m$ \x1b[0m12\x1b[K34\x1b(B56\r\n\x1bP1$r0m\x1b\\78"
	for size := 1; size <= len(in); size++ {
		var p plainText
		for i := 0; i < len(in); i += size {
			p.write([]byte(in[i:min(i+size, len(in))]))
		}
		if want := "$ 123456\n78"; p.text != want {
			t.Fatalf("in portions of %d: %q, want %q", size, p.text, want)
		}
	}
	var p plainText
	for range 100 {
		p.write([]byte(strings.Repeat("x", 1000)))
	}
	if len(p.text) > maxText {
		t.Errorf("%d bytes are kept", len(p.text))
	}
}
