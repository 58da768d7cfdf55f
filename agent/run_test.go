package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestEnrollsReportsAndWorks(t *testing.T) {
	p := newFakePlatform(t)
	logged := &logtest.Log{}
	cfg := p.config(slog.New(slog.NewTextHandler(logged, nil)))
	stop := start(t, cfg)
	p.task("t1", wire.TaskNoop, wire.NoopPayload{HoldMS: 20})
	if r := p.resultOf("t1"); r.Status != wire.TaskCompleted || r.FinishedAt.Sub(r.StartedAt) < 20*time.Millisecond {
		t.Errorf("result %+v", r)
	}
	if took := stop(); took > 20*time.Second { // the work in progress would take a minute
		t.Errorf("stopping took %v", took)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.enrolled != 1 || len(p.beats) == 0 || p.overlap || len(p.missing) > 0 {
		t.Errorf("enrolled %d times, %d heartbeats, overlapping waits %v, without correlation id %v", p.enrolled,
			len(p.beats), p.overlap, p.missing)
	}
	if b := p.beats[0]; b.CertSerial != p.serials[0] || b.Generation != 3 || b.AgentVersion != "test" || b.BootID == "" {
		t.Errorf("heartbeat %+v", b)
	}
	if fi, err := os.Stat(filepath.Join(cfg.Dir, fileKey)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", fi, err)
	}
	if entries, _ := os.ReadDir(cfg.Dir); len(entries) != 6 { // three links, current, generations, state
		t.Errorf("left behind in the credentials folder: %v", entries)
	}
	for _, want := range []string{"agent starts", "task received", "task finished", "stopped",
		"enrollment_token=present"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, logged)
		}
	}
	if strings.Contains(logged.String(), p.token) {
		t.Error("the log holds the token")
	}
}

// browser plays the terminal gateway: it collects the data of the node stream.
type browser struct {
	conn   *websocket.Conn
	frames chan wire.Frame
	bytes  chan []byte
	seen   string // read and not yet asked for
	closed chan struct{}
}

func (p *fakePlatform) browse() chan *browser {
	opened := make(chan *browser, 1)
	p.terminal = func(ctx context.Context, c *websocket.Conn, _ string) {
		b := &browser{conn: c, frames: make(chan wire.Frame, 16), bytes: make(chan []byte, 1024), closed: make(chan struct{})}
		opened <- b
		defer close(b.closed)
		for {
			kind, data, err := c.Read(ctx)
			if err != nil {
				return
			}
			if kind == websocket.MessageBinary {
				b.bytes <- data
				continue
			}
			var f wire.Frame
			must(p.t, json.Unmarshal(data, &f))
			b.frames <- f
		}
	}
	return opened
}

func (b *browser) frame(t *testing.T) wire.Frame {
	t.Helper()
	select {
	case f := <-b.frames:
		return f
	case <-time.After(30 * time.Second):
		t.Fatal("no frame came")
		return wire.Frame{}
	}
}

// until reads bytes up to want.
func (b *browser) until(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		if _, rest, ok := strings.Cut(b.seen, want); ok {
			b.seen = rest
			return
		}
		select {
		case data := <-b.bytes:
			b.seen += string(data)
		case <-deadline:
			t.Fatalf("no %q in %q", want, b.seen)
		}
	}
}

func (b *browser) typ(t *testing.T, text string) {
	t.Helper()
	must(t, b.conn.Write(t.Context(), websocket.MessageBinary, []byte(text)))
}

