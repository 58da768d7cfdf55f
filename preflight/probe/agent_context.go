package probe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/command"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
)

// Values of Fact.AgentView for a request with the agent's view.
const (
	ViewEntered      = "namespace"     // measured as the agent sees it, in its own namespace or in the host's
	ViewNoProcess    = "no process"    // no agent runs: plain files
	ViewNotPermitted = "not permitted" // not root, so the namespaces cannot be entered: the host's files

	// ViewLoginNetwork marks a request over the network, whatever its view: the login is in a network namespace that is
	// neither the machine's nor the agent's, and cannot leave it.
	ViewLoginNetwork = "login's network"
)

// absenceTime is how long "no agent runs" is cached, and absenceTimes the same as a multiple of the time that it took
// to find out: a systemd that hangs costs each query its whole timeout, which must not happen for each request.
const (
	absenceTime  = time.Second
	absenceTimes = 10
)

// agentContext is the running agent's environment, and its namespaces if they differ from ours. A restarted agent gets
// new ones.
type agentContext struct {
	prober  *Prober
	inside  *namespace     // nil if everything is measured in this process
	mounts  *namespace     // its mount namespace without its network namespace, if both differ
	machine *namespace     // the machine's network, if this process is in another one
	view    string         // AgentView of agent-view requests that are measured in this process
	started uint64         // the agent's start time, to detect a reused PID
	found   time.Time      // when the looking ended
	took    time.Duration  // the looking
	inUse   sync.WaitGroup // requests that are being measured with this context
}

// findAgent finds the agent.
func (s *server) findAgent(ctx context.Context) *agentContext {
	began := time.Now()
	e := &agentContext{}
	agent := hostprobe.AgentView{Unit: s.cfg.Unit, EnvFile: s.cfg.EnvFile, PID: s.cfg.Inside}
	if s.cfg.Inside == 0 {
		agent = hostprobe.DiscoverAgent(ctx, s.cfg.Unit, s.cfg.EnvFile)
		e.machine = machinesNetwork(agent.PID, s.cfg)
		e.inside, e.mounts, e.view = openNamespaces(agent.PID, s.cfg)
	} else {
		e.view = ViewEntered
		agent.ReadEnv() // from the file if it has just ended, or is just starting
	}
	e.started = hostprobe.StartTime(agent.PID)
	e.prober = &Prober{Vantage: VantageNode, Start: s.start, Host: hostprobe.Prober{Agent: agent, Commands: true},
		Command: command.Prober{Allowed: true}}
	e.found, e.took = time.Now(), time.Since(began)
	return e
}

// stale reports whether the agent is, or may be, another process by now.
func (e *agentContext) stale() bool {
	if e.prober.Host.Agent.PID == 0 {
		return time.Since(e.found) > max(absenceTime, absenceTimes*e.took)
	}
	return hostprobe.StartTime(e.prober.Host.Agent.PID) != e.started
}

// current returns the current agent. It stays usable until done is called.
func (s *server) current(ctx context.Context) (e *agentContext, done func()) {
	s.agentMu.Lock()
	defer s.agentMu.Unlock()
	if s.cfg.Inside == 0 && s.agent.stale() {
		old := s.agent
		s.wg.Go(func() { // measurements in progress may finish
			old.inUse.Wait()
			_ = old.close()
		})
		s.agent = s.findAgent(ctx)
	}
	s.agent.inUse.Add(1)
	return s.agent, s.agent.inUse.Done
}

// namespaceFor returns where a request for the agent's view is measured; nil: in this process.
func (e *agentContext) namespaceFor(req diag.Request) *namespace {
	if req.Network == diag.ViewHost && e.inside != nil && e.inside.net {
		return e.mounts
	}
	return e.inside
}

// close closes the namespaces.
func (e *agentContext) close() error {
	e.prober.Close()
	return errors.Join(e.inside.close(), e.mounts.close(), e.machine.close())
}
