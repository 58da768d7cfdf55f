package gpu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// supervisor runs the probe, and restarts it when it exits.
type supervisor struct {
	Config
	spool *spool
	gpus  devices
	state report.Probe // as it was last reported
}

// watch runs one probe after the other until ctx ends.
func (s *supervisor) watch(ctx context.Context) {
	pause := s.Backoff
	for {
		sampled := s.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if sampled {
			pause = s.Backoff
		}
		if !sleep.For(ctx, pause) {
			return
		}
		pause = min(2*pause, maxBackoff)
	}
}

// run runs one probe to its end, and reports whether a sample arrived. If the probe cannot be killed, run waits
// for its end.
func (s *supervisor) run(ctx context.Context) (sampled bool) {
	cmd := exec.Command(s.Probe, "--interval", s.Interval.String(), "--call-deadline", s.CallDeadline.String())
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stdin, err := cmd.StdinPipe() // closed when this process exits, which ends the probe
	if err != nil {
		s.emitProbe(report.Probe{State: notStarted(s.Probe), Why: short(err.Error())}, nil)
		return false
	}
	defer stdin.Close()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.emitProbe(report.Probe{State: notStarted(s.Probe), Why: short(err.Error())}, nil)
		return false
	}
	pid := cmd.Process.Pid
	s.Log.Info("the GPU probe starts", "pid", pid, "program", s.Probe)
	lines, ended := make(chan []byte), make(chan error, 1)
	stop := make(chan struct{})
	go func() { // ends with the process, whose exit closes its stdout
		read(out, lines, stop)
		ended <- cmd.Wait()
	}()
	why := s.follow(ctx, pid, lines, &sampled)
	close(stop)
	s.Kill(pid)
	select {
	case err := <-ended:
		if ctx.Err() == nil && why == "" {
			s.emitProbe(report.Probe{State: report.Ended, PID: pid, Why: ending(err)}, nil)
		}
		return sampled
	case <-ctx.Done():
	case <-time.After(s.Slack):
		s.Log.Error("the GPU probe hangs in the kernel and cannot be ended: no other is started", "pid", pid)
	}
	select {
	case <-ended:
	case <-ctx.Done():
		select { // it was killed: do not wait long, but reap it if it exits at once
		case <-ended:
		case <-time.After(time.Second):
		}
	}
	return sampled
}

// notStarted returns the state of a probe that could not be started: missing only if nothing has its name.
func notStarted(program string) report.ProbeState {
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		return report.Missing
	}
	return report.Unstartable
}

func ending(err error) string {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return "it ended"
	case ok && exit.ExitCode() == report.ExitReloaded:
		return "the driver was unloaded or reloaded"
	}
	return err.Error()
}

// environment is the environment of the probe: it has none of the agent's secrets.
func environment() (env []string) {
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "GPUAAS_NVML_") {
			env = append(env, v)
		}
	}
	return append(env, "GOMEMLIMIT=48MiB", "GOMAXPROCS=2")
}

