package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

const (
	// slow bounds a command that stops and starts units, or that waits for such a command.
	slow = 90 * time.Second
	// quick bounds a command that reads or writes a block.
	quick = 10 * time.Second
	// pushWithin bounds one push: 5 MB over 2 Mbit/s, and the mount before it.
	pushWithin = 30 * time.Second
	// replyKept bounds a reply in bytes: a whole journal is 1 MiB, and is larger as JSON.
	replyKept = 8 << 20
)

// within returns the time limit of a command of gpuaas-fault.
func within(command string) time.Duration {
	switch command {
	case "renew", "status", "version":
		return quick
	}
	return slow
}

// Fault runs one command of gpuaas-fault, as root, and returns its reply. It pushes the program to the tmpfs if
// needed. in is the command's standard input. An error means that there was no reply.
func (m *Machine) Fault(ctx context.Context, in []byte, args ...string) (step.Reply, error) {
	m.mark()
	return m.fault(ctx, in, nil, args)
}

// FaultOf is Fault with the copy of the program next to a drill's journal. That copy understands the journal,
// whatever our version is, and nothing has to be pushed. It is for drills of other operators, which may be dead.
func (m *Machine) FaultOf(ctx context.Context, run string, args ...string) (step.Reply, error) {
	if !step.ValidName(run) {
		return step.Reply{}, fmt.Errorf("%q is not the id of a drill", run)
	}
	m.mark() // the process that began the drill pushed it
	return m.fault(ctx, nil, []string{path.Join(m.cfg.state, run, step.Program)},
		append(args[:len(args):len(args)], "--run", run))
}

// fault runs the first of the programs that exists, or else pushes ours.
func (m *Machine) fault(ctx context.Context, in []byte, programs, args []string) (step.Reply, error) {
	if len(args) == 0 {
		return step.Reply{}, errors.New(step.Program + ": no command")
	}
	ours, _ := m.programs() // those that are refused are an error where one is needed
	for _, p := range ours {
		programs = append(programs, path.Join(m.cfg.dir, p.Name))
	}
	for pushed := false; ; pushed = true {
		a, err := m.exec(ctx, vantage.Script{
			Text: faultScript, Args: slices.Concat([]string{strconv.Itoa(len(programs))}, programs, args), Input: in,
			Within: within(args[0]), Keep: replyKept,
		})
		if err != nil {
			return step.Reply{}, m.failed(args[0], err)
		}
		uname, missing := a.Note("missing")
		if !missing {
			return m.reply(args[0], a)
		}
		if pushed {
			return step.Reply{}, m.failed(args[0], errors.New("the program was pushed, and has been removed again"))
		}
		if err := m.push(ctx, uname); err != nil {
			return step.Reply{}, m.failed(args[0], err)
		}
	}
}

// mark notes that our program may be on the machine.
func (m *Machine) mark() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ours = true
}

// failed adds the command and the machine to an error.
func (m *Machine) failed(command string, err error) error {
	return fmt.Errorf("%s %s on %s: %w", step.Program, command, m.ID(), err)
}

// reply parses a command's output.
func (m *Machine) reply(command string, a vantage.Answer) (step.Reply, error) {
	var r step.Reply
	for line := range bytes.Lines(a.Output) {
		if err := bounded.Unmarshal(line, &r, bounded.Line()); err == nil && r.Schema == step.ReplySchema {
			return r, nil
		}
		r = step.Reply{}
	}
	code, ended := a.Note("exit")
	why := "the connection ended before its answer"
	if ended {
		why = "it ended without an answer (" + strings.Replace(code, "code=", "exit code ", 1) + ")"
	}
	if words := cmp.Or(a.Words, strings.TrimSpace(string(a.Output[:min(len(a.Output), 200)]))); words != "" {
		why += ": " + words
	}
	return step.Reply{}, m.failed(command, errors.New(why))
}

// push pushes the program for that machine type to the tmpfs. Only one of several concurrent calls does.
func (m *Machine) push(ctx context.Context, uname string) error {
	select {
	case m.pushing <- struct{}{}:
		defer func() { <-m.pushing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	all, refused := m.programs()
	switch {
	case len(all) == 0 && refused != nil:
		return fmt.Errorf("it is not put there, since %w", refused)
	case len(all) == 0:
		return fmt.Errorf("it is neither there nor here (looked in %s; see --libexec)", strings.Join(m.cfg.Programs, ", "))
	}
	i := slices.IndexFunc(all, func(p vantage.Program) bool { return p.Machine == uname })
	switch {
	case i < 0 && refused != nil:
		return fmt.Errorf("none for %s is put there, since %w", uname, refused)
	case i < 0:
		return fmt.Errorf("this machine has no %s for %s to push", step.Program, uname)
	}
	data, err := os.ReadFile(all[i].Path)
	if err != nil {
		return fmt.Errorf("it cannot be put there: %w", err)
	}
	a, err := m.exec(ctx, vantage.Script{Text: pushScript, Args: []string{m.cfg.dir, all[i].Name, all[i].Sum}, Input: data,
		Within: pushWithin})
	if err != nil {
		return fmt.Errorf("putting it there: %w", err)
	}
	if why, failed := a.Note("failed"); failed {
		return fmt.Errorf("putting it there: %s", why)
	}
	if _, done := a.Note("pushed"); !done {
		return fmt.Errorf("putting it there: the connection ended before it was")
	}
	return nil
}

// RemoveHelper removes our program from the machine, and the tmpfs if it is empty then. A drill keeps its own copy.
func (m *Machine) RemoveHelper(ctx context.Context) error {
	m.mu.Lock()
	ours := m.ours
	m.mu.Unlock()
	if !ours {
		return nil
	}
	return m.RemoveStaleHelper(ctx)
}

// RemoveStaleHelper is RemoveHelper for a machine on which a killed run may have left the program.
func (m *Machine) RemoveStaleHelper(ctx context.Context) error {
	a, err := m.exec(ctx, vantage.Script{Text: leaveScript, Args: []string{m.cfg.dir}, Within: quick})
	if err != nil {
		return fmt.Errorf("taking %s off %s: %w", step.Program, m.ID(), err)
	}
	if _, gone := a.Note("gone"); !gone {
		why, _ := a.Note("failed")
		return fmt.Errorf("taking %s off %s: %s", step.Program, m.ID(), cmp.Or(why, "the connection ended before it was"))
	}
	return nil
}

// HelperPaths returns the paths of our program on the machine: another run uses it, or left it behind.
func (m *Machine) HelperPaths(ctx context.Context) ([]string, error) {
	a, err := m.exec(ctx, vantage.Script{Text: leftScript, Args: []string{m.cfg.dir}, Within: quick})
	if _, whole := a.Note("exit"); err == nil && !whole {
		err = errors.New("the connection ended before all was seen")
	}
	if err != nil {
		return nil, fmt.Errorf("programs of ours on %s: %w", m.ID(), err)
	}
	return strings.Fields(string(a.Output)), nil
}
