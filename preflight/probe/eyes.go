package probe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Values of Fact.AgentView for a request with the agent's view.
const (
	ViewEntered      = "namespace"     // seen as the agent sees, whether in a namespace of its own or in the host's
	ViewNoProcess    = "no process"    // no agent runs: plain files
	ViewNotPermitted = "not permitted" // we may not enter (not root): plain files

	// ViewLoginNetwork is of a request over the network, whatever its view: the login is in a network namespace of its
	// own that is neither the machine's nor the agent's, and may not leave it.
	ViewLoginNetwork = "login's network"
)

// relook is how long "no agent runs" is believed, and relookTimes how many times as long as it took to find out: a
// systemd that hangs costs each look its whole limit, and must not cost each request that.
const (
	relook      = time.Second
	relookTimes = 10
)

// eyes is the running agent as requests are measured for it: its environment, and its namespaces where they are not
// ours. An agent that is restarted during a session has other ones.
type eyes struct {
	prober  *Prober
	inside  *namespace     // nil when everything is measured in this process
	mounts  *namespace     // its mounts without its network, where both are others
	machine *namespace     // the machine's network, where this process is in another one
	view    string         // AgentView of agent-view requests that are measured in this process
	started uint64         // the agent's start time, so that a reused PID is not taken for it
	found   time.Time      // when the looking ended
	took    time.Duration  // the looking
	inUse   sync.WaitGroup // requests that are measured with these eyes
}

// look finds the agent.
func (s *server) look(ctx context.Context) *eyes {
	began := time.Now()
	e := &eyes{}
	agent := AgentView{Unit: s.cfg.Unit, EnvFile: s.cfg.EnvFile, PID: s.cfg.Inside}
	if s.cfg.Inside == 0 {
		agent = DiscoverAgent(ctx, s.cfg.Unit, s.cfg.EnvFile)
		e.machine = machinesNetwork(agent.PID, s.cfg)
		e.inside, e.mounts, e.view = openNamespaces(agent.PID, s.cfg)
	} else {
		e.view = ViewEntered
		if agent.readProcess(); agent.Source == "" { // it has just ended, or is just starting
			agent.readFiles(nil)
		}
	}
	e.started = startTime(agent.PID)
	e.prober = &Prober{Vantage: VantageNode, Start: s.start, Agent: agent, Commands: true}
	e.found, e.took = time.Now(), time.Since(began)
	return e
}

// stale reports whether the agent is another one by now, or may be.
func (e *eyes) stale() bool {
	if e.prober.Agent.PID == 0 {
		return time.Since(e.found) > max(relook, relookTimes*e.took)
	}
	return startTime(e.prober.Agent.PID) != e.started
}

// current returns the agent as it is now. It stays usable until done is called.
func (s *server) current(ctx context.Context) (e *eyes, done func()) {
	s.eyesMu.Lock()
	defer s.eyesMu.Unlock()
	if s.cfg.Inside == 0 && s.eyes.stale() {
		old := s.eyes
		s.wg.Go(func() { // what is measured with the old ones may finish
			old.inUse.Wait()
			_ = old.close()
		})
		s.eyes = s.look(ctx)
	}
	s.eyes.inUse.Add(1)
	return s.eyes, s.eyes.inUse.Done
}

// namespaceFor is where a request for the agent's view is measured; nil: in this process.
func (e *eyes) namespaceFor(req diag.Request) *namespace {
	if req.Network == diag.ViewHost && e.inside != nil && e.inside.net {
		return e.mounts
	}
	return e.inside
}

// close ends what the eyes keep open.
func (e *eyes) close() error {
	e.prober.Close()
	return errors.Join(e.inside.close(), e.mounts.close(), e.machine.close())
}

// AgentView is the running agent as the node's probe sees it. The zero value is "no agent known".
type AgentView struct {
	Unit    string            // systemd unit
	EnvFile string            // fallback when no process runs
	PID     int               // main process, 0 when none
	Source  string            // process | env_file; "" when neither could be read
	Env     map[string]string // only the names in EnvNames
	Denied  bool              // the environment is there and may not be read
}

// Sources of an agent's environment.
const (
	sourceProcess = "process"
	sourceEnvFile = "env_file"
)
