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

// vantages are the places from which one walk measures. Nothing is connected before the walk asks for it.
type vantages struct {
	operator *vantage.Local
	node     *vantage.Node
}

func (j *job) vantages() *vantages {
	p, s := j.env.Profile, j.env.Subject
	return &vantages{
		operator: vantage.Operator(&probe.Prober{Vantage: preflight.Operator, Start: j.began}),
		node: vantage.NewNode(vantage.NodeConfig{
			ID: s.NodeID, Host: s.NodeHost, SSH: p.SSH, Agent: p.Agent,
			Version: toolVersion(), HelperDirs: vantage.HelperDirs(j.libexec), Start: j.began, TrustArgs: j.trustArgs(),
		}),
	}
}

// trustArgs makes `gpuaasctl ssh trust NODE` get to the same host with the same known_hosts file as this walk.
func (j *job) trustArgs() []string {
	var args []string
	p, s := j.env.Profile, j.env.Subject
	if p.Name != "" {
		args = append(args, "--profile", j.profileArg)
	}
	if p.Nodes[s.NodeID].Host != s.NodeHost {
		args = append(args, "--node-host", s.NodeHost)
	}
	return args
}

// byName is what the walk asks for.
func (v *vantages) byName() map[string]preflight.Vantage {
	return map[string]preflight.Vantage{preflight.Operator: v.operator, preflight.Node: v.node}
}

// Patience with a connection that does not close: one goodbye after a whole walk, hardly any after Ctrl-C.
const (
	closeGrace          = 2 * time.Second
	closeGraceCancelled = 100 * time.Millisecond
)

// close gives the vantages back. What they measured is in the facts, so an error has nothing to add; a connection that
// hangs ends with the process.
func (v *vantages) close(ctx context.Context) {
	grace := closeGrace
	if ctx.Err() != nil {
		grace = closeGraceCancelled
	}
	var wg sync.WaitGroup
	for _, place := range v.byName() {
		wg.Go(func() { _ = place.Close() })
	}
	closed := make(chan struct{})
	go func() { wg.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(grace):
	}
}

// infos says from where was measured, as far as the facts tell.
func (v *vantages) infos(facts []diag.Fact, hostname string) []diag.VantageInfo {
	operator := diag.VantageInfo{ID: preflight.Operator, How: "in process", Host: hostname}
	node := v.node.Info()
	for i := range facts {
		f, info := &facts[i], &operator
		if f.Vantage == preflight.Node {
			info = &node
		}
		if f.DNS != nil && info.Resolver == "" && f.Request.Resolver == "" {
			info.Resolver = f.DNS.Server
		}
	}
	return []diag.VantageInfo{operator, node}
}