func kill(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // it may have ended

// read returns the probe's lines. A line that is too long ends it.
func read(out io.Reader, lines chan<- []byte, stop <-chan struct{}) {
	defer close(lines)
	in := bufio.NewScanner(out)
	in.Buffer(nil, report.MaxSample)
	for in.Scan() {
		select {
		case lines <- append([]byte(nil), in.Bytes()...):
		case <-stop:
			return
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		select {
		case lines <- nil:
		case <-stop:
		}
	}
}

// follow handles the probe's lines until it exits, hangs, writes an invalid line, uses too much memory or ctx
// ends. It returns why the probe has to be killed, or "" if it has exited.
func (s *supervisor) follow(ctx context.Context, pid int, lines <-chan []byte, sampled *bool) string {
	silence := s.Interval + s.CallDeadline + s.Slack
	heard := time.Now()
	late := time.NewTimer(silence)
	defer late.Stop()
	weigh := time.NewTicker(s.Poll)
	defer weigh.Stop()
	for {
		select {
		case <-weigh.C: // a library may allocate memory within a call
			if s.tooBig(pid) {
				return "it took too much memory"
			}
		case <-ctx.Done():
			return "the agent ends"
		case <-late.C:
			s.emitProbe(report.Probe{State: report.Stuck, PID: pid, Since: new(heard.UTC()), Why: "no sample came"}, nil)
			return "no sample came"
		case line, open := <-lines:
			if !open {
				return ""
			}
			late.Reset(silence)
			heard = time.Now()
			stuck, err := s.handleLine(line, pid, sampled)
			if err != nil {
				s.emitProbe(report.Probe{State: report.Garbled, PID: pid, Why: short(err.Error())}, nil)
				return "it wrote an invalid line"
			}
			if stuck {
				return "a call does not return"
			}
			if s.tooBig(pid) {
				return "it took too much memory"
			}
		}
	}
}

// tooBig reports whether the probe exceeds its memory limit, and logs it.
func (s *supervisor) tooBig(pid int) bool {
	n := resident(pid)
	if n <= s.MaxMemory {
		return false
	}
	s.emitProbe(report.Probe{State: report.Ended, PID: pid,
		Why: fmt.Sprintf("it took %d MiB of memory, more than %d", n>>20, s.MaxMemory>>20)}, nil)
	return true
}

func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }

// resident returns a process's resident memory in bytes, 0 if it cannot be read.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), " ")
	pages, _, _ := strings.Cut(rest, " ")
	n, _ := strconv.ParseInt(pages, 10, 64) // 0 if it is not a number
	return n * int64(os.Getpagesize())
}

// handleLine handles one line: a sample, or an event from the probe itself.
func (s *supervisor) handleLine(line []byte, pid int, sampled *bool) (stuck bool, err error) {
	if len(line) < report.MaxEvent {
		if e, err := report.DecodeEvent(line); err == nil {
			if e.Probe != nil && e.Probe.State == report.Stuck {
				p := *e.Probe
				s.emitProbe(p, e.GPU)
				return true, nil
			}
			s.spool.add(e)
			return false, nil
		}
	}
	sample, err := report.DecodeSample(line)
	if err != nil {
		return false, err
	}
	*sampled = true
	p := report.Probe{State: report.Sampling, Library: sample.Library.State, Code: sample.Library.Code, PID: pid}
	p.Why = sample.Others()
	if p.Library != report.Loaded {
		p.State, p.Why = report.Unknown, strings.Trim(sample.Library.Why+"; "+p.Why, "; ")
	}
	p.Why = short(p.Why)
	if n, ok := sample.Count.Number(); ok {
		p.Count = new(int(n))
	} else if p.State == report.Sampling {
		p.State, p.Code = report.Garbled, sample.Count.Failed
		p.Why = short("the GPUs could not be counted: " + sample.Count.Why())
	}
	s.emitProbe(p, nil)
	events, changed := s.gpus.events(sample, s.Interval, time.Now())
	for _, e := range events {
		s.spool.add(e)
	}
	s.spool.file.sample(sample, changed)
	return false, nil
}

// emitProbe creates an event for the probe's state if that has changed.
func (s *supervisor) emitProbe(p report.Probe, of *report.Identity) {
	was := s.state
	s.state = p
	count := func(n *int) int {
		if n == nil {
			return -1
		}
		return *n
	}
	if was.State == p.State && was.Library == p.Library && was.Code == p.Code && was.Call == p.Call &&
		count(was.Count) == count(p.Count) && p.State != report.Stuck && (p.State != report.Sampling || was.Why == p.Why) {
		return
	}
	s.spool.add(&report.Event{Type: report.ProbeEvent, Source: report.FromAgent, At: time.Now(), GPU: of, Probe: &p})
	s.Log.Info("the GPU probe", "state", string(p.State), "library", string(p.Library), "rc", p.Code, "call", p.Call,
		"why", p.Why, "gpus", count(p.Count))
}
