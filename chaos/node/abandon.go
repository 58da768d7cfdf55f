//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Abandon removes what is left of a drill that has no journal, or none that says what it was: whoever was arming it died
// over it, before anything could be changed.
func (h Host) Abandon(ctx context.Context, id string) error {
	if _, err := os.Stat(h.folder(id)); err != nil {
		return step.Refuse(step.RefusedNone, "there is no drill %s on this machine", id)
	}
	unlock, err := lock(ctx, h.armLock(), lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := h.Open(id)
	var refused *step.Refusal
	switch {
	case err == nil && r.Journal.Ledger.Known:
		return errors.Join(step.Refuse(step.RefusedState, "drill %s is %s: it is reverted and closed, not abandoned", id, r.Journal.Ledger.Phase()), r.Shut())
	case err == nil:
		err = r.Shut()
	case errors.As(err, &refused):
		err = nil
	}
	if err != nil {
		return fmt.Errorf("abandon drill %s: %w", id, err)
	}
	return errors.Join(h.discard(ctx, id), h.tidy())
}
