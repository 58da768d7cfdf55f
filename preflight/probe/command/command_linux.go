package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// slots bounds the commands that run at once in this process.
var slots = make(chan struct{}, width)

// Run runs a request's command. Failures: file_missing, not_permitted (what is refused, and why, is the detail),
// timeout, cancelled.
func (p *Prober) Run(ctx context.Context, req diag.Request, f *diag.Fact) {
	c := req.Command
	if !p.Allowed {
		measure.Fail(f, "command", diag.NotPermitted, errors.New("commands are run for an operator only"))
		return
	}
	if err := checked(c); err != nil {
		measure.Fail(f, "command", diag.NotPermitted, err)
		return
	}
	who, err := accountFor(ctx, c.As, p.Own)
	if err != nil {
		measure.Fail(f, "user", refused(err), err)
		return
	}
	program, err := openProgram(c.Argv[0], int(who.uid))
	if err != nil {
		measure.Fail(f, "program", refused(err), err)
		return
	}
	defer program.file.Close()
	if who.uid == 0 && !p.Own {
		allow := cmp.Or(p.allowFile, AllowFile)
		if err := program.mayBeRoot(c.Argv[0], who.name, allow, 0, time.Now()); err != nil {
			measure.Fail(f, "allowed", diag.NotPermitted, err)
			return
		}
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		measure.Interrupted(ctx, f, "queue")
		f.Detail = fmt.Sprintf("%d other commands ran until the time was up", width)
		return
	}
	began := time.Now()
	run, err := keep(ctx, program, who, c)
	if err != nil {
		measure.Fail(f, "run", diag.NotPermitted, err)
		return
	}
	f.Command = factsOf(run, c)
	f.Command.Program, f.Command.SHA256 = program.path, program.sha256
	f.Command.User, f.Command.UID = who.name, int(who.uid)
	f.Command.DurationMS = diag.Measured(time.Since(began))
	switch f.Command.Ended {
	case diag.EndedByWalk:
		measure.Interrupted(ctx, f, "run")
	case diag.EndedByLimit:
		f.Failure, f.Phase = diag.Timeout, "run"
	}
}

// refused is the failure of a program that is not run.
func refused(err error) diag.Failure {
	if errors.Is(err, fs.ErrNotExist) {
		return diag.FileMissing
	}
	return diag.NotPermitted
}

// factsOf returns what a run shows, as text without secrets.
func factsOf(r kept, c *diag.Program) *diag.CommandFacts {
	return &diag.CommandFacts{
		Exit: r.Exit, Signal: r.Signal, Ended: r.Ended, Left: r.Left, Unended: r.Unended,
		Out: scrub.Text(printable(r.Out)), Err: scrub.Text(printable(r.Err)),
		OutBytes: r.OutBytes, ErrBytes: r.ErrBytes,
		Cut: r.OutBytes > int64(c.Most) || r.ErrBytes > int64(c.Most),
	}
}

const (
	// keeperSlack is how much longer than the command its keeper may take, to end and to reap what is left.
	keeperSlack = endPatience + termGrace + time.Second
	mostKept    = 4 << 20 // the answer of a keeper: two outputs in base64
)

// keep runs a program under a keeper, a child of this process that ends and reaps everything of it. If this process
// dies, the keeper does the same: its input ends.
func keep(ctx context.Context, p *program, who account, c *diag.Program) (kept, error) {
	order, err := json.Marshal(orderFor(p, who, c))
	if err != nil {
		return kept{}, err
	}
	most := time.Duration(c.LimitMS) * time.Millisecond
	if until, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(until))
	}
	hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), most+keeperSlack)
	defer cancel()
	cmd := exec.CommandContext(hard, "/proc/self/exe")
	cmd.Args, cmd.Env, cmd.Dir = []string{keeperName}, environment, "/"
	cmd.ExtraFiles = []*os.File{p.file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt from the terminal must not end it before its work
	out := bounded.Head{Most: mostKept}
	cmd.Stdout, cmd.WaitDelay = &out, time.Second
	life, err := cmd.StdinPipe()
	if err != nil {
		return kept{}, err
	}
	if err := cmd.Start(); err != nil {
		return kept{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = life.Close() })
	defer stop()
	if _, err = life.Write(append(order, '\n')); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		_ = life.Close()
	}
	waited := cmd.Wait()
	var r kept
	if err := bounded.Unmarshal(out.Bytes(), &r, bounded.Small()); err != nil {
		return kept{}, fmt.Errorf("the program's keeper said nothing: %w", errors.Join(waited, err))
	}
	if r.Error != "" {
		return kept{}, fmt.Errorf("%s: %s", filepath.Base(p.path), r.Error)
	}
	if r.Ended == diag.EndedByLimit && ctx.Err() != nil {
		r.Ended = diag.EndedByWalk
	}
	return r, nil
}
