package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestGuestAgentKindAgainstThePlatform runs the kind's own commands against the reference platform: the injected
// status is read back, undo restores the previous status, even if it runs twice, and without undo the status
// expires.
func TestGuestAgentKindAgainstThePlatform(t *testing.T) {
	var ahead atomic.Int64 // of the platform's clock
	p := platformtest.StartPlatform(t,
		platformtest.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	params := &guestAgentParams{Node: platformtest.NodeID, API: p.APIBase, Status: "down", For: Duration(2 * time.Minute)}
	made, do := onPlatform(t, p, "guest-agent", params)
	run := made.Changes[1].Run
	if !run.Late {
		t.Error("its state is read before there is a token")
	}
	before := do(run.State)
	for range 2 {
		do(run.Do)
		if now := do(run.State); now != run.Injected || now == before {
			t.Fatalf("it was %s and is %s, want %s", before, now, run.Injected)
		}
		do(run.Undo)
		do(run.Undo)
		if now := do(run.State); now != before {
			t.Fatalf("after undo it is %s, and was %s", now, before)
		}
	}
	do(run.Do)
	do(run.Do) // the previous status is not overwritten
	ahead.Store(int64(3 * time.Minute))
	if do(run.State) != before {
		t.Errorf("nobody withdrew it: after its time it is %s, and was %s", do(run.State), before)
	}
}

// onPlatform plans a kind for a platform, and returns a function that runs its commands there, with the operator's
// token in a header.
func onPlatform(t *testing.T, p *platformtest.Platform, kind string, params any) (Made, func(step.Exec) string) {
	t.Helper()
	tier.NeedsHost(t)
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl on this machine")
	}
	k, _ := KindOf(kind)
	if found := k.check(params); len(found) > 0 {
		t.Fatal(found)
	}
	m := testMachine(RolePlatform, "platform")
	m.Tools["curl"] = Tool(curl)
	token, err := os.ReadFile(p.OperatorTokenFile)
	if err != nil {
		t.Fatal(err)
	}
	header := filepath.Join(t.TempDir(), "header")
	if err := os.WriteFile(header, append([]byte("Authorization: Bearer "), token...), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Case{Run: "r1", Step: "s", Profile: testProfile(), Machine: &m, minted: Mint.placeholder}
	made, no := k.make(params, c)
	if no != nil {
		t.Fatal(no)
	}
	return made, func(e step.Exec) string {
		t.Helper()
		var argv []string
		for _, a := range e.Argv {
			argv = append(argv, strings.Replace(a, "@"+c.runPath("header"), "@"+header, 1))
		}
		cmd := exec.Command("curl", argv[1:]...)
		cmd.Env = append(os.Environ(), "CURL_CA_BUNDLE="+p.CAFile)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", e.Line(), err, out)
		}
		return strings.TrimSpace(string(out))
	}
}
