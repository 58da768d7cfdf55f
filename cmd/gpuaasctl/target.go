package main

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
)

// targetOptions is how every command but preflight is told which node it is about: NODE as its one argument, and a
// profile.
type targetOptions struct {
	profile  profileFlags
	nodeHost string
	libexec  string
	deadline time.Duration
	nobody   bool // nobody is to be asked: the profile's commands are not run
}

// flags declares them on cmd.
func (o *targetOptions) flags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	o.profile.addName(a, cmd)
	f.StringVar(&o.nodeHost, "node-host", "", "where the node is reached by SSH: `HOST` name or address")
	f.DurationVar(&o.deadline, "deadline", defaultDeadline, "end after this `TIME`")
	f.StringVar(&o.libexec, "libexec", "", "`FOLDER` of gpuaas-agent, which is put on nodes that lack it (default: beside this program)")
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.nodeIDs(o.profile.name), cobra.ShellCompDirectiveNoFileComp
	}
}

// target makes the job of a command about one node, or about the whole profile where node is empty. It reads local
// files and runs the commands that print secrets, but touches no network itself; j.vantages() are the places to measure from, to be given back by closeAll.
func (a *app) target(cmd *cobra.Command, o *targetOptions, node string) (*job, error) {
	p, _, err := o.profile.load(a, cmd)
	if err != nil {
		return nil, err
	}
	ids := &preflightOptions{nodeID: node, nodeHost: o.nodeHost}
	if err := checkIDs(ids); err != nil {
		return nil, &usageError{err: err, command: cmd.CommandPath()}
	}
	if err := checkDeadline(o.deadline); err != nil {
		return nil, &usageError{err: err, command: cmd.CommandPath()}
	}
	j := &job{libexec: o.libexec, hostArg: o.nodeHost, profileArg: cmp.Or(o.profile.name, a.env(profile.EnvProfile))}
	j.RunID, j.Began, j.Tool = preflight.NewID("run"), time.Now(), toolVersion()
	if err := j.secrets(cmd.Context(), p, !o.nobody); err != nil {
		return nil, err
	}
	p = p.WithDefaults()
	j.Env.Profile = p
	j.Env.Subject = preflight.NewSubject(p, node, o.nodeHost, "", "")
	if j.profileArg != "" && j.profileArg != p.Name { // its name alone would not be found
		j.Env.Subject.Expected["profile_file"] = j.profileArg
	}
	j.Env.CorrelationID = preflight.NewID("diag")
	return j, nil
}

// needHost refuses a command that goes to a node of which nobody knows where it is.
func (j *job) needHost() error {
	id, p := j.Env.Subject.NodeID, j.Env.Profile
	if j.Env.Subject.NodeHost != "" {
		return asUsage(vantage.CheckFiles(p.SSH))
	}
	if near := p.OtherNodes(id); near != "" {
		return usagef("the profile %s has no node %s (it has %s); where it is reached is given by nodes.%s.host there, or by --node-host",
			j.profileArg, id, near, id)
	}
	return usagef("where %s is reached is not known: give nodes.%s.host in a profile (--profile NAME), or --node-host", id, id)
}

// unknownNode is the error for a node that the platform says it does not know, of which nothing else is known either:
// nil where f says something else, or where the node's host is known.
func (j *job) unknownNode(f *diag.Fact) error {
	if f.HTTP == nil || f.HTTP.Status != http.StatusNotFound || f.Failure != diag.HTTPStatus || j.Env.Subject.NodeHost != "" {
		return nil
	}
	id, p, near := j.Env.Subject.NodeID, j.Env.Profile, ""
	if others := p.OtherNodes(id); others != "" {
		near = "; nodes of the profile: " + others
	}
	return usagef("the platform at %s knows no node %s (HTTP 404)%s", p.APIBase, id, near)
}

// again is a command about this job's node, to paste: the words before NODE, then flags.
func (j *job) again(words ...string) string {
	argv := []string{"gpuaasctl"}
	n := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
	if n < 0 {
		n = len(words)
	}
	argv = append(append(argv, words[:n]...), j.Env.Subject.NodeID)
	if j.profileArg != "" {
		argv = append(argv, "--profile", j.profileArg)
	}
	if j.hostArg != "" {
		argv = append(argv, "--node-host", j.hostArg)
	}
	return diag.Command(append(argv, words[n:]...)...)
}
