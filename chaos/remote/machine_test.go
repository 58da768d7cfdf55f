package remote

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

func TestFault(t *testing.T) {
	b := newBench(t)
	m := b.open(t)
	secret := bytes.Repeat([]byte("top-secret"), 20_000)
	r, err := m.Fault(t.Context(), secret, "arm", "--why", "it's 50 $HOME")
	if err != nil || r.Version != "test" || r.Error != "arm|--why|it's 50 $HOME 200000 a430da06" {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err = m.Fault(t.Context(), nil, "revert"); err != nil || r.Refused == nil || r.Refused.Code != step.RefusedNone {
		t.Errorf("a refusal is an answer: %+v %v", r, err)
	}
	if n := len(b.pushed(t)); n != 1 {
		t.Errorf("%d programs there", n)
	}
	if got := len(b.Execs()); got != 4 || b.Logins() != 1 { // one that finds nothing, the push, and two
		t.Errorf("%d commands over %d connections", got, b.Logins())
	}
	for _, line := range b.Execs() {
		if strings.Contains(line, "top-secret") {
			t.Error("what a drill holds was on a command line")
		}
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.dir); err == nil {
		t.Error("the tmpfs is still there")
	}
	if r, err = m.Fault(t.Context(), nil, "renew"); err != nil || !strings.HasPrefix(r.Error, "renew 0 ") {
		t.Errorf("after leaving: %+v %v", r, err)
	}
}
