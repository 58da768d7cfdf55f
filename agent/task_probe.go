package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/wire"
)

const (
	maxProbes     = 64 // a whole walk's node side, twice
	systemctlTime = 5 * time.Second
	portTime      = time.Second // the port is on this host
)

// runProbe measures what the platform asks for, from here and as this process sees it.
func runProbe(ctx context.Context, r *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	var reqs []diag.Request
	if err := payload(task, &reqs); err != nil {
		return nil, nil, err
	}
	if len(reqs) > maxProbes {
		return nil, nil, &taskError{code: CodeTaskInvalid, err: fmt.Errorf("%d requests, more than %d", len(reqs), maxProbes)}
	}
	p := &probe.Prober{Vantage: probe.VantageNode, Start: time.Now(), Dial: r.cfg.Dial, Agent: r.view()}
	defer p.Close()
	facts := p.Probe(ctx, reqs)
	if err := ctx.Err(); err != nil && len(reqs) > 0 {
		return nil, nil, err
	}
	return facts, nil, nil
}

// view is this process as its own probes see it.
func (r *runtime) view() probe.AgentView {
	v := probe.AgentView{PID: os.Getpid(), Source: "process", Env: map[string]string{
		KeyAPIURL: r.cfg.APIURL.String(), KeyNodeID: r.cfg.NodeID,
	}}
	if r.cfg.TerminalURL != nil {
		v.Env[KeyTerminalURL] = r.cfg.TerminalURL.String()
	}
	return v
}

// runStatusProbe looks at a workload: systemd's word on its unit, and whether its port answers.
func runStatusProbe(ctx context.Context, r *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	var p wire.StatusProbePayload
	if err := payload(task, &p); err != nil {
		return nil, nil, err
	}
	if p.Unit == "" || strings.HasPrefix(p.Unit, "-") {
		return nil, nil, &taskError{code: CodeTaskInvalid, err: fmt.Errorf("%q is not a unit", p.Unit)}
	}
	state, err := activeState(ctx, p.Unit)
	if err != nil {
		return nil, nil, err
	}
	result := wire.StatusProbeResult{State: state, Running: state == "active"}
	if p.Port > 0 {
		ok := answers(ctx, r, p.Port)
		result.PortOK = &ok
	}
	return result, nil, nil
}

func activeState(ctx context.Context, unit string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", "show", "--property=ActiveState", "--value", "--", unit)
	cmd.WaitDelay = 200 * time.Millisecond
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask systemd about %s: %w", unit, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func answers(ctx context.Context, r *runtime, port int) bool {
	ctx, cancel := context.WithTimeout(ctx, portTime)
	defer cancel()
	c, err := r.cfg.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return c.Close() == nil
}
