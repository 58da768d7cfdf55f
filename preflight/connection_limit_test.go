package preflight

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// limited is a path that drops new connections while there are most of them. The agent's own are among the first.
type limited struct {
	mu         sync.Mutex // guards open
	open, most int
}

func (l *limited) pass(diag.Request, time.Duration) passage {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := passage{took: time.Hour, phase: "tcp", tcp: diag.TCPFacts{Remote: "192.0.2.11:443", Resent: new(int64)},
		passed: func(*diag.Fact) {}}
	if l.open < l.most {
		l.open++
		p.took = 5 * time.Millisecond
		time.AfterFunc(20*time.Millisecond, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.open--
		})
	}
	return p
}

// TestConnectionLimitIsNoDeadPath: where new connections of the node fail and its agent gets through in the same walk,
// every verdict about the way says both, and none calls the control plane unreachable.
func TestConnectionLimitIsNoDeadPath(t *testing.T) {
	failing := 0
	for most := range 6 {
		t.Run(fmt.Sprintf("%d more", most), func(t *testing.T) {
			seeded(t, howOften(t, "GPUAASCTL_LIMITED_WALKS", 8, 2), func(t *testing.T, _ int, _ *rand.Rand) *diag.Report {
				l := &limited{most: most}
				v := bothAlong(l.pass)
				v[hop.Operator] = &scripted{name: hop.Operator}
				r := walkFrom(context.Background(), testEnv(), v)
				b := blameOf(r)
				if b.Signal == "" {
					return r
				}
				failing++
				if !strings.Contains(b.Text, "limit on connections") {
					t.Errorf("%s: %s", b.Signal, b.Text)
				}
				if r.Verdict.Reason == diag.ReasonControlPlaneUnreachable || r.Verdict.Reason == diag.ReasonNodeAgentUnreachable {
					t.Errorf("%s: %s\n%s", r.Verdict.Reason, b.Text, describe(r))
				}
				return r
			}, func(diag.Blame) bool { return false })
		})
	}
	if failing == 0 {
		t.Error("no walk met the limit: the test shows nothing")
	}
}
