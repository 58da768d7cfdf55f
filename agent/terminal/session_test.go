package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// gateway is the far end of a node stream.
type gateway struct {
	conn   chan *websocket.Conn
	server *httptest.Server
}

func newGateway(t *testing.T) *gateway {
	tier.NeedsHost(t)
	g := &gateway{conn: make(chan *websocket.Conn, 1)}
	hold := make(chan struct{})
	g.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		g.conn <- c
		<-hold
		_ = c.CloseNow()
	}))
	t.Cleanup(func() { close(hold); g.server.Close() })
	return g
}

func (g *gateway) options(t *testing.T) Options {
	t.Helper()
	testuser.Install(t)
	transport := &http.Transport{DisableKeepAlives: true}
	return Options{URL: g.server.URL, Transport: transport, Correlation: "corr", User: testuser.Name}
}

// open starts a session and runs it in the background.
func open(t *testing.T, ctx context.Context) (*websocket.Conn, <-chan End) {
	t.Helper()
	g := newGateway(t)
	s, err := Open(ctx, g.options(t))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan End, 1)
	go func() { ended <- s.Run(ctx) }()
	return <-g.conn, ended
}

// frame reads up to the next text frame and returns the bytes before it.
func frame(t *testing.T, c *websocket.Conn) (wire.Frame, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var text strings.Builder
	for {
		kind, data, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("no frame after %q: %v", text.String(), err)
		}
		if kind == websocket.MessageBinary {
			text.Write(data)
			continue
		}
		var f wire.Frame
		if err := json.Unmarshal(data, &f); err != nil {
			t.Fatal(err)
		}
		return f, text.String()
	}
}

func typed(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageBinary, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func ends(t *testing.T, ended <-chan End) End {
	t.Helper()
	select {
	case end := <-ended:
		return end
	case <-time.After(20 * time.Second):
		t.Fatal("the session does not end")
		return End{}
	}
}

// TestExitWhileAChildHoldsTheTerminal: the session ends with the shell, not with its background children.
func TestExitWhileAChildHoldsTheTerminal(t *testing.T) {
	c, ended := open(t, t.Context())
	if f, _ := frame(t, c); f.Type != "ready" {
		t.Fatalf("frame %+v", f)
	}
	typed(t, c, "(trap '' HUP; sleep 40) & echo last-$((40+2)); exit 5\n")
	f, text := frame(t, c)
	if f.Type != "exit" || f.ExitCode == nil || *f.ExitCode != 5 || !strings.Contains(text, "last-42") {
		t.Errorf("frame %+v after %q", f, text)
	}
	if end := ends(t, ended); end.Why != "shell_exited" || end.ExitCode != 5 {
		t.Errorf("end %+v", end)
	}
}

func TestStreamCloseEndsTheShell(t *testing.T) {
	c, ended := open(t, t.Context())
	frame(t, c)
	_ = c.CloseNow()
	if end := ends(t, ended); end.Why != "stream_closed" {
		t.Errorf("end %+v", end)
	}
}

func TestStopEndsTheSession(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, ended := open(t, ctx)
	frame(t, c)
	cancel()
	if _, _, err := c.Read(t.Context()); err == nil {
		for err == nil {
			_, _, err = c.Read(t.Context())
		}
		if websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("the stream ended with %v", err)
		}
	}
	if end := ends(t, ended); end.Why != "agent_stopping" {
		t.Errorf("end %+v", end)
	}
}

// TestMuchOutput transfers a few megabytes without losing a byte.
func TestMuchOutput(t *testing.T) {
	c, ended := open(t, t.Context())
	frame(t, c)
	typed(t, c, "stty -opost; head -c 3000000 /dev/zero | tr '\\0' x; echo; exit\n")
	c.SetReadLimit(1 << 20)
	f, text := frame(t, c)
	if n := strings.Count(text, "x"); f.Type != "exit" || n < 3_000_000 {
		t.Errorf("%d bytes before %+v", n, f)
	}
	ends(t, ended)
}

func TestNoGateway(t *testing.T) {
	tier.NeedsHost(t)
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		code   string
		status int
	}{
		"typed": {code: wire.CodeSessionNotFound, status: 404, answer: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			_, _ = w.Write([]byte(`{"error":{"code":"session_not_found","message":"no such session"}}`))
		}},
		"a page": {code: CodeStreamFailed, status: 502, answer: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
		}},
		"silence": {code: wire.CodeNodeStreamTimeout, answer: func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.answer)
			defer server.Close()
			g := &gateway{server: server}
			patience := 30 * time.Second
			if tc.status == 0 { // nothing comes
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := Open(ctx, g.options(t))
			e, ok := err.(*Error)
			if !ok || e.Code != tc.code || !e.Stream || e.Status != tc.status {
				t.Errorf("error %+v", err)
			}
		})
	}
}

