package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// VantageNode is the vantage in every fact that Serve writes.
const VantageNode = "node"

const (
	// serveConcurrency bounds the concurrent measurements: a walk requests some dozens at once.
	serveConcurrency = 128
	// overrun is how long a measurement may continue after its time is up (a system call on a dead network file system
	// cannot be interrupted) before it is reported as failed.
	overrun = 500 * time.Millisecond
	// endGrace is how long Serve waits for measurements after its input ended.
	endGrace = 2 * time.Second
	// readPoll is how long a read may go on after Serve's context has ended.
	readPoll = 100 * time.Millisecond
)

// Config is what Serve must know about its node.
type Config struct {
	Version string // of this binary, for the hello
	Unit    string // the agent's systemd unit
	EnvFile string // the agent's environment file, used if no agent runs

	// Exec returns the arguments with which this binary becomes the child inside the agent's namespaces: a call of
	// Serve with Inside = pid. nil: {"probe", "--in-namespace", "<pid>"}.
	Exec func(pid int) []string
	// Inside is the agent's main process if this is that child, which measures in its own process.
	Inside int
	// Finish answers what was asked before Serve returns, instead of cancelling it when the input ends.
	Finish bool
}

// server is one run of Serve.
type server struct {
	cfg   Config
	start time.Time
	slots chan struct{}
	wg    sync.WaitGroup

	outMu sync.Mutex // one line at a time
	out   io.Writer

	agentMu sync.Mutex    // guards agent
	agent   *agentContext // the agent as last found

	mu      sync.Mutex // guards running
	running map[string]context.CancelFunc
}

// Serve reads requests from in and writes facts to out, one JSON line each, in any order, until in ends; that cancels
// measurements in progress. It returns nil at EOF. If in is a file, such as standard input, ctx ends the
// reading as well.
func Serve(ctx context.Context, in io.Reader, out io.Writer, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{cfg: cfg, start: time.Now(), slots: make(chan struct{}, serveConcurrency), out: out,
		running: map[string]context.CancelFunc{}}
	s.agent = s.findAgent(ctx)
	hello := Hello{Version: cfg.Version, UID: os.Getuid(), PID: os.Getpid(), AgentPID: s.agent.prober.Host.Agent.PID,
		BootID: host.This.BootID(), Now: diag.At(time.Now())}
	err := s.write(outLine{Hello: &hello})
	if err == nil {
		if f, is := in.(*os.File); is {
			in = readingUntil(ctx, f)
		}
		err = s.read(ctx, in)
	}
	if cfg.Finish && err == nil {
		s.wg.Wait() // every measurement ends when its own time is up
	}
	cancel()
	err = errors.Join(err, s.wait())
	s.agentMu.Lock()
	defer s.agentMu.Unlock()
	return errors.Join(err, s.agent.close())
}

// reads is an io.Reader by its method.
type reads func([]byte) (int, error)

func (r reads) Read(b []byte) (int, error) { return r(b) }

// readingUntil returns a reader of f that is at its end when ctx ends: a read of standard input that has begun cannot
// be interrupted.
func readingUntil(ctx context.Context, f *os.File) reads {
	ready := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	return func(b []byte) (int, error) {
		for ctx.Err() == nil {
			n, err := unix.Poll(ready, int(readPoll.Milliseconds()))
			if n > 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
				return f.Read(b)
			}
		}
		return 0, io.EOF
	}
}

// read starts a measurement per line until the input ends.
func (s *server) read(ctx context.Context, in io.Reader) error {
	r := bufio.NewReader(in)
	for {
		line, err := readLine(r)
		switch {
		case errors.Is(err, errLineTooLong):
			_ = s.write(outLine{Error: err.Error()})
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading requests: %w", err)
		case len(line) == 0:
			continue
		}
		req, err := decodeRequest(line)
		if err != nil {
			// A write error does not end the loop: only the input does.
			_ = s.write(outLine{ID: req.ID, Error: err.Error()})
			continue
		}
		if req.Cancel != "" {
			s.cancel(req.Cancel)
			continue
		}
		s.begin(ctx, req.Request)
	}
}

func (s *server) cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop, ok := s.running[id]; ok {
		stop()
	}
}

