package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// Tests of the host side run Serve over pipes in memory, as the node vantage runs it over SSH.

// serving starts Serve and a client for it; both end with the test, without leaks.
func serving(t *testing.T, cfg Config) *Client {
	t.Helper()
	reqR, reqW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(measure.WithPatience(context.Background(), 20), reqR, outW, cfg)
		outW.Close()
	}()
	c := NewClient(outR, reqW)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
		select {
		case <-done: // the error of a server that was disconnected does not matter
		case <-time.After(30 * time.Second):
			t.Error("Serve did not end with its input")
		}
		leaktest.None(t)
	})
	return c
}

func TestHello(t *testing.T) {
	c := serving(t, Config{Version: "1.2.3"})
	h, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != "1.2.3" || h.PID != os.Getpid() || h.UID != os.Getuid() || h.AgentPID != 0 || h.Now.IsZero() ||
		h.BootID != host.This.BootID() {
		t.Errorf("hello = %+v", h)
	}
}

func TestAnswersInOrderUnderTheCallersIDs(t *testing.T) {
	c := serving(t, Config{})
	path := kit.TempFile(t, "x")
	var reqs []diag.Request
	for i := range 200 {
		target := path
		if i%2 == 1 {
			target = fmt.Sprintf("%s-%d", path, i)
		}
		reqs = append(reqs, diag.Request{ID: "same", Op: diag.OpFile, Target: target})
	}
	facts := c.Probe(t.Context(), reqs)
	for i, f := range facts {
		want := diag.OK
		if i%2 == 1 {
			want = diag.FileMissing
		}
		if f.ID != "same" || f.Vantage != VantageNode || f.Request.Target != reqs[i].Target || f.Failure != want ||
			f.DurationMS < 1 {
			t.Fatalf("fact %d = %+v", i, f)
		}
	}
	if facts[0].AgentView != ViewNoProcess {
		t.Errorf("agent view = %q, want %q", facts[0].AgentView, ViewNoProcess)
	}
	host := c.Probe(t.Context(), []diag.Request{{Op: diag.OpFile, Target: path, View: diag.ViewHost}})[0]
	if host.AgentView != "" {
		t.Errorf("a plain look says of the agent's view %q", host.AgentView)
	}
}

func TestSecretsAreNeverSent(t *testing.T) {
	var sent strings.Builder
	outR, outW := io.Pipe()
	defer outW.Close()
	c := NewClient(outR, &sent)
	defer c.Close()
	for _, req := range []diag.Request{
		{Op: diag.OpHTTP, Token: diag.NewSecret("hunter2")},
		{Op: diag.OpHTTP, Cookie: diag.NewSecret("hunter2")},
	} {
		f := c.Probe(t.Context(), []diag.Request{req})[0]
		if f.Failure != diag.Unsupported || sent.Len() > 0 {
			t.Errorf("%+v; sent %q", f, sent.String())
		}
	}
}

func TestSecretsAreNeverUsedOnANode(t *testing.T) {
	out := converse(t, `{"id":"1","op":"http","target":"http://127.0.0.1:1/","token":"hunter2"}`)
	if f := out["1"]; f.Failure != diag.Unsupported {
		t.Errorf("%+v", f)
	}
}

func TestMalformedLines(t *testing.T) {
	path := kit.TempFile(t, "x")
	out := converse(t,
		`not json`,
		``,
		`{"id":"unknown-input","op":"file","target":"/x","colour":"red"}`,
		`{"id":"no-op"}`,
		`{"id":"two","op":"clock"} {"id":"three","op":"clock"}`,
		`{"id":"long","op":"file","target":"`+strings.Repeat("x", MaxLine)+`"}`,
		`{"id":"no-such-op","op":"fly"}`,
		`{"id":"good","op":"file","target":"`+path+`"}`,
	)
	for _, id := range []string{"unknown-input", "no-op"} {
		if out[id].Detail == "" {
			t.Errorf("%s: no error line", id)
		}
	}
	if out["no-such-op"].Failure != diag.Unsupported {
		t.Errorf("an unknown op: %+v", out["no-such-op"])
	}
	if good := out["good"]; good.Failure != diag.OK || good.File == nil {
		t.Errorf("the good request after bad ones: %+v", good)
	}
	if n := len(out[""].Detail); n == 0 {
		t.Error("lines without an id got no error line")
	}
}

// converse sends lines to a new Serve and waits for as many lines back; error lines become a fact with Detail.
func converse(t *testing.T, lines ...string) map[string]diag.Fact {
	t.Helper()
	defer leaktest.None(t)
	reqR, reqW := io.Pipe()
	outR, outW := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := Serve(context.Background(), reqR, outW, Config{}); err != nil {
			t.Errorf("Serve: %v", err)
		}
		outW.Close()
	})
	want := 0
	for _, l := range lines {
		if l != "" {
			want++
		}
	}
	wg.Go(func() {
		for _, l := range lines {
			io.WriteString(reqW, l+"\n")
		}
	})
	got := map[string]diag.Fact{}
	r := bufio.NewReader(outR)
	for i := range want + 1 { // and the hello
		line, err := readLine(r)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		var o outLine
		var f diag.Fact
		if err := errors.Join(json.Unmarshal(line, &o), json.Unmarshal(line, &f)); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if o.Error != "" {
			f = diag.Fact{Detail: o.Error}
		}
		got[o.ID] = f
	}
	reqW.Close()
	wg.Wait()
	return got
}

func TestServeEndsWithItsContext(t *testing.T) {
	defer leaktest.None(t)
	in, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer held.Close() // nothing is written, so a read would hang
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := Serve(ctx, in, io.Discard, Config{}); err != nil {
		t.Error(err)
	}
}

