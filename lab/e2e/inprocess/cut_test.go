//go:build linux

package inprocess

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/profile"
)

// shellOf makes a login whose bash reads profile when it starts. What it writes to ~/typed comes out of typed.
func shellOf(t testing.TB, rc string) (name string, typed *os.File) {
	t.Helper()
	home, err := os.MkdirTemp("", "cut-home-")
	if err != nil {
		t.Fatal(err)
	}
	name = "u" + strconv.FormatInt(time.Now().UnixNano()%1e12, 36)
	uid := os.Getuid()
	if uid == 0 { // limits on processes do not apply to root
		uid = 47000 + os.Getpid()%1000
	}
	entry := filepath.Join(unitsDir(), "user."+name)
	t.Cleanup(func() { _, _ = os.Remove(entry), os.RemoveAll(home) })
	write(t, filepath.Join(home, ".bash_profile"), rc+"\n")
	fifo := filepath.Join(home, "typed")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if typed, err = os.OpenFile(fifo, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = typed.Close() })
	write(t, entry, fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash\n", name, uid, uid, home))
	for _, err := range []error{
		os.Chmod(home, 0o755), os.Chmod(filepath.Join(home, ".bash_profile"), 0o644), os.Chmod(entry, 0o644),
		os.Chmod(fifo, 0o666),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return name, typed
}

// Profiles of shells: lazy is ready at once and takes six seconds for every line, which it notes in its home before;
// late prints nothing for that long. The cuts come sooner.
const (
	lazy = "PS1='lazy> '; set -T; trap 'echo >>~/typed; sleep 6' DEBUG"
	late = "sleep 6; PS1='late> '"
)

// silentFor is the budget of a session that gets no answer: longer than a busy machine needs to open one, and than
// the late shell.
const silentFor = 12 * time.Second

// silent shortens the wait for a session without an answer.
func silent(k cutCase) cutCase {
	k.options.profile = func(p *profile.Profile) { p.Budgets[diag.HopBrowserTerminalWS] = silentFor }
	return k
}

// cutCase is a session that is cut, and the expected blame.
type cutCase struct {
	name    string
	profile string
	options options
	do      func(t *testing.T, w *world) // before the walk
	during  func(t *testing.T, w *world) // once the terminal is open, and the walk has done the steps of after
	after   []string
	typed   bool // during waits until the lazy shell has the walk's line

	hop    diag.HopID
	signal diag.Signal
	owner  string
	says   []string     // in the blame's text
	step   string       // in the next steps
	loose  []diag.HopID // may fail beside it
}

func (k cutCase) run(t *testing.T) {
	t.Parallel()
	o := k.options
	o.process = o.back != nil // whose connections are not this process's, see relay.streaming
	var typed *os.File
	o.osUser, typed = shellOf(t, k.profile)
	w := start(t, o)
	if k.do != nil {
		k.do(t, w)
	}
	seen := make(chan string, 1)
	w.platform.TerminalEdge.Watch(func(r *http.Request) {
		_, session, ok := strings.Cut(r.URL.Path, "/v1/terminal/")
		if !ok {
			return
		}
		if o.front != nil {
			o.front.arm()
		}
		select {
		case seen <- session:
		default:
		}
	})
	j, left := w.prepare(t), len(k.after)
	steps := make(chan struct{})
	j.observe = func(ev walk.Event) {
		if ev.Kind == walk.StepDone && slices.Contains(k.after, string(ev.Hop)+"/"+ev.Step.Name) {
			if left--; left == 0 {
				close(steps)
			}
		}
	}
	if left == 0 {
		close(steps)
	}
	ctx, walked := context.WithCancel(t.Context())
	done := make(chan struct{})
	defer func() { <-done }()
	defer walked()
	go func() {
		defer close(done)
		select {
		case session := <-seen:
			if !w.awaitStream(ctx, session, k.profile == lazy) {
				return
			}
			select {
			case <-steps:
			case <-ctx.Done():
				return
			}
			o.front.streaming(t.Context())
			o.back.streaming(t.Context())
			if k.typed && !comes(ctx, typed) {
				return
			}
			if k.during != nil {
				k.during(t, w)
			}
		case <-ctx.Done():
		}
	}()
	r := j.walk(t)
	k.check(t, r)
	if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
		t.Errorf("replay: %v", err)
	}
}

