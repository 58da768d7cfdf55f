package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// CheckGPUs checks the session's node over SSH. Our programs run there once, and are not kept: the login runs them, as
// root where it may. An UnreadError means that the node could not be asked at all.
func (s *Session) CheckGPUs(ctx context.Context) (*GPUCheck, error) {
	if err := s.RequireHost(); err != nil {
		return nil, err
	}
	cfg := s.nodeConfig()
	mode := cfg.SSH.Sudo
	cfg.Bare, cfg.SSH.Sudo = true, new(bool)
	node := vantage.NewNode(cfg)
	defer node.Close()
	r := remoteCheck{node: node, check: &GPUCheck{Node: s.of.Node}, dirs: vantage.HelperDirs(s.site.Libexec)}
	r.agents, r.agentsWhy = vantage.Programs(r.dirs, agentProbe, s.site.Build)
	r.probes, r.probesWhy = vantage.Programs(r.dirs, gpuProbe, s.site.Build)
	var err error
	r.machine, err = node.Machine(ctx, mode, installedIn(cfg.Agent.Binary), slices.Concat(r.agents, r.probes)...)
	if err != nil {
		return nil, notRead(ctx, s.of.Node, err)
	}
	r.unit, r.envFile = cfg.Agent.Unit, cfg.Agent.EnvFile
	r.kernelLog(ctx)
	if ctx.Err() == nil {
		r.sample(ctx)
	}
	if ctx.Err() != nil {
		return nil, notRead(ctx, s.of.Node, context.Cause(ctx))
	}
	if r.machine.As == "login" {
		r.check.Notes = append(r.check.Notes, "the login is not root there, and did not become root")
	}
	return r.check, nil
}

// notRead is the error of a node that could not be asked.
func notRead(ctx context.Context, node string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &UnreadError{fmt.Errorf("the check of the GPUs of %s did not end within the deadline", node)}
	}
	return &UnreadError{fmt.Errorf("check the GPUs of %s: %w", node, err)}
}

// installedIn returns the folders where a node may have our programs.
func installedIn(agent string) []string {
	dirs := []string{"/usr/local/bin", "/usr/libexec/gpuaas"}
	if i := strings.LastIndexByte(agent, '/'); i > 0 && !slices.Contains(dirs, agent[:i]) {
		dirs = append(dirs, agent[:i])
	}
	return dirs
}

// remoteCheck is one check of a node.
type remoteCheck struct {
	node                 *vantage.Node
	machine              vantage.Machine
	check                *GPUCheck
	dirs                 []string
	agents, probes       []vantage.Program
	agentsWhy, probesWhy error
	unit, envFile        string
	library              string   // that the agent uses; "": the system's
	env                  []string // NAME=value
}

// program returns the program for the node's type of machine, or why there is none.
func (r *remoteCheck) program(ours []vantage.Program, name string, refused error) (p vantage.Program, why string) {
	i := slices.IndexFunc(ours, func(p vantage.Program) bool { return p.Machine == r.machine.Uname })
	switch {
	case i >= 0:
		return ours[i], ""
	case refused != nil:
		return p, refused.Error()
	}
	return p, fmt.Sprintf("there is no %s for %s in %s (make dist builds it; see --libexec)", name, r.machine.Uname,
		strings.Join(r.dirs, ", "))
}

// kernelLog reads the node's kernel log, and which library its agent uses.
func (r *remoteCheck) kernelLog(ctx context.Context) {
	p, why := r.program(r.agents, agentProbe, r.agentsWhy)
	if why != "" {
		r.check.blind(why)
		return
	}
	input, err := probe.Requests(gpuLogRequest(), diag.Request{ID: "env", Op: diag.OpEnv, View: diag.ViewHost,
		Env: []string{gpuLibraryVariable, gpuFakeVariable}})
	if err != nil {
		r.check.blind(err.Error())
		return
	}
	ran, err := r.node.RunOnce(ctx, r.machine, vantage.Once{Program: p, Input: input, Within: gpuLogTime,
		Keep: gpuLogOutput, Args: []string{"probe", "--finish", "--unit", r.unit, "--env-file", r.envFile}})
	if err != nil {
		r.check.blind(err.Error())
		return
	}
	_, facts, err := probe.Answers(ran.Output)
	if err != nil {
		r.check.blind(fmt.Sprintf("%s on the node ended with exit code %d: %s", agentProbe, ran.Code,
			cmp.Or(ran.Words, err.Error())))
		return
	}
	f := facts[gpuLogRequest().ID]
	r.check.addKernel(&f)
	if env := facts["env"].Env; env != nil {
		r.library = env.Values[gpuLibraryVariable]
		if answers := env.Values[gpuFakeVariable]; answers != "" {
			r.env = append(r.env, gpuFakeVariable+"="+answers)
		}
	}
}

// gpuLogRequest asks for what the kernel says of GPUs, without the agent's file.
func gpuLogRequest() diag.Request {
	return diag.Request{ID: "gpu", Op: diag.OpGPU, View: diag.ViewHost, Evidence: true}
}

// sample runs the probe on the node.
func (r *remoteCheck) sample(ctx context.Context) {
	p, why := r.program(r.probes, gpuProbe, r.probesWhy)
	if why != "" {
		r.check.unprobed(report.Missing, why)
		return
	}
	ran, err := r.node.RunOnce(ctx, r.machine, vantage.Once{Program: p, Library: r.library, Env: r.env,
		Within: gpuProbeTime, Keep: gpuProbeOutput, Args: []string{"--call-deadline", gpuCallDeadline.String()}})
	switch {
	case errors.As(err, new(*vantage.NoProgramError)):
		r.check.unprobed(report.Unstartable, err.Error())
		return
	case err != nil:
		r.check.unprobed(report.Stuck, err.Error())
		return
	case ran.Unused != "":
		r.check.Notes = append(r.check.Notes, "the library that the node's agent uses was not loaded: "+ran.Unused)
	}
	r.check.probed(ran.Output, ran.Code, ran.Words)
}
