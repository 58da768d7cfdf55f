// Package tui is the live view of a walk and of a drill. The table of a walk fills hop by hop with both vantages side
// by side; a drill shows its faults with their machines and times, and the chain as it turns red and green. The
// finished report then replaces the view, in the terminal's scrollback: everything is drawn inline, never on the
// alternate screen.
//
// It judges nothing and measures nothing: it draws the events of a walk or a drill. Its callers are the commands
// preflight and chaos run, and only on a terminal; pipes get plain text.
package tui

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// frameEvery is the pace of spinner and clocks: smooth to the eye, and little data over a slow SSH session.
const frameEvery = 100 * time.Millisecond

// Options configure the live view of a walk.
type Options struct {
	In      *os.File // for Ctrl-C; nil is standard input
	Out     *os.File // nil is standard output
	Plan    diag.Plan
	Subject diag.Subject
	Report  render.Options // format (table or wide), colour and ASCII of the finished report; its width is the terminal's
	Explore func()         // called for the key v, to open the explorer at the end; nil disables the key
}

// Walk runs a walk and reports its events to observe. It must return soon after the end of ctx.
type Walk func(ctx context.Context, observe func(walk.Event)) *diag.Report

// Possible reports whether in and out are terminals; otherwise the terminal library would open the terminal device by
// itself, and draw over a redirected command.
func Possible(in, out *os.File) bool {
	return in != nil && out != nil && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// Run walks, shows the walk live, and writes the finished report to o.Out. Ctrl-C ends the walk's context; the report
// is then what the walk had measured. If the table cannot be drawn, Run only writes the report. If only the writing
// failed, it returns the report with the error.
func Run(ctx context.Context, o Options, run Walk) (*diag.Report, error) {
	o = o.withDefaults()
	var report *diag.Report
	if Possible(o.In, o.Out) {
		var err error
		if report, err = live(ctx, o, run); err != nil {
			return report, err
		}
	} else {
		report = run(ctx, func(walk.Event) {})
	}
	return report, finish(o, report)
}

func (o Options) withDefaults() Options {
	o.In = cmp.Or(o.In, os.Stdin)
	o.Out = cmp.Or(o.Out, os.Stdout)
	return o
}

// live runs the walk and the view concurrently, and waits for both.
func live(ctx context.Context, o Options, run Walk) (report *diag.Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = show(&Ending{o.In, cancel}, o.Out, newModel(o, cancel), cancel, func(send func(tea.Msg)) {
		report = run(ctx, func(e walk.Event) { send(eventMsg(e)) })
	})
	if err != nil {
		return report, fmt.Errorf("draw the live table: %w", err)
	}
	return report, nil
}

// Ending is a terminal that calls End when it is closed: a program that waits for keys, and gets no signal, only
// notices it from the read.
type Ending struct {
	*os.File
	End func()
}

func (e *Ending) Read(p []byte) (int, error) {
	n, err := e.File.Read(p)
	if err != nil {
		e.End()
	}
	return n, err
}

// frames is a model whose frame is known as text.
type frames interface {
	tea.Model
	text() string
}

// show draws m while work runs, waits for both, and removes the last frame from the screen. m receives what the work
// sends, a tickMsg for every frame, and a doneMsg when the work ends. A drawing error cancels the work.
func show(in io.Reader, out *os.File, m frames, cancel context.CancelFunc, work func(send func(tea.Msg))) error {
	// signals end the work's context, as without a table
	program := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		work(program.Send)
		program.Send(doneMsg{})
	})
	wg.Go(func() { tick(program, done) })
	last, err := program.Run()
	if err != nil {
		cancel() // no later frame would be visible
	}
	wg.Wait()
	if err != nil {
		return err
	}
	return wipe(out, last)
}

// wipe removes the last frame from the screen, so that the report takes its place. The renderer leaves the cursor on
// the frame's last line, and would not erase all of a frame that shrinks at the end. Lines are erased one by one: if
// the frame fills the screen, erasing the screen would make some terminals keep a copy in the scrollback.
func wipe(out *os.File, last tea.Model) error {
	m, ok := last.(frames)
	if !ok {
		return nil
	}
	lines := "\r" + ansi.EraseEntireLine + strings.Repeat(ansi.CUU1+ansi.EraseEntireLine, strings.Count(m.text(), "\n"))
	if _, err := out.WriteString(lines); err != nil {
		return fmt.Errorf("clear the live table: %w", err)
	}
	return nil
}

// tick moves spinner and clocks until the walk is done.
func tick(program *tea.Program, done <-chan struct{}) {
	start := time.Now()
	t := time.NewTicker(frameEvery)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			program.Send(tickMsg(time.Since(start)))
		}
	}
}

// finish writes the report below whatever is on the screen.
func finish(o Options, report *diag.Report) error {
	if report == nil {
		return nil
	}
	r := o.Report
	if w, h, err := term.GetSize(int(o.Out.Fd())); err == nil && w > 0 {
		r.Width, r.Height = w, h
	}
	var b bytes.Buffer
	if err := render.Report(&b, report, r); err != nil {
		return fmt.Errorf("render the report: %w", err)
	}
	if _, err := o.Out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
