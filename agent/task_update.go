package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/update"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// Times of a self-update.
const (
	fetchTimeout = 10 * time.Minute // one try at a package, on a slow link
	fetchPause   = 2 * time.Second  // after the first interrupted transfer; doubled up to a minute
	flushTimeout = 3 * time.Second  // the platform should learn of a restart first, if it is reachable
)

// CodeUpdateFailed reports a self-update that could not be prepared; the prior build keeps running.
const CodeUpdateFailed = "update_failed"

// errElsewhere ends a task whose result another process reports: the platform derives a self-update's result from
// the events of the next process.
var errElsewhere = errors.New("the result comes from elsewhere")

// runSelfUpdate executes a signed self-update: it writes the journal, prepares the package, and then exits so that
// the next process takes over.
func runSelfUpdate(ctx context.Context, r *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	b := r.cfg.Boot
	if b == nil {
		return nil, nil, &taskError{code: CodeTaskUnsupported,
			err: errors.New("this agent keeps no journal, so it cannot update itself")}
	}
	journal := b.keeper.Journal()
	a, refusal := journal.Accept(*task, r.self(), time.Now())
	switch {
	case refusal == nil:
	case refusal.Code == update.CodeOver && journal.Rollout.State == wire.RolloutConverged:
		return journal.Rollout.Rollout, nil, nil
	default:
		return nil, nil, &taskError{code: refusal.Code, reason: diag.RecTaskClaimFailed, err: refusal}
	}
	if r.cfg.Boot.Hold != "" {
		return nil, nil, &taskError{code: update.CodeBoundary,
			err: errors.New("this node has to be bootstrapped again: " + b.Hold)}
	}
	if _, err := b.keeper.Do(func(j update.Journal) update.Journal {
		if j.Rollout != nil && j.Rollout.ID == task.ID { // it was begun before a crash
			return j
		}
		return j.Begin(a, time.Now())
	}); err != nil {
		return nil, nil, &taskError{code: CodeUpdateFailed, reason: diag.RecDiskFull, err: err}
	}
	return nil, nil, r.carryOut(ctx, a)
}

// self describes this node for the check of a task's authority.
func (r *runtime) self() update.Node {
	n := update.Node{ID: r.cfg.NodeID, Profile: r.cfg.Profile, Keys: r.cfg.Verifiers}
	if n.Profile == "" {
		_, meta, _ := r.creds.Current() // an unreadable generation has no profile
		n.Profile = meta.Profile
	}
	return n
}

// carryOut takes an accepted update to the restart, from wherever a crash left it. It returns errElsewhere if this
// process has nothing more to report: it is about to exit, or was stopped.
func (r *runtime) carryOut(ctx context.Context, a update.Accepted) error {
	b := r.cfg.Boot
	if !b.working.TryLock() {
		return errElsewhere
	}
	defer b.working.Unlock()
	err := b.prepare(ctx, r.api.artifact, a)
	switch {
	case err != nil && r.work.Err() != nil: // stopped: the next process goes on
		return errElsewhere
	case err != nil:
		return b.failed(err)
	}
	flush, cancel := context.WithTimeout(r.posts, flushTimeout)
	r.sendEvents(flush)
	cancel()
	if err := b.activate(r.cfg.EnvFile, a.Payload); err != nil {
		return b.failed(err)
	}
	r.restart("self-update to " + a.Payload.Version)
	<-r.work.Done()
	return errElsewhere
}

// failed ends the rollout in the journal, and returns the task's error.
func (b *Boot) failed(err error) *taskError {
	_, errKeep := b.keeper.Do(func(j update.Journal) update.Journal { return j.Fail(scrubbed(err), time.Now()) })
	return &taskError{code: CodeUpdateFailed, reason: diag.RecSelfUpdateReverted, err: errors.Join(err, errKeep)}
}

// prepare fetches the package and writes the evidence: the last step before the irreversible one.
func (b *Boot) prepare(ctx context.Context, get fetcher, a update.Accepted) error {
	sha := a.Payload.SHA256
	if sha != b.keeper.Journal().Package.SHA256 {
		if err := b.fetch(ctx, sha, get); err != nil {
			return err
		}
	}
	_, err := b.keeper.Do(func(j update.Journal) update.Journal { return j.Verified(time.Now()) })
	return err
}

// fetch downloads the package, and retries interrupted transfers; a complete but wrong package is not retried.
func (b *Boot) fetch(ctx context.Context, sha string, get fetcher) error {
	for pause := fetchPause; ; pause = min(2*pause, time.Minute) {
		err := b.packages.Fetch(sha, func(take func(io.Reader) error) error { return get(ctx, sha, take) })
		if err == nil || !errors.As(err, new(*transferError)) {
			return err
		}
		if !sleep.For(ctx, pause) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// activate installs keys and token and makes the target the build that the next start runs. It is idempotent.
func (b *Boot) activate(envFile string, p wire.SelfUpdatePayload) error {
	set := map[string]string{}
	if p.Verifiers != "" {
		set[KeyTaskPubkeys] = p.Verifiers
	}
	if p.RecoveryToken != "" {
		set[KeyToken] = p.RecoveryToken
	}
	if len(set) > 0 {
		if err := setEnv(envFile, set); err != nil {
			return err
		}
		b.mu.Lock()
		b.env = set
		b.mu.Unlock()
	}
	_, err := b.keeper.Do(func(j update.Journal) update.Journal { return j.Activating(time.Now()) })
	return err
}

// restart exits this process so that the installed program decides again which build runs.
func (r *runtime) restart(why string) {
	b := r.cfg.Boot
	b.mu.Lock()
	first := b.restart == ""
	b.restart = why
	b.mu.Unlock()
	if first {
		r.feed(Shutdown{Why: why})
	}
}

// fetcher passes a package to take.
type fetcher func(ctx context.Context, sha string, take func(io.Reader) error) error

// transferError reports a package that was not transferred completely.
type transferError struct{ err error }

func (e *transferError) Error() string { return e.err.Error() }
func (e *transferError) Unwrap() error { return e.err }

// transfer marks errors while a package is read as transfer errors.
type transfer struct{ body io.Reader }

// Read implements io.Reader.
func (t transfer) Read(p []byte) (int, error) {
	n, err := t.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &transferError{err}
	}
	return n, err
}

// artifact passes the platform's copy of a package to take, and returns take's error.
func (a *api) artifact(ctx context.Context, sha string, take func(io.Reader) error) error {
	var taken error
	o := a.do(ctx, call{method: http.MethodGet, path: strings.ReplaceAll(wire.PathArtifact, "{sha256}", sha),
		timeout: fetchTimeout, fallback: diag.RecAPIUnreachable, sink: func(body io.Reader) { taken = take(transfer{body}) }})
	switch {
	case o.OK():
		return taken
	case o.Final:
		return fmt.Errorf("%s: %s", o.Reason, o.Detail)
	}
	return &transferError{fmt.Errorf("%s: %s", o.Reason, o.Detail)}
}