// comes returns when something can be read from the file; false if ctx ends first.
func comes(ctx context.Context, file *os.File) bool {
	defer context.AfterFunc(ctx, func() { _ = file.Close() })()
	_, err := file.Read(make([]byte, 1))
	return err == nil
}

// awaitStream returns once the platform has the node's stream of a session, and its terminal if that shall be open;
// false if the walk ends first.
func (w *world) awaitStream(ctx context.Context, session string, open bool) bool {
	return await(ctx, walkLimit, func() bool {
		var s struct {
			Stream diag.Time `json:"node_stream_connected_at"`
			PTY    diag.Time `json:"pty_ready_at"`
		}
		w.platform.Do(http.MethodGet, "/v1/admin/terminal/sessions/"+session, nil, &s)
		return !s.Stream.IsZero() && (!open || !s.PTY.IsZero())
	})
}

func (k cutCase) check(t *testing.T, r *diag.Report) {
	t.Helper()
	v := r.Verdict
	if v.Blame == nil {
		t.Fatalf("nobody is blamed\n%s", describe(r))
	}
	if v.Blame.Hop != k.hop || v.Blame.Signal != k.signal || v.Owner != k.owner {
		t.Errorf("%s %s, owner %s; want %s %s, owner %s", v.Blame.Hop, v.Blame.Signal, v.Owner, k.hop, k.signal, k.owner)
	}
	for _, words := range k.says {
		if !strings.Contains(v.Blame.Text, words) {
			t.Errorf("no %q in %q", words, v.Blame.Text)
		}
	}
	if k.step != "" && !slices.ContainsFunc(v.Recovery, func(s string) bool { return strings.Contains(s, k.step) }) {
		t.Errorf("no %q in the steps %q", k.step, v.Recovery)
	}
	for _, o := range v.OtherFindings {
		if !slices.Contains(k.loose, o.Hop) {
			t.Errorf("also blamed: %s: %s", o.Hop, o.Text)
		}
	}
	if h := resultOf(t, r, diag.HopTerminalStartup); k.hop != diag.HopTerminalStartup &&
		h.Status != diag.StatusInconclusive {
		t.Errorf("the shell, which nobody could judge, is %s: %s", h.Status, h.Text)
	}
	t.Logf("%s: %s (%s)", v.Blame.Hop, v.Blame.Text, v.Owner)
	if t.Failed() {
		t.Logf("\n%s", describe(r))
		for _, f := range r.Facts {
			if f.ID == "browser_terminal_ws/session" {
				t.Logf("%+v %+v", *f.WS, f.PTY)
			}
			if f.ID == "terminal_open_task/session" {
				t.Logf("%v; because %v", f.HTTP.Fields, r.Classification.Because)
			}
		}
	}
}

const (
	edgeOwner    = "edge and route profile"
	gatewayOwner = "terminal gateway"
	wayOwner     = "node-facing terminal endpoint"
	agentOwner   = "node runtime"
	shellOwner   = "node runtime, allocation user setup"
)

