package agent

import (
	"os"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
)

// token is the enrollment token as of now. The process was given one when it started; once the environment file has
// changed since, the file counts: a token that was rotated needs no restart.
func (r *runtime) token() diag.Secret {
	if token, changed := tokenIn(r.cfg.EnvFile, r.envSeen); changed {
		return token
	}
	return r.cfg.Token
}

// tokenIn is the token in an environment file, if that has changed since its stamp was seen and can be read.
func tokenIn(envFile, seen string) (token diag.Secret, changed bool) {
	if stamp(envFile) == seen {
		return token, false
	}
	text, err := os.ReadFile(envFile)
	if err != nil {
		return token, false
	}
	return diag.NewSecret(probe.ParseEnvFile(string(text))[KeyToken]), true
}

// enroll makes one attempt, if it can be written down first: a crash loop must not forget what it tried.
func (r *runtime) enroll(e Enroll) {
	token := r.token()
	if last := e.Ledger.Attempts[len(e.Ledger.Attempts)-1]; tokenFacts(token).Digest != last.Token {
		r.background(func() What {
			return EnrollDone{Outcome: Outcome{Reason: diag.RecRecoveryEnrollmentBlocked,
				Detail: "not tried: since it was looked at, another token was put in its place"}}
		})
		return
	}
	if err := r.ledger.save(e.Ledger, r.cfg.Reserve); err != nil {
		o := blockedBy(err)
		o.Detail = "not tried: " + o.Detail
		r.background(func() What { return EnrollDone{Outcome: o} })
		return
	}
	r.background(func() What {
		attempt := enrollment{cfg: r.cfg, creds: r.creds, instance: r.node.instance, profile: e.Profile, token: token, recovery: e.Recovery}
		o, room := attempt.run(r.work)
		return EnrollDone{Outcome: o, Room: room}
	})
}

// askClock asks whoever answers for the node API, by the runtime path and then by the recovery path.
func (r *runtime) askClock() Outcome {
	var o Outcome
	for _, recovery := range [...]bool{false, true} {
		a := bareAPI(r.cfg, r.creds, r.node.instance, recovery)
		o = a.askClock(r.work)
		a.close()
		if o.Dated || (r.cfg.RecoveryURL == nil && r.cfg.RecoveryCA == "") {
			break
		}
	}
	return o
}

func (r *runtime) fallBack() (o Outcome) {
	_, err := withReserve(r.cfg.Reserve, func() error {
		_, err := r.creds.Back(good(r.cfg.NodeID, time.Now()))
		return err
	})
	if err != nil {
		o = blockedBy(err)
	}
	return o
}
