package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	netprobe "github.com/gpuaas/gpuaasctl/preflight/probe/net"
)

const (
	maxProbes     = 64 // both sides of a whole walk, twice
	systemctlTime = 5 * time.Second
	portTime      = time.Second // the port is on this host
)

// runProbe takes the measurements that the platform asks for, from this node and as this process sees them.
func runProbe(ctx context.Context, r *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	var reqs []diag.Request
	if err := payload(task, &reqs); err != nil {
		return nil, nil, err
	}
	if len(reqs) > maxProbes {
		return nil, nil, &taskError{code: CodeTaskInvalid, err: fmt.Errorf("%d requests, more than %d", len(reqs), maxProbes)}
	}
	p := &probe.Prober{Vantage: probe.VantageNode, Start: time.Now(), Net: netprobe.Prober{Dial: r.cfg.Dial},
		Host: hostprobe.Prober{Agent: r.view()}}
	defer p.Close()
	facts := p.Probe(ctx, reqs)
	if err := ctx.Err(); err != nil && len(reqs) > 0 {
		return nil, nil, err
	}
	return facts, nil, nil
}

// view returns this process's own environment, as its probes see it.
func (r *runtime) view() hostprobe.AgentView {
	v := hostprobe.AgentView{PID: os.Getpid(), Source: "process", Env: map[string]string{
		KeyAPIURL: r.cfg.APIURL.String(), KeyNodeID: r.cfg.NodeID,
	}}
	if r.cfg.TerminalURL != nil {
		v.Env[KeyTerminalURL] = r.cfg.TerminalURL.String()
	}
	return v
}

// runStatusProbe probes a workload: systemd's state of its unit, and whether its port answers.
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
		result.PortOK = new(answers(ctx, r, p.Port))
	}
	return result, nil, nil
}

func activeState(ctx context.Context, unit string) (string, error) {
	out, err := host.Command{Limit: systemctlTime}.Output(ctx, host.ShowUnits("ActiveState", unit)...)
	if err != nil {
		return "", fmt.Errorf("ask systemd about %s: %w", unit, err)
	}
	return host.ParseUnits(out)[0]["ActiveState"], nil
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

// CodeTokenRefused reports a recovery token that is not valid for this node now; the existing token stays.
const CodeTokenRefused = "token_refused"

// runRotateToken replaces the recovery token. The platform signed the task; the token must also name this node, so
// that a mistake in the platform does not cost the node its recovery.
func runRotateToken(_ context.Context, r *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	var p wire.RotateTokenPayload
	if err := payload(task, &p); err != nil {
		return nil, nil, err
	}
	facts := tokenFacts(diag.NewSecret(p.Token))
	profile := r.cfg.Profile
	if _, meta, ok := r.creds.Current(); ok && profile == "" {
		profile = meta.Profile
	}
	if o := facts.refusal(Clocks{Own: time.Now()}, r.cfg.NodeID, profile, false); !o.OK() {
		return nil, nil, &taskError{code: CodeTokenRefused, reason: o.Reason, err: errors.New(o.Detail)}
	}
	_, err := withReserve(r.cfg.Reserve, func() error {
		return setEnv(r.cfg.EnvFile, map[string]string{KeyToken: p.Token})
	})
	if err != nil {
		return nil, nil, err
	}
	return rotated{ExpiresAt: facts.Claims.ExpiresAt.UTC(), Profile: facts.Claims.Profile, Digest: facts.Digest}, nil, nil
}

// rotated is the reported result of a rotation; the token itself is only in the file.
type rotated struct {
	ExpiresAt time.Time `json:"expires_at"`
	Profile   string    `json:"environment_profile,omitempty"`
	Digest    string    `json:"digest"`
}

// recordEntry returns the record's entry for a task that changed something on this node; nil for others.
func recordEntry(task *wire.Task, output any) *Decision {
	r, ok := output.(rotated)
	if !ok {
		return nil
	}
	return &Decision{Reason: diag.RecRecoveryTokenRotated, About: "task", What: "update", TaskID: task.ID,
		Correlation: task.CorrelationID, Detail: "the recovery token is good until " + formatTime(r.ExpiresAt),
		Facts: map[string]string{"token_digest": r.Digest, "environment_profile": r.Profile}}
}