func TestTerminal(t *testing.T) {
	testuser.Install(t)
	p := newFakePlatform(t)
	opened := p.browse()
	start(t, p.config(nil))
	p.task("t1", wire.TaskTerminalOpen,
		wire.TerminalOpenPayload{SessionID: "s1", OSUser: testuser.Name, Cols: 100, Rows: 30})
	b := <-opened
	if f := b.frame(t); f.Type != "ready" || f.CorrelationID != "corr-t1" {
		t.Fatalf("first frame %+v", f)
	}
	if r := p.resultOf("t1"); r.Status != wire.TaskCompleted {
		t.Fatalf("result %+v", r)
	}
	b.typ(t, "echo $((6*7))-$USER; stty size\n")
	b.until(t, "42-"+testuser.Name)
	b.until(t, "30 100")
	must(t, b.conn.Write(t.Context(), websocket.MessageText, []byte(`{"type":"resize","cols":70,"rows":20}`)))
	b.typ(t, "stty size\n")
	b.until(t, "20 70")

	p.task("t2", wire.TaskNoop, nil) // the poll loop continues during a session
	if r := p.resultOf("t2"); r.Status != wire.TaskCompleted {
		t.Errorf("result %+v", r)
	}
	b.typ(t, "exit 7\n")
	if f := b.frame(t); f.Type != "exit" || f.ExitCode == nil || *f.ExitCode != 7 {
		t.Errorf("last frame %+v", f)
	}
	<-b.closed
}

func TestTerminalErrorsComeOverTheStream(t *testing.T) {
	testuser.Install(t)
	p := newFakePlatform(t)
	opened := p.browse()
	cfg := p.config(nil)
	rec := newDecisions()
	cfg.Recorder = rec
	start(t, cfg)
	p.task("t1", wire.TaskTerminalOpen, wire.TerminalOpenPayload{SessionID: "s1", OSUser: "nobody-of-this-name"})
	b := <-opened
	if f := b.frame(t); f.Type != "error" || f.Code != wire.CodeUserMissing {
		t.Errorf("frame %+v", f)
	}
	<-b.closed
	if r := p.resultOf("t1"); r.Status != wire.TaskFailed || r.Error.Code != wire.CodeUserMissing {
		t.Errorf("result %+v", r)
	}
	rec.await(t, func(d Decision) bool { return d.Reason == diag.RecTerminalPTYFailed && d.Correlation == "corr-t1" })
}

func TestTerminalWithoutGateway(t *testing.T) {
	p := newFakePlatform(t)
	p.instead("GET "+wire.PathNodeTerminal, func(w http.ResponseWriter, _ *http.Request) {
		deny(w, 404, wire.CodeSessionNotFound)
	})
	start(t, p.config(nil))
	p.task("t1", wire.TaskTerminalOpen, wire.TerminalOpenPayload{SessionID: "s1", OSUser: testuser.Name})
	if r := p.resultOf("t1"); r.Status != wire.TaskFailed || r.Error.Code != wire.CodeSessionNotFound {
		t.Errorf("result %+v %+v", r, r.Error)
	}
}

// TestTheChallengeGoesWithEveryRequest: task waits, results and node streams show the newest challenge; an
// enrollment, which may go to a public edge, does not, and a challenge that is not valid in a header is not sent.
func TestTheChallengeGoesWithEveryRequest(t *testing.T) {
	p := newFakePlatform(t)
	cfg := p.config(slog.New(slog.DiscardHandler)).withDefaults()
	a := newAPI(cfg, credentialsIn(cfg.Dir), "host-a")
	defer a.close()
	given := "0123abcd"
	defer p.instead("POST "+wire.PathHeartbeat, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(wire.HeartbeatResponse{Time: time.Now(), Challenge: given, EchoNow: true})
	})()
	for _, given = range []string{"0123abcd", "two\nlines", strings.Repeat("x", maxChallenge+1), ""} {
		if o, _, _ := a.heartbeat(t.Context(), wire.HeartbeatRequest{}); !o.OK() {
			t.Fatalf("heartbeat: %+v", o)
		}
		h := http.Header{}
		if a.identify(h); h.Get(wire.HeaderChallenge) != "0123abcd" || h.Get(wire.HeaderNodeInstance) != "host-a" {
			t.Errorf("after the challenge %q: %v", given, h)
		}
	}
	h := http.Header{}
	bare := bareAPI(cfg, credentialsIn(cfg.Dir), "host-a", false)
	if bare.identify(h); h.Get(wire.HeaderChallenge) != "" {
		t.Errorf("an enrollment shows it: %v", h)
	}
}