// TestADecisionHasItsOwnCode: a decision during the lookup of the login is not reported as a failure of the
// terminal.
func TestADecisionHasItsOwnCode(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	c, failed := openSlowly(t, ctx, "exec sleep 60", func() { end(Decided(wire.EndAllocationReleased)) })
	if e, ok := (<-failed).(*Error); !ok || e.Code != wire.EndAllocationReleased {
		t.Errorf("error %+v", e)
	}
	if f, _ := frame(t, c); f.Type != "error" || f.Code != wire.EndAllocationReleased {
		t.Errorf("frame %+v", f)
	}
}

// TestAStopIsNoFailureOfUserOrShell: an agent that stops while it opens a terminal closes the stream as it closes an
// open session, and sends no error frame. systemd signals the agent's programs together with the agent, so a look-up
// may die before the agent's context is canceled.
func TestAStopIsNoFailureOfUserOrShell(t *testing.T) {
	for name, tc := range map[string]struct {
		getent string
		late   time.Duration // of the cancellation
	}{
		"the context first": {"exec sleep 60", 0},
		"a program first":   {"kill -TERM $$", stopNotice / 10},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			c, failed := openSlowly(t, ctx, tc.getent, func() { time.AfterFunc(tc.late, stop) })
			if e, ok := (<-failed).(*Error); !ok || e.Code != wire.CodeAgentStopping {
				t.Errorf("error %+v", e)
			}
			_, data, err := c.Read(t.Context())
			var closed websocket.CloseError
			if !errors.As(err, &closed) || closed.Code != websocket.StatusGoingAway ||
				closed.Reason != wire.CodeAgentStopping {
				t.Errorf("the stream has %q, then %v", data, err)
			}
		})
	}
}

// TestAStopThatKillsTheShellFirst: a session whose shell dies by the stop ends by the stop, and sends no exit frame.
func TestAStopThatKillsTheShellFirst(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c, ended := open(t, ctx)
	frame(t, c)
	time.AfterFunc(stopNotice/10, stop)
	typed(t, c, "kill -KILL $$\n")
	for {
		kind, data, err := c.Read(t.Context())
		if kind == websocket.MessageText && err == nil {
			t.Errorf("frame %s", data)
		}
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("the stream ended with %v", err)
			}
			break
		}
	}
	if end := ends(t, ended); end.Why != wire.CodeAgentStopping {
		t.Errorf("end %+v", end)
	}
}

// openSlowly opens a terminal whose look-up runs a shell script instead of getent, and calls looked once that runs.
func openSlowly(t *testing.T, ctx context.Context, getent string, looked func()) (*websocket.Conn, <-chan error) {
	t.Helper()
	g := newGateway(t)
	o := g.options(t)
	bin := t.TempDir()
	asked := filepath.Join(bin, "asked")
	script := "#!/bin/sh\n: >" + asked + "\n" + getent + "\n"
	if err := os.WriteFile(filepath.Join(bin, "getent"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	failed := make(chan error, 1)
	go func() {
		_, err := Open(ctx, o)
		failed <- err
	}()
	c := <-g.conn
	wait.For(t, "the login is looked up", func() bool {
		_, err := os.Stat(asked)
		return err == nil
	})
	looked()
	return c, failed
}

// TestErrorDoesNotWaitForTheGateway: the task's result must not depend on a gateway that does not answer a close.
func TestErrorDoesNotWaitForTheGateway(t *testing.T) {
	g := newGateway(t)
	o := g.options(t)
	o.User = "no-such-user-here"
	began := time.Now()
	_, err := Open(t.Context(), o)
	if took := time.Since(began); took > 40*closeTimeout { // the gateway would wait for ever
		t.Errorf("took %v", took)
	}
	if e, ok := err.(*Error); !ok || e.Code != wire.CodeUserMissing || e.Stream {
		t.Errorf("error %v", err)
	}
	if f, _ := frame(t, <-g.conn); f.Type != "error" || f.Code != wire.CodeUserMissing || f.CorrelationID != "corr" {
		t.Errorf("frame %+v", f)
	}
}
