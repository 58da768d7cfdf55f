//go:build oldterminal

package agent

import (
	"net/http"
	"testing"

	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// TestOldTerminal: this build reports success and never connects, as the drill requires.
func TestOldTerminal(t *testing.T) {
	p := newFakePlatform(t)
	p.instead("GET "+wire.PathNodeTerminal, func(http.ResponseWriter, *http.Request) { t.Error("a stream was opened") })
	start(t, p.config(nil))
	p.task("t1", wire.TaskTerminalOpen, wire.TerminalOpenPayload{SessionID: "s1", OSUser: testuser.Name})
	if r := p.resultOf("t1"); r.Status != wire.TaskCompleted {
		t.Errorf("result %+v", r)
	}
}