// begin answers req in its own goroutine, when a slot is free.
func (s *server) begin(ctx context.Context, req diag.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	s.running[req.ID] = stop
	s.wg.Go(func() {
		defer stop()
		defer func() {
			s.mu.Lock()
			delete(s.running, req.ID)
			s.mu.Unlock()
		}()
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-ctx.Done():
		}
		_ = s.write(s.answer(ctx, req))
	})
}

// answer measures req in its view.
func (s *server) answer(ctx context.Context, req diag.Request) diag.Fact {
	if !req.Token.IsZero() || !req.Cookie.IsZero() || !req.Query.IsZero() {
		return s.refuse(req, diag.Unsupported, "secrets are not used on a node")
	}
	e, done := s.current(ctx)
	defer done()
	if req.View == diag.ViewHost || req.Op.Row().Plain {
		return s.here(ctx, e, req, "")
	}
	inside := e.namespaceFor(req)
	if inside == nil {
		return s.here(ctx, e, req, e.view)
	}
	began := time.Now()
	f := inside.answer(ctx, req, func() diag.Fact { return s.plain(ctx, e.prober, req) })
	f.OffsetMS = began.Sub(s.start).Milliseconds() // the child's offsets count from its own start
	return f
}

// here measures req outside the agent's namespaces, for an AgentView: in this process, or, if this process is in the
// login's own network, in the machine's. An agent in the login's network is measured in that.
func (s *server) here(ctx context.Context, e *agentContext, req diag.Request, view string) diag.Fact {
	plain := func() diag.Fact { return s.plain(ctx, e.prober, req) }
	if e.machine == nil || !req.Op.Row().Ladder || view == ViewEntered {
		f := plain()
		f.AgentView = view
		return f
	}
	f := e.machine.answer(ctx, req, plain)
	if f.AgentView != ViewEntered {
		view = ViewLoginNetwork
	}
	f.AgentView = view
	return f
}

// plain measures req in this process.
func (s *server) plain(ctx context.Context, p *Prober, req diag.Request) diag.Fact {
	return s.guarded(ctx, req, func(ctx context.Context) diag.Fact { return p.Run(ctx, req) })
}

// guarded runs one measurement. If it panics or hangs, the result is a fact; the server continues.
func (s *server) guarded(ctx context.Context, req diag.Request, run func(context.Context) diag.Fact) diag.Fact {
	began := time.Now()
	done := make(chan diag.Fact, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- s.refuse(req, diag.Unknown, fmt.Sprintf("the measurement broke: %v", r))
			}
		}()
		done <- run(ctx)
	}()
	timer := time.NewTimer(measure.TimeOf(req, measure.DefaultTimeout) + overrun)
	defer timer.Stop()
	select {
	case f := <-done:
		return f
	case <-timer.C:
		return s.unended(req, began, diag.Timeout, "the measurement did not end when its time was up")
	case <-ctx.Done():
	}
	select {
	case f := <-done:
		return f
	case <-time.After(overrun):
		return s.unended(req, began, diag.Cancelled, "the measurement did not end when it was cancelled")
	}
}

// unended returns the fact of a measurement that began and did not end.
func (s *server) unended(req diag.Request, began time.Time, word diag.Failure, why string) diag.Fact {
	f := s.refuse(req, word, why)
	f.At, f.OffsetMS, f.DurationMS = diag.At(began), began.Sub(s.start).Milliseconds(), diag.Measured(time.Since(began))
	return f
}

// refuse returns a fact without a measurement.
func (s *server) refuse(req diag.Request, word diag.Failure, why string) diag.Fact {
	now := time.Now()
	return diag.Fact{ID: req.ID, Vantage: VantageNode, Request: req, At: diag.At(now), DurationMS: 1,
		OffsetMS: now.Sub(s.start).Milliseconds(), Failure: word, Detail: scrub.Text(why)}
}

// wait waits for the measurements, which were all cancelled.
func (s *server) wait() error {
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(endGrace):
		return errors.New("measurements did not end when they were cancelled")
	}
}

// write writes one value on a line, in one Write.
func (s *server) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing a line: %w", err)
	}
	s.outMu.Lock()
	defer s.outMu.Unlock()
	_, err = s.out.Write(append(b, '\n'))
	return err
}
