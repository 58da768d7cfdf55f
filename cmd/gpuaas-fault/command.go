//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/node"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

const usage = `usage: gpuaas-fault <command> [flags]

  arm                      make this machine ready for the drill on stdin; nothing is changed yet
  do       [--step ID]     make its steps, and look whether they have their effect
  renew                    say that it is still wanted
  status   [--journal]     what is injected, and how long it still may be
  revert   [--why TEXT]    undo everything now
  verify                   compare the machine with how it was before
  close    [--force]       take the drill's own traces away; by force although there is a conflict, or no journal
  residue                  list whatever bears this tool's name
  fingerprint              what this machine looks like, as JSON
  watch, reap              what systemd starts: the watchdog, and the undo at boot
  version, --version

Every command but fingerprint and version prints one line of JSON. --run names a drill where there are several.
Exit codes: 0 done, 1 error, 2 usage, 3 refused: nothing was touched, or not what was asked for.
`

const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// call is one command with its flags and streams.
type call struct {
	host    node.Host
	in      io.Reader
	log     io.Writer
	run     string
	step    string
	why     string
	journal bool
	force   bool
}

// commands are the commands that systemd and gpuaasctl run. A command fills in the reply.
func commands() map[string]func(context.Context, *call, *step.Reply) error {
	return map[string]func(context.Context, *call, *step.Reply) error{
		"arm": arm, "do": do, "renew": renew, "status": status, "revert": revert, "verify": verify, "close": closeRun,
		"residue": residue, "watch": watch, "reap": reap,
	}
}

// command runs one command and returns the exit code.
func command(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errs, usage)
		return exitUsage
	}
	c := &call{in: in, log: errs}
	fs := flag.NewFlagSet(step.Program+" "+args[0], flag.ContinueOnError)
	fs.SetOutput(errs)
	fs.StringVar(&c.run, "run", "", "id of the drill")
	fs.StringVar(&c.step, "step", "", "id of the step; all of them without it")
	fs.StringVar(&c.why, "why", step.WhyAsked, "what the journal says about the reason")
	fs.BoolVar(&c.journal, "journal", false, "with every entry of the journal")
	fs.BoolVar(&c.force, "force", false, "although there is a conflict, or no journal that can be read")
	run, known := commands()[args[0]]
	switch {
	case args[0] == "help" || args[0] == "-h" || args[0] == "--help":
		fmt.Fprint(out, usage)
		return exitOK
	case args[0] == "version" || args[0] == "--version":
		fmt.Fprintln(out, version)
		return exitOK
	case !known && args[0] != "fingerprint":
		fmt.Fprintf(errs, "%s: unknown command %q\n%s", step.Program, args[0], usage)
		return exitUsage
	}
	if err := fs.Parse(args[1:]); err != nil {
		return exitUsage
	}
	if fs.NArg() > 0 || (c.run != "" && !step.ValidName(c.run)) {
		fmt.Fprintf(errs, "%s %s: unexpected argument\n", step.Program, args[0])
		return exitUsage
	}
	if args[0] == "fingerprint" {
		return fingerprint(ctx, out, errs)
	}
	return answer(ctx, run, c, out, errs)
}

// answer runs a command and prints its reply.
func answer(ctx context.Context, run func(context.Context, *call, *step.Reply) error, c *call, out,
	errs io.Writer) int {
	began := time.Now()
	reply := step.Reply{Schema: step.ReplySchema, Version: version}
	clock, err := node.HostClock()
	if err == nil {
		// By its process and not by its path: another administrator may have removed the file.
		c.host = node.Host{Paths: node.HostPaths(), Clock: clock, Exe: "/proc/self/exe"}
		err = run(ctx, c, &reply)
	}
	code := exitOK
	switch {
	case errors.Is(err, node.ErrOver):
		return node.ExitOver
	case errors.As(err, &reply.Refused):
		code = step.ExitRefused
	case err != nil:
		reply.Error, code = err.Error(), exitError
	}
	reply.TookUS = time.Since(began).Microseconds()
	if err := json.NewEncoder(out).Encode(reply); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", step.Program, err)
		return exitError
	}
	return code
}

