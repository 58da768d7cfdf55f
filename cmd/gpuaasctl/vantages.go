package main

import (
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// vantages are the places from which this job measures. Nothing is connected before the walk asks for it.
func (j *job) vantages() map[string]preflight.Vantage {
	return map[string]preflight.Vantage{
		preflight.Operator: vantage.Operator(&probe.Prober{Vantage: preflight.Operator, Start: j.Began}),
		preflight.Node:     vantage.NewNode(j.nodeConfig()),
	}
}

// nodeConfig says how this job gets to its node, and with which helper.
func (j *job) nodeConfig() vantage.NodeConfig {
	p, s := j.Env.Profile, j.Env.Subject
	return vantage.NodeConfig{
		ID: s.NodeID, Host: s.NodeHost, SSH: p.SSHOf(s.NodeID), Agent: p.Agent,
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
