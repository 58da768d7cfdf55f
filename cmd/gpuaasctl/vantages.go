package main

import (
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// vantages are the places from which this job measures. Nothing is connected before the walk asks for it.
func (j *job) vantages() map[string]preflight.Vantage {
	places := map[string]preflight.Vantage{
		preflight.Operator: vantage.Operator(&probe.Prober{Vantage: preflight.Operator, Start: j.Began}),
		preflight.Node:     vantage.NewNode(j.nodeConfig()),
	}
	if host := j.platformNode(); host != nil {
		places[preflight.Platform] = platformHost{host}
	}
	return places
}

// platformNode is the way to the platform's own host, nil where the profile has none.
func (j *job) platformNode() *vantage.Node {
	p := j.Env.Profile
	if p.PlatformSSH.Host == "" {
		return nil
	}
	return vantage.NewNode(vantage.NodeConfig{ID: preflight.Platform, Host: p.PlatformSSH.Host, SSH: p.PlatformSSH,
		Version: j.Tool, HelperDirs: vantage.HelperDirs(j.libexec), Start: j.Began})
}

// platformHost is the platform's own host as a vantage of a walk: it is reached as a node is, and is none.
type platformHost struct{ *vantage.Node }

// Name is "platform".
func (p platformHost) Name() string { return preflight.Platform }

// Probe answers every request, in order.
func (p platformHost) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	facts := p.Node.Probe(ctx, reqs)
	for i := range facts {
		facts[i].Vantage = preflight.Platform
	}
	return facts
}

// Info describes the vantage for a report.
func (p platformHost) Info() diag.VantageInfo {
	info := p.Node.Info()
	info.ID = preflight.Platform
	return info
}

// nodeConfig says how this job gets to its node, and with which helper.
func (j *job) nodeConfig() vantage.NodeConfig {
	p, s := j.Env.Profile, j.Env.Subject
	return vantage.NodeConfig{
		ID: s.NodeID, Host: s.NodeHost, SSH: p.SSH, Agent: p.Agent,
		Version: j.Tool, HelperDirs: vantage.HelperDirs(j.libexec), Start: j.Began, TrustArgs: j.trustArgs(),
	}
}

// trustArgs makes `gpuaasctl ssh trust NODE` get to the same host with the same known_hosts file as this walk.
func (j *job) trustArgs() []string {
	var args []string
	p, s := j.Env.Profile, j.Env.Subject
	if p.Name != "" {
		args = append(args, "--profile", j.profileArg)
	}
	if p.Nodes[s.NodeID].Host != s.NodeHost {
		args = append(args, "--node-host", s.NodeHost)
	}
	return args
}

// Patience with a connection that does not close: one goodbye after a whole walk, hardly any after Ctrl-C.
const (
	closeGrace          = 2 * time.Second
	closeGraceCancelled = 100 * time.Millisecond
)

// closeAll gives vantages back. What they measured is in the facts, so an error has nothing to add; a connection that
// hangs ends with the process.
func closeAll(ctx context.Context, vantages map[string]preflight.Vantage) {
	grace := closeGrace
	if ctx.Err() != nil {
		grace = closeGraceCancelled
	}
	var wg sync.WaitGroup
	for _, place := range vantages {
		wg.Go(func() { _ = place.Close() })
	}
	closed := make(chan struct{})
	go func() { wg.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(grace):
	}
}