// with opens the drill, runs f, and reports the drill's state afterwards, even if f fails.
func with(c *call, reply *step.Reply, f func(*node.Run) error) error {
	r, err := c.host.Open(c.run)
	if err != nil {
		return err
	}
	err = f(r)
	if reply.Status == nil {
		st, err2 := r.Status(c.journal)
		reply.Status, err = &st, errors.Join(err, err2)
	}
	return errors.Join(err, r.CloseFiles())
}

func arm(ctx context.Context, c *call, reply *step.Reply) error {
	d, err := step.Decode(c.in)
	if err != nil {
		return step.Refuse(step.RefusedDrill, "%v", err)
	}
	r, err := c.host.Arm(ctx, d)
	if err != nil {
		return err
	}
	st, err := r.Status(c.journal)
	reply.Status = &st
	return errors.Join(err, r.CloseFiles())
}

func do(ctx context.Context, c *call, reply *step.Reply) error {
	return with(c, reply, func(r *node.Run) error { return r.Do(ctx, c.step) })
}

func renew(_ context.Context, c *call, reply *step.Reply) error {
	return with(c, reply, (*node.Run).Renew)
}

func status(_ context.Context, c *call, reply *step.Reply) error {
	return with(c, reply, func(*node.Run) error { return nil })
}

func revert(ctx context.Context, c *call, reply *step.Reply) error {
	return c.tidied(with(c, reply, func(r *node.Run) error { return r.Revert(ctx, step.ByCLI, c.why) }))
}

// tidied removes the remains of a drill if err means that it does not exist, and returns err.
func (c *call) tidied(err error) error {
	if none := new(step.Refusal); errors.As(err, &none) && none.Code == step.RefusedNone {
		if left := c.host.RemoveRemains(); left != nil {
			return left // not err, which would mean that nothing is left
		}
	}
	return err
}

func verify(ctx context.Context, c *call, reply *step.Reply) error {
	return with(c, reply, func(r *node.Run) error {
		all, err := r.Verify(ctx)
		reply.Residue = all
		if clean := len(step.Unexplained(all)) == 0; err == nil { // else it is unknown
			reply.Clean = &clean
		}
		return err
	})
}

func closeRun(ctx context.Context, c *call, reply *step.Reply) error {
	if c.force && c.run != "" {
		var refused *step.Refusal
		err := c.host.RemoveUnarmed(ctx, c.run)
		if !errors.As(err, &refused) || refused.Code != step.RefusedState {
			return c.tidied(err)
		}
	}
	return with(c, reply, func(r *node.Run) error {
		st, err := r.Close(ctx, c.force)
		if st.Run != "" {
			reply.Status = &st
		}
		return err
	})
}

func residue(ctx context.Context, c *call, reply *step.Reply) error {
	all, err := node.ListResidue(ctx)
	reply.Residue = all
	if clean := len(all) == 0; err == nil {
		reply.Clean = &clean
	}
	return err
}

func watch(ctx context.Context, c *call, reply *step.Reply) error {
	r, err := c.host.Open(c.run)
	if err != nil {
		return err
	}
	err = r.Watch(ctx, func(format string, args ...any) { fmt.Fprintf(c.log, format+"\n", args...) })
	return errors.Join(err, r.CloseFiles())
}

func reap(ctx context.Context, c *call, reply *step.Reply) error {
	return with(c, reply, func(r *node.Run) error { return r.Reap(ctx) })
}

// fingerprint prints the machine's fingerprint, for manual comparison.
func fingerprint(ctx context.Context, out, errs io.Writer) int {
	f, err := node.ReadFingerprint(ctx, step.Scope{})
	if err != nil {
		fmt.Fprintf(errs, "%s: %v\n", step.Program, err)
		return exitError
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return exitError
	}
	return exitOK
}
