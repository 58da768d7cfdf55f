// Package checkcmd is "gpuaasctl check": a walk of machines that are reached by SSH, by a built-in profile.
package checkcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/profile"
)

// checkDeadline is the default of --deadline: a machine answers in seconds, or does not.
const checkDeadline = 30 * time.Second

// checkOptions are the options of a check.
type checkOptions struct {
	api, profile, libexec string
	only, skip            []string
	deadline              time.Duration

	output, failOn, report string
	noSave                 bool
}

// New returns the command.
func New(a *cmdutil.App) *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check HOST [HOST...]",
		Short: "Check machines over SSH, without a profile",
		Long: `Logs in to each HOST as ssh HOST does, and checks the machine: login and host key, clock, every file system,
memory, processes, units, container runtimes, disks, the kernel log, and GPUs. With --api it also checks name, connection and
certificate of an API, from here and from the machine, whether packets of every size get through, and every address of
the name.

It is the walk of gpuaasctl preflight by a built-in profile, in which no platform, no agent and no allocation exists:
the same judges, pages and exit codes, and gpuaasctl preflight REPORT, gpuaasctl history and diff know its reports. No
profile is chosen, whatever GPUAASCTL_PROFILE says; --profile takes logins and trust from one.

Nothing is installed or changed: gpuaas-agent is put into a tmpfs while it measures, and removed. What needs root is
measured where the login is root or may use sudo without a password, and else named as not measured.

Several hosts are checked at the same time, and the page has a line for each, then those that are not well.

Exit codes: 0 pass, 2 usage, 3 something has failed, 4 warnings under --fail-on warn, 5 inconclusive (a host
could not be logged in to because of this operator's own settings, or something was not measured), 130 interrupted; of several hosts
the worst.`,
		Example: `  gpuaasctl check gpu-07
  gpuaasctl check ubuntu@192.0.2.7 --api https://api.example
  gpuaasctl check gpu-01 gpu-02 gpu-03 -o ndjson`,
		Args: cmdutil.Args(1, maxHosts),
		RunE: cmdutil.Run(a, o, check),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.api, "api", "", "also check the way to this `URL`, from here and from each host")
	f.StringVar(&o.profile, "profile", "", "take logins and trust from this `PROFILE`")
	f.DurationVar(&o.deadline, "deadline", checkDeadline, "end after this `TIME`")
	f.StringSliceVar(&o.only, "only", nil, "check only these `HOPS` (comma-separated), and what they need")
	f.StringSliceVar(&o.skip, "skip", nil, "leave these `HOPS` out, and what needs them")
	f.StringVar(&o.libexec, "libexec", "", "`FOLDER` of gpuaas-agent (default: beside this program)")
	cmdutil.OutputFlags(cmd, &o.output, &o.failOn)
	cmdutil.OutFlag(cmd, &o.report, "also write the report of one host to `FILE`: a page for a browser if it ends in "+
		".html, else JSON")
	f.BoolVar(&o.noSave, "no-save", false, "do not keep the reports in the history")
	cmdutil.Group(f, cmdutil.HeadOutput, "out", "no-save")
	cmdutil.CompleteFunc(cmd, "profile", a.ProfileNames)
	return cmd
}

// firstWord is when a check that still runs says so, where no live table does.
const firstWord = 2500 * time.Millisecond

// maxHosts bounds the hosts of one command.
const maxHosts = 256

// target is one host of a command line.
type target struct {
	word string // as it was given
	s    *ops.Session
	walk ops.WalkOptions
}

func check(a *cmdutil.App, cmd *cobra.Command, o *checkOptions, args []string) error {
	targets, err := o.targets(a, cmd, args)
	if err != nil {
		return err
	}
	if len(targets) == 1 {
		return o.one(a, cmd, &targets[0])
	}
	return o.several(a, cmd, targets)
}

