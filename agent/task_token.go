package agent

import (
	"context"
	"errors"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// CodeTokenRefused is a recovery token that is not for this node now; the one that is there stays.
const CodeTokenRefused = "token_refused"

// runRotateToken puts the next recovery token in the place of the one that is there. The platform signed the task; the
// token must also say of itself that it is this node's, so that a mistake over there does not cost a node its way back.
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

// rotated is what a rotation says of the token that is in place now; the token itself is nowhere but in the file.
type rotated struct {
	ExpiresAt time.Time `json:"expires_at"`
	Profile   string    `json:"environment_profile,omitempty"`
	Digest    string    `json:"digest"`
}

// note is the record's line on a task that changed something on this node; nil for others.
func note(task *wire.Task, output any) *Decision {
	r, ok := output.(rotated)
	if !ok {
		return nil
	}
	return &Decision{Reason: diag.RecRecoveryTokenRotated, About: "task", What: "update", TaskID: task.ID, Correlation: task.CorrelationID,
		Detail: "the recovery token is good until " + said(r.ExpiresAt),
		Facts:  map[string]string{"token_digest": r.Digest, "environment_profile": r.Profile}}
}