// silent returns a client whose peer sends a hello and then discards everything.
func silent(t *testing.T) (c *Client, hangUp func()) {
	t.Helper()
	outR, outW := io.Pipe()
	c = NewClient(outR, io.Discard)
	if _, err := io.WriteString(outW,
		"Welcome to Debian\n\n{\"hello\":{\"version\":\"x\",\"now\":\"2026-01-01T00:00:00Z\"}}\n"); err != nil {
		t.Fatal(err)
	}
	if h, err := c.Hello(t.Context()); err != nil || h.Version != "x" {
		t.Fatalf("hello after a greeting of the login's own: %+v, %v", h, err)
	}
	t.Cleanup(func() { c.Close(); leaktest.None(t) })
	return c, func() { outW.Close() }
}

func TestProbeEndsWithItsContext(t *testing.T) {
	c, _ := silent(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if f := c.Probe(ctx, []diag.Request{{ID: "a", Op: diag.OpClock}})[0]; f.Failure != diag.Timeout || f.ID != "a" {
		t.Errorf("past the deadline: %+v", f)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if f := c.Probe(ctx, []diag.Request{{Op: diag.OpClock}})[0]; f.Failure != diag.Cancelled {
		t.Errorf("cancelled: %+v", f)
	}
}

func TestProbeEndsWithTheTransport(t *testing.T) {
	c, hangUp := silent(t)
	time.AfterFunc(20*time.Millisecond, hangUp)
	for range 2 { // under way, and begun afterwards
		for _, f := range c.Probe(t.Context(), make([]diag.Request, 3)) {
			if f.Failure != diag.SSHTransport || f.Phase != "ssh" {
				t.Errorf("%+v", f)
			}
		}
	}
}

func TestNoHello(t *testing.T) {
	defer leaktest.None(t)
	c := NewClient(strings.NewReader("bash: gpuaas-agent: command not found\n"), io.Discard)
	if _, err := c.Hello(t.Context()); err == nil || !strings.Contains(err.Error(), "before its greeting") {
		t.Errorf("err = %v", err)
	}
	c.Close()
	c = NewClient(strings.NewReader(strings.Repeat("noise\n", 100)), io.Discard)
	if _, err := c.Hello(t.Context()); err == nil || !strings.Contains(err.Error(), "noise") {
		t.Errorf("err = %v", err)
	}
	c.Close()
}

// inServer returns a server value whose internals a test can replace.
func inServer() *server {
	s := &server{start: time.Now(), slots: make(chan struct{}, serveConcurrency), out: io.Discard,
		running: map[string]context.CancelFunc{}}
	s.agent = &agentContext{prober: &Prober{Vantage: VantageNode}, view: ViewNoProcess, found: time.Now().Add(time.Hour)}
	return s
}

func TestAPanicIsAFact(t *testing.T) {
	s := inServer()
	boom := func(context.Context, diag.Request, *diag.Fact) { panic("boom, token=" + kit.Canary) }
	f := s.guarded(t.Context(), diag.Request{ID: "p"}, func(ctx context.Context) diag.Fact {
		return s.agent.prober.measure(ctx, diag.Request{}, boom)
	})
	if f.Failure != diag.Unknown || f.ID != "p" || !strings.HasSuffix(f.Detail, "boom, token="+diag.Redacted) {
		t.Errorf("%+v", f)
	}
}

func TestAHangIsAFact(t *testing.T) {
	defer leaktest.None(t)
	s := inServer()
	free := make(chan struct{})
	defer close(free)
	f := s.guarded(t.Context(), diag.Request{ID: "h", TimeoutMS: 10}, func(context.Context) diag.Fact {
		<-free
		return diag.Fact{}
	})
	if f.Failure != diag.Timeout {
		t.Errorf("%+v", f)
	}
}

func TestCancelLineEndsAMeasurement(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	reqR, reqW := io.Pipe()
	outR, outW := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { _ = Serve(measure.WithPatience(context.Background(), 20), reqR, outW, Config{}); outW.Close() })
	r := bufio.NewReader(outR)
	_, _ = readLine(r)
	slow := filepath.Join(t.TempDir(), "slow")
	if err := os.WriteFile(slow, []byte("#!/bin/sh\n: >\"$0.runs\"\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(reqW, "{\"id\":\"s\",\"op\":\"binary\",\"target\":%q,\"version_command\":[%q],\"timeout_ms\":120000}\n",
		slow, slow)
	awaitFile(t, slow+".runs")
	io.WriteString(reqW, "{\"cancel\":\"s\"}\n")
	line, err := readLine(r)
	var f diag.Fact
	if err = errors.Join(err, json.Unmarshal(line, &f)); err != nil || f.Failure != diag.Cancelled {
		t.Errorf("%v: %s", err, line)
	}
	reqW.Close()
	wg.Wait()
	leaktest.None(t)
}

// awaitFile waits until the file exists.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	wait.For(t, path+" is made", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"id":"1","op":"file","target":"/etc/passwd"}`))
	f.Add([]byte(`{"cancel":"1"}`))
	f.Add([]byte(`{"id":"1","op":"disk","write_bytes":8192,"poll":{"field":"a","until":["b"],"every_ms":1}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		in, err := decodeRequest(line)
		if err != nil {
			return
		}
		if in.Op == "" && in.Cancel == "" {
			t.Fatalf("accepted a line that asks for nothing: %q", line)
		}
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeRequest(b)
		if err != nil || len(diag.Changed(&in.Request, &again.Request)) > 0 || again.ID != in.ID {
			t.Fatalf("%q does not survive a round trip: %v, %q", line, err, b)
		}
	})
}
