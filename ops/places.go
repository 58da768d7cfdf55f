package ops

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/probe/command"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// places are where a session measures, by the names of a walk's vantages.
type places map[string]hop.Vantage

// open returns the places, which the caller closes. They connect with their first request.
func (s *Session) open() places {
	at := places{
		hop.Operator: vantage.Operator(&probe.Prober{Vantage: hop.Operator, Start: s.Began,
			Host: hostprobe.Prober{JudgeGPUs: s.judgeGPUs}, Command: command.Prober{Allowed: true, Own: true}}),
		hop.Node: vantage.NewNode(s.nodeConfig()),
	}
	if p := s.site.Profile.PlatformSSH; p.Host != "" {
		at[hop.Platform] = platformHost{vantage.NewNode(vantage.NodeConfig{
			ID: hop.Platform, Host: p.Host, SSH: p, Version: s.site.Tool, HelperDirs: vantage.HelperDirs(s.site.Libexec),
			Build: s.site.Build, Start: s.Began,
		})}
	}
	return at
}

// platformHost is the platform's own host as a vantage of a walk, reached like a node.
type platformHost struct{ *vantage.Node }

// Name is "platform".
func (p platformHost) Name() string { return hop.Platform }

// Probe answers every request, in order.
func (p platformHost) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	facts := p.Node.Probe(ctx, reqs)
	for i := range facts {
		facts[i].Vantage = hop.Platform
	}
	return facts
}

// Info describes the vantage for a report.
func (p platformHost) Info() diag.VantageInfo {
	info := p.Node.Info()
	info.ID = hop.Platform
	return info
}

// nodeConfig returns the login to the session's node, and the helper to use.
func (s *Session) nodeConfig() vantage.NodeConfig {
	p, of := s.site.Profile, s.env.Subject
	return vantage.NodeConfig{
		ID: of.NodeID, Host: of.NodeHost, SSH: p.SSHOf(of.NodeID), Command: p.Nodes[of.NodeID].Command, Agent: p.Agent,
		Version: s.site.Tool, HelperDirs: vantage.HelperDirs(s.site.Libexec), Build: s.site.Build,
		Start: s.Began, TrustArgs: s.trustArgs(),
	}
}

// trustArgs returns the flags with which `gpuaasctl ssh trust NODE` reaches the same host, with the same known_hosts
// file, as this session.
func (s *Session) trustArgs() []string {
	var args []string
	p, of := s.site.Profile, s.env.Subject
	if p.Name != "" {
		args = append(args, "--profile", s.site.Chosen)
	}
	if p.Nodes[of.NodeID].Host != of.NodeHost {
		args = append(args, "--node-host", of.NodeHost)
	}
	return args
}

// Host returns the login to a node of the profile, to the platform's machine, or to a host of that name. host overrides
// the node's address unless it is "".
func (s *Site) Host(node, host string) vantage.NodeConfig {
	p := s.Profile
	if _, isNode := p.Nodes[node]; node == chaos.Platform && !isNode && host == "" && p.PlatformSSH.Host != "" {
		return vantage.NodeConfig{ID: node, Host: p.PlatformSSH.Host, SSH: p.PlatformSSH}
	}
	return vantage.NodeConfig{ID: node, Host: cmp.Or(host, p.Nodes[node].Host, node), SSH: p.SSHOf(node),
		Command: p.Nodes[node].Command, Agent: p.Agent}
}

// Timeouts for closing connections: enough for an orderly close after a walk, almost none after Ctrl-C.
const (
	closeGrace          = 2 * time.Second
	closeGraceCancelled = 100 * time.Millisecond
)

// close closes the places. It ignores errors, since the measurements are complete; a connection that hangs ends with
// the process.
func (at places) close(ctx context.Context) {
	grace := closeGrace
	if ctx.Err() != nil {
		grace = closeGraceCancelled
	}
	var wg sync.WaitGroup
	for _, place := range at {
		wg.Go(func() { _ = place.Close() })
	}
	closed := make(chan struct{})
	go func() { wg.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(grace):
	}
}
