package probe

import (
	"testing"
	"time"
)

// TestAHungSystemdIsAskedOnce: each question costs its whole limit, so "no agent runs" is believed for as long as a
// walk takes, and not asked for again before every request.
func TestAHungSystemdIsAskedOnce(t *testing.T) {
	f := newFakes(t)
	s := inServer()
	s.cfg.Unit = "x.service"
	for _, c := range []struct {
		name, script string
		ago          time.Duration
		stale        bool
	}{
		{"it answers", "echo LoadState=not-found; echo ActiveState=inactive; echo MainPID=0", 0, false},
		{"it answered, a while ago", "echo LoadState=not-found; echo ActiveState=inactive; echo MainPID=0", 8 * time.Second,
			true},
		{"it hangs", "exec sleep 60", 0, false},
		{"it hung, a while ago", "", 8 * time.Second, false},
	} {
		if c.script != "" {
			f.script(t, "systemctl", c.script)
			if err := s.eyes.close(); err != nil {
				t.Fatal(err)
			}
			s.eyes = s.look(t.Context())
		}
		found := s.eyes.found
		s.eyes.found = found.Add(-c.ago)
		if s.eyes.stale() != c.stale {
			t.Errorf("%s: stale is %t after %s and a look of %s", c.name, !c.stale, c.ago, s.eyes.took)
		}
	}
	if err := s.eyes.close(); err != nil {
		t.Fatal(err)
	}
}
