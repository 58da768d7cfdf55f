package probe

import (
	"errors"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// errOverBudget ends a connection whose node answers more than any real one does.
var errOverBudget = errors.New("the node's answers are larger than this tool keeps for one connection (16 MiB at once, " +
	"a list element counted as 1 KiB)")

// budget is what the answers of one connection may still cost, as bounded.LinkBudget says. It grows with time, since a
// connection may be kept for days.
type budget struct {
	left int
	at   time.Time // of the last answer
}

// take spends cost; false when it is not there. Once spent, a budget stays so for the connection, which ends.
func (b *budget) take(cost int, now time.Time) bool {
	if !b.at.IsZero() {
		grown := now.Sub(b.at).Seconds() * bounded.LinkRefill
		b.left = int(min(float64(b.left)+grown, bounded.LinkBudget))
	}
	b.at = now
	b.left -= cost
	return b.left >= 0
}