// TestCutInFront: a cut between browser and gateway is blamed on its cause, whatever the shell was doing. Two rows show
// what is left of a connection that goes silent; the others of that kind are in package preflight, in virtual time.
func TestCutInFront(t *testing.T) {
	t.Parallel()
	front := func(name string, r *relay, profile string, says ...string) cutCase {
		return cutCase{name: name, profile: profile, options: options{front: r}, hop: diag.HopBrowserTerminalWS,
			signal: diag.SigStreamCut, owner: edgeOwner, says: says, step: "idle time-outs"}
	}
	cases := []cutCase{
		front("idle time-out of 1 s, shell late", &relay{idle: time.Second}, late, "without a close frame after",
			"lost the browser"),
		front("idle time-out of 1 s, shell lazy", &relay{idle: time.Second}, lazy, "without a close frame",
			"lost the browser"),
		front("reset under a late shell", &relay{age: 1500 * time.Millisecond, how: rst}, late, "was reset"),
		silent(front("hole under a lazy shell", &relay{age: 1500 * time.Millisecond, how: hole}, lazy,
			"no ping over it is answered")),
		silent(front("deaf under a late shell", &relay{age: time.Second, how: deaf}, late, "no ping over it is answered")),
	}
	for _, n := range []int{300, 400} {
		for how, name := range map[cutting]string{fin: "end", rst: "reset"} {
			cases = append(cases, front(fmt.Sprintf("%s after %d bytes", name, n), &relay{bytes: n, how: how}, lazy))
		}
	}
	for _, code := range []websocket.StatusCode{1000, 1001, 1009, 1011, 1012, 1013, 3000, 4000, 4408, 4502, 4999} {
		k := front(fmt.Sprintf("an edge that closes with %d", code), nil, lazy,
			fmt.Sprintf("closed with %d by the edge", code))
		k.do = func(t *testing.T, w *world) {
			meddle(w, func(ctx context.Context, c *websocket.Conn) { _ = c.Close(code, "by the edge") })
		}
		cases = append(cases, k)
	}
	for _, k := range cases {
		t.Run(k.name, k.run)
	}
}

// meddle makes the terminal's edge speak WebSocket itself: it relays frames from the gateway until half a second
// after the first one, then runs cut on the browser's side, and leaves the gateway without a close frame.
func meddle(w *world, cut func(context.Context, *websocket.Conn)) {
	const inner = "X-Inner"
	w.platform.TerminalEdge.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get(inner) != "" || !strings.Contains(r.URL.Path, "/v1/terminal/") {
			return false
		}
		ctx := r.Context()
		header := http.Header{inner: {"1"}, "Origin": r.Header["Origin"]}
		back, _, err := websocket.Dial(ctx, w.platform.TerminalEdge.URL+r.URL.Path, &websocket.DialOptions{
			HTTPClient: w.platform.Client(), HTTPHeader: header, Host: r.Host,
			Subprotocols: strings.Split(r.Header.Get("Sec-WebSocket-Protocol"), ","),
		})
		if err != nil {
			rw.WriteHeader(http.StatusBadGateway)
			return true
		}
		defer back.CloseNow()
		browser, err := websocket.Accept(rw, r,
			&websocket.AcceptOptions{Subprotocols: []string{back.Subprotocol()}, OriginPatterns: []string{"*"}})
		if err != nil {
			return true
		}
		defer browser.CloseNow()
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		for {
			kind, data, err := back.Read(short)
			if err != nil {
				break
			}
			_ = browser.Write(ctx, kind, data)
			time.AfterFunc(500*time.Millisecond, cancel)
		}
		cut(context.Background(), browser)
		return true
	})
}

