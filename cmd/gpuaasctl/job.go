package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
)

// job is one walk, ready to go: everything that could be wrong with the command line has been checked.
type job struct {
	preflight.Job
	libexec    string
	profileArg string // as an operator chooses this profile: its name, or the path of its file
	hostArg    string // --node-host of a command about one node, "" where the profile says it
}

// prepare turns flags, environment and profile into a job. It reads local files, and runs the commands that print secrets
// unless only the plan is wanted; it touches no network itself.
func (a *app) prepare(cmd *cobra.Command, o *preflightOptions) (*job, error) {
	p, _, err := o.profile.load(a, cmd)
	if err != nil {
		return nil, err
	}
	if err := checkSubject(o, slices.Sorted(maps.Keys(p.Nodes))); err != nil {
		return nil, err
	}
	only, errOnly := hops(cmd, "only", o.only)
	skip, errSkip := hops(cmd, "skip", o.skip)
	if err := errors.Join(errOnly, errSkip, checkIDs(o), checkDeadline(o.deadline), checkReportPath(o.report)); err != nil {
		return nil, &usageError{err: err, command: cmd.CommandPath()}
	}
	if err := o.baseline.read(cmd.Context(), a, o.failOn); err != nil {
		return nil, err
	}
	if _, err := a.historyOff(); err != nil {
		return nil, err
	}
	j := &job{libexec: o.libexec, profileArg: cmp.Or(o.profile.name, a.env(profile.EnvProfile))}
	j.RunID, j.Began, j.Tool = preflight.NewID("run"), time.Now(), toolVersion()
	if err := j.secrets(cmd.Context(), p, !o.dryRun); err != nil {
		return nil, err
	}
	p = p.WithDefaults()
	j.Env.Profile = p
	j.Env.Subject = preflight.NewSubject(p, o.nodeID, o.nodeHost, o.allocationID, o.sessionID)
	if j.profileArg != "" && j.profileArg != p.Name { // its name alone would not be found
		j.Env.Subject.Expected["profile_file"] = j.profileArg
	}
	if !o.dryRun && p.APIBase == "" && p.TerminalBase == "" && j.Env.Subject.NodeHost == "" {
		if p.OtherNodes(o.nodeID) != "" {
			return nil, j.needHost()
		}
		return nil, usagef("nothing is known about where to ask about %s: give --profile NAME%s, or --api-base, or --node-host",
			o.nodeID, a.knownProfiles())
	}
	j.Env.Subject.CorrelationID = o.correlationID // the walk itself goes out under an id of its own
	j.Env.CorrelationID = preflight.NewID("preflight")
	j.Env.Scrub = func(s string) string { return probe.ScrubLine(s, nil) }
	j.Plan = preflight.NewPlan(p, j.Env.Subject, preflight.Options{
		Only: only, Skip: skip, Session: o.session,
		Token: !j.Env.Token.IsZero() || len(p.Auth.TokenCommand) > 0, SSH: j.Env.Subject.NodeHost != "",
	})
	if row := j.Plan.Hops[slices.Index(diag.Hops[:], diag.HopNodeOpsAccess)]; row.Skip == "" && !o.dryRun {
		if err := vantage.CheckFiles(p.SSH); err != nil {
			return nil, &usageError{err: err}
		}
	}
	j.Plan.Command = j.command(cmd, o)
	return j, nil
}

// knownProfiles lists the profiles to choose from, for a message: "" where there are none.
func (a *app) knownProfiles() string {
	if names := a.profileNames(); len(names) > 0 {
		return " (there are " + strings.Join(names, ", ") + ")"
	}
	return ""
}

// command is how the same node is walked again, to paste: with the profile as it was chosen, and with the flags that say
// where things are. It is empty where the profile's name is all.
func (j *job) command(cmd *cobra.Command, o *preflightOptions) string {
	argv := []string{"gpuaasctl", "preflight"}
	if j.profileArg != "" {
		argv = append(argv, "--profile", j.profileArg)
	}
	argv = append(argv, "--node-id", o.nodeID)
	named := len(argv)
	if o.nodeHost != "" {
		argv = append(argv, "--node-host", o.nodeHost)
	}
	for i, over := range overrides {
		if cmd.Flags().Changed(over.flag) {
			argv = append(argv, "--"+over.flag, o.profile.values[i])
		}
	}
	if j.profileArg != "" && j.profileArg == j.Plan.Profile && len(argv) == named {
		return ""
	}
	return diag.Command(argv...)
}

// secrets reads the files that hold secrets, or runs the commands that print them, and reads the nodes' trust bundle. With
// run off it only looks for the commands' programs, and runs nothing. What is wrong is a usage error, an interrupt is not.
func (j *job) secrets(ctx context.Context, p profile.Profile, run bool) error {
	var errs []error
	read := func(key, path string, command []string) (s diag.Secret) {
		var err error
		switch {
		case path != "":
			key += "_file"
			s, err = profile.ReadSecret(ctx, path)
		case len(command) > 0 && run:
			key += "_command"
			s, err = profile.RunSecret(ctx, command)
		case len(command) > 0:
			key += "_command"
			err = profile.FindCommand(command)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("auth.%s: %w", key, err))
		}
		return s
	}
	j.Env.Token = read("token", p.Auth.TokenFile, p.Auth.TokenCommand)
	j.Env.Cookie = read("edge_cookie", p.Auth.EdgeCookieFile, p.Auth.EdgeCookieCommand)
	var err error
	if j.Env.NodeCA, err = profile.ReadCA(p.Trust.NodeCA); err != nil {
		errs = append(errs, fmt.Errorf("trust.node_ca: %w", err))
	}
	if _, err := profile.ReadCA(p.Trust.OperatorCA); err != nil {
		errs = append(errs, fmt.Errorf("trust.operator_ca: %w", err))
	}
	if len(errs) > 0 && ctx.Err() != nil { // while a command was waited for
		return ctx.Err()
	}
	return asUsage(errors.Join(errs...))
}

// hops reads a flag that lists hops. One that is given and empty (a variable that was not set) is refused: it would mean
// the whole chain.
func hops(cmd *cobra.Command, flag string, names []string) ([]diag.HopID, error) {
	if len(names) == 0 && cmd.Flags().Changed(flag) {
		return nil, fmt.Errorf("--%s: no hop is named (gpuaasctl preflight hops lists them)", flag)
	}
	return preflight.CheckHops(flag, names)
}

// checkIDs refuses ids that cannot be ones: they go into URLs, headers and commands to paste.
func checkIDs(o *preflightOptions) error {
	var errs []error
	for _, id := range [...]struct{ flag, value string }{
		{"node-id", o.nodeID}, {"node-host", o.nodeHost}, {"allocation-id", o.allocationID},
		{"session-id", o.sessionID}, {"correlation-id", o.correlationID},
	} {
		if strings.ContainsFunc(id.value, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) || strings.ContainsRune("'\"`$\\;|&<>", r) }) ||
			strings.HasPrefix(id.value, "-") || len(id.value) > 255 {
			errs = append(errs, fmt.Errorf("--%s: %q cannot be one", id.flag, id.value))
		}
	}
	return errors.Join(errs...)
}

// Bounds of --deadline.
const (
	minDeadline = 100 * time.Millisecond
	maxDeadline = time.Hour
)

func checkDeadline(d time.Duration) error {
	if d < minDeadline || d > maxDeadline {
		return fmt.Errorf("--deadline: want between %s and %s, not %s", minDeadline, maxDeadline, d)
	}
	return nil
}