// targets checks the command line, and makes a session for each host.
func (o *checkOptions) targets(a *cmdutil.App, cmd *cobra.Command, args []string) ([]target, error) {
	wrong := func(err error) error { return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()} }
	if err := cmdutil.CheckNotEmpty(cmd, "api", "profile", "out"); err != nil {
		return nil, err
	}
	if err := errors.Join(cmdutil.CheckDeadline(o.deadline), cmdutil.CheckReportPath(o.report, ".html")); err != nil {
		return nil, wrong(err)
	}
	if o.failOn == cmdutil.FailOnRegression {
		return nil, wrong(errors.New("--fail-on regression needs a walk by a profile: gpuaasctl preflight"))
	}
	if o.report != "" && len(args) > 1 {
		return nil, wrong(errors.New("--out is for the report of one host: use -o json or -o ndjson for several"))
	}
	only, errOnly := a.Chain().Check("only", o.only)
	skip, errSkip := a.Chain().Check("skip", o.skip)
	if err := errors.Join(errOnly, errSkip); err != nil {
		return nil, wrong(err)
	}
	of, err := o.settings(a)
	if err != nil {
		return nil, err
	}
	if o.api != "" && !strings.Contains(o.api, "://") {
		o.api = "https://" + o.api
	}
	if err := profile.CheckURL(o.api); o.api != "" && err != nil {
		return nil, wrong(fmt.Errorf("--api: %w", err))
	}
	if err := vantage.CheckFiles(of.SSH); err != nil {
		return nil, wrong(err)
	}
	var all []target
	for i, word := range args {
		user, host, err := ops.CheckHost(word)
		switch {
		case err != nil:
			return nil, wrong(err)
		case slices.Contains(args[:i], word):
			return nil, wrong(fmt.Errorf("%s is given twice", word))
		}
		p := ops.CheckProfile(of, o.api)
		if node, listed := p.Nodes[host]; listed && node.Host != "" {
			host = node.Host
		}
		if user != "" {
			p.SSH.User, p.Nodes = user, nil
		}
		t := target{word: word, walk: ops.WalkOptions{Only: only, Skip: skip, Command: o.recheck(word),
			Removed: func(err error) { noteLeft(a, word, err) }}}
		t.s = a.SiteWith(p, "", o.libexec, ops.Secrets{}).About(ops.Target{Node: word, Host: host, As: "check"})
		all = append(all, t)
	}
	return all, nil
}

// noteLeft says what was left on a host.
func noteLeft(a *cmdutil.App, word string, err error) {
	if err != nil {
		a.Note("%s: the helper may be left there, in a tmpfs until the next boot: %v", word, err)
	}
}

// settings are those of --profile; none without it.
func (o *checkOptions) settings(a *cmdutil.App) (profile.Profile, error) {
	if o.profile == "" {
		return profile.Profile{}, nil
	}
	p, _, err := profile.Load(o.profile, profile.Sources{Dir: profile.Dir(a.Env)})
	if err != nil {
		return p, cmdutil.Usagef("--profile: %w", err)
	}
	return p, nil
}

// recheck is the command that checks a host again.
func (o *checkOptions) recheck(word string) string {
	argv := []string{"gpuaasctl", "check", word}
	if o.api != "" {
		argv = append(argv, "--api", o.api)
	}
	if o.profile != "" {
		argv = append(argv, "--profile", o.profile)
	}
	return diag.Command(argv...)
}

// one checks a host, and shows its report as a walk's.
func (o *checkOptions) one(a *cmdutil.App, cmd *cobra.Command, t *target) error {
	t.walk.Memory = a.History().ReadGood(cmd.Context(), t.s.Subject(), t.s.Plan(t.walk), false, !o.noSave)
	defer t.walk.Memory.Close()
	r, shown, err := o.show(a, cmd.Context(), t)
	if r == nil {
		return err
	}
	if !shown {
		err = a.ShowReport(r, o.output, o.failOn)
	}
	if o.report != "" { // even if it was not displayed
		err = errors.Join(err, cmdutil.WriteReport(o.report, r))
	}
	if !o.noSave {
		a.NoteNotSaved(r.Run.ID, t.walk.Memory.Save(cmd.Context(), r))
	}
	if err != nil {
		return err
	}
	return cmdutil.Judged(r, o.failOn)
}

// show walks within the deadline, on a terminal with the live table.
func (o *checkOptions) show(a *cmdutil.App, ctx context.Context, t *target) (r *diag.Report, shown bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.deadline)
	defer cancel()
	in, out := cmdutil.Terminals(a)
	if !cmdutil.IsPage(o.output) || a.Quiet || !tui.Possible(in, out) {
		slow := time.AfterFunc(firstWord, func() {
			a.Note("%s: no result yet; the login may take 10 s, and all of it %s", t.word, o.deadline)
		})
		defer slow.Stop()
		return t.s.Walk(ctx, t.walk, o.provisional(a, t)), false, nil
	}
	live := tui.Options{In: in, Out: out, Plan: t.s.Plan(t.walk), Subject: t.s.Subject(),
		Report: a.RenderOptions(o.output)}
	r, err = tui.Run(ctx, live, func(ctx context.Context, observe func(walk.Event)) *diag.Report {
		return t.s.Walk(ctx, t.walk, observe)
	})
	return r, true, err
}

// provisional writes what is likely to blame so far, for a format of lines; else nil.
func (o *checkOptions) provisional(a *cmdutil.App, t *target) func(walk.Event) {
	if o.output != cmdutil.FormatNDJSON || a.Quiet {
		return nil
	}
	return func(e walk.Event) {
		if p := e.Provisional; p != nil {
			_ = a.Write(render.Provisional(t.s.RunID, t.word, p.At, p.Blame, p.Waiting)) // the report's lines follow
		}
	}
}
