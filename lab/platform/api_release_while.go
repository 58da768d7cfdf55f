package platform

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

const (
	// maxReleaseSeconds bounds a temporary release.
	maxReleaseSeconds = 24 * 3600
	// cleaningTime is how long the end of a release waits for a clean-up in progress, which it polls at
	// cleaningLook. A client's request must not take much longer.
	cleaningTime, cleaningLook = 8 * time.Second, 100 * time.Millisecond
)

// releaseUntil reads the for_seconds of a release.
func releaseUntil(now time.Time, forSeconds int64) (time.Time, error) {
	switch {
	case forSeconds < 0 || forSeconds > maxReleaseSeconds:
		return time.Time{}, web.Errorf(http.StatusBadRequest, "release_time_invalid", "for_seconds is from 0 to %d",
			maxReleaseSeconds)
	case forSeconds == 0:
		return time.Time{}, nil
	}
	return now.Add(seconds(forSeconds)), nil
}

// getRelease responds with a single word, which changes when a release is requested or ends, but not while the
// node cleans up.
func (p *Platform) getRelease(w http.ResponseWriter, r *http.Request) error {
	a, err := p.store.Allocation(r.Context(), r.PathValue("id"))
	if err != nil {
		return notFound(err, "allocation")
	}
	word := "none"
	switch {
	case !a.ReleaseUntil.IsZero():
		word = "for_a_while"
	case a.State != store.StateActive && a.State != store.StateRequested:
		word = "for_good"
	}
	return web.Answer(w, http.StatusOK, map[string]string{"release": word})
}

// endRelease ends a temporary release early, and responds like getRelease. It waits for a clean-up in progress,
// and responds with 409 if that does not end in time.
func (p *Platform) endRelease(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), cleaningTime)
	defer cancel()
	d := p.decisionBy(r, store.EndReleaseAction, decisionRequest{Reason: "the release for a while is withdrawn"})
	for {
		d.At = p.now() // the decision takes effect after the clean-up, not at the request
		a, err := p.store.EndRelease(r.Context(), r.PathValue("id"), d)
		switch {
		case err == nil:
			p.log.Info("release ended", "allocation_id", a.ID, "state", a.State, "correlation_id", d.CorrelationID)
			return p.getRelease(w, r)
		case !errors.Is(err, store.ErrCleaning):
			return notFound(err, "allocation")
		}
		if !sleep.For(ctx, cleaningLook) {
			return web.Errorf(http.StatusConflict, "release_in_progress", "the node is cleaning up: ask again when it is done")
		}
	}
}

// endReleases reactivates every allocation whose temporary release is over. An allocation whose node is still
// cleaning up waits for the next sweep.
func (p *Platform) endReleases(ctx context.Context) error {
	over, err := p.store.ReleasesOver(ctx, p.now())
	if err != nil {
		return err
	}
	for _, a := range over {
		d := store.Decision{NodeID: a.NodeID, Action: store.EndReleaseAction, By: "platform",
			Reason: "the time of the release is over", CorrelationID: store.NewID("sweep-"), At: p.now()}
		_, err := p.store.EndRelease(ctx, a.ID, d)
		if err != nil && !errors.Is(err, store.ErrCleaning) {
			return err
		}
	}
	return nil
}