// TestCutBehind: cuts between gateway and node, and by the agent.
func TestCutBehind(t *testing.T) {
	t.Parallel()
	back := func(name string, r *relay, profile string, says ...string) cutCase {
		return cutCase{name: name, profile: profile, options: options{back: r}, hop: diag.HopGatewayNodeStream,
			signal: diag.SigStreamCut, owner: wayOwner, says: says, step: "firewall"}
	}
	const soon = 1200 * time.Millisecond
	for _, k := range []cutCase{
		back("end under a late shell", &relay{age: soon}, late, "without a close frame", "kept running"),
		back("end under a lazy shell", &relay{age: soon}, lazy, "without a close frame", "kept running"),
		back("reset under a late shell", &relay{age: soon, how: rst}, late, "reset"),
		back("reset under a lazy shell", &relay{age: soon, how: rst}, lazy, "reset"),
		silent(back("hole under a lazy shell", &relay{age: soon, how: hole}, lazy, "only the node does not answer")),
		back("hole under a late shell", &relay{age: soon, how: hole}, late, "lost on the path"),
		back("idle time-out of 1 s, shell lazy", &relay{idle: time.Second}, lazy, "without a close frame"),
		{
			name: "agent stopped", profile: lazy, typed: true, during: func(_ *testing.T, w *world) { w.stop() },
			hop: diag.HopGatewayNodeStream, signal: diag.SigStreamCut, owner: agentOwner,
			says: []string{"the agent closed it with 1001 agent_stopping"},
		},
		{
			name: "agent replaced", profile: lazy, options: options{back: &relay{age: soon}},
			after: []string{"node_readiness/process"},
			during: func(t *testing.T, w *world) {
				w.agent.pid = os.Getpid()
				w.agent.run(t, "active/running")
			},
			hop: diag.HopGatewayNodeStream, signal: diag.SigStreamCut, owner: agentOwner, says: []string{"was replaced by"},
			step: "whether it was killed",
		},
		{
			name: "gateway stopped", profile: lazy, typed: true, during: func(t *testing.T, w *world) {
				if err := w.platform.Stop(); err != nil {
					t.Error(err)
				}
			},
			hop: diag.HopBrowserTerminalWS, signal: diag.SigStreamCut, owner: gatewayOwner, says: []string{"gateway_shutdown"},
			after: []string{"node_recovery_status/task_wait", "node_terminal_reachability/stream"},
			step:  "gateway ended it", loose: []diag.HopID{ // the rest of the platform stopped with it
				diag.HopTerminalOpenTask, diag.HopNodeTerminalReachability, diag.HopAppUserRoute,
			},
		},
	} {
		t.Run(k.name, k.run)
	}
}

// TestShellFails: if nothing was cut, the shell is blamed, with its output.
func TestShellFails(t *testing.T) {
	t.Parallel()
	shell := func(name, profile string, says ...string) cutCase {
		return cutCase{name: name, profile: profile, hop: diag.HopTerminalStartup, signal: diag.SigPTYFailed,
			owner: shellOwner, says: says, step: "the agent's terminal log"}
	}
	for _, k := range []cutCase{
		silent(shell("cannot fork", "ulimit -u 1; PS1='few> '", "computes nothing", "fork",
			"Resource temporarily unavailable")),
		shell("killed", `printf 'hello\n$ '; read -r typed; kill -9 $$`, "ended by itself with code 137", "hello"),
		shell("ends with a code", `printf '\033[31mno licence\033[0m for Bearer canary-secret-1\n'; sleep 0.3; exit 42`,
			"with code 42", "no licence"),
		shell("ends at once", "echo not today; exit 7", "code 7", "not today"),
		silent(shell("swallows its input", "printf '> '; exec sleep 60", "computes nothing")),
	} {
		t.Run(k.name, k.run)
	}
}

// TestSlowIsHealthy: a slow or verbose component is not blamed.
func TestSlowIsHealthy(t *testing.T) {
	t.Parallel()
	far := func() *relay { return &relay{delay: 150 * time.Millisecond} }
	for name, tc := range map[string]struct {
		profile string
		options options
	}{
		"late shell":           {profile: late},
		"round trip of 300 ms": {profile: "PS1='far> '", options: options{front: far(), back: far()}},
		"late and far":         {profile: late, options: options{front: far(), back: far()}},
		"chatty motd": {
			profile: `for i in $(seq 4000); do printf '\033[3%dm* line %d of the message of the day\033[0m\n' $((i%8)) $i; done`,
		},
		"talks for ever":         {profile: "(while sleep 0.02 && test -e ~; do echo tick tick; done) & PS1='ticking> '"},
		"title, colours, prompt": {profile: `PS1='\[\033]0;\u@\h\007\]\[\033[32m\]\u\[\033[0m\]\$ '`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tc.options
			o.osUser, _ = shellOf(t, tc.profile)
			w := start(t, o)
			if r := w.walk(t); r.Verdict.Outcome != diag.OutcomePass {
				t.Errorf("%s", describe(r))
			}
		})
	}
}
