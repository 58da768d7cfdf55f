package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// memory is a machine of places with a text each. Like a real change, a change parks the text that it finds; read
// is the text that a unit has read since it was notified, if there is a unit.
type memory struct {
	text, parked, read map[string]string
	held               map[string]bool
}

func newMemory() *memory {
	m := &memory{map[string]string{}, map[string]string{}, map[string]string{}, map[string]bool{}}
	for _, s := range drillOf("r").Steps {
		for _, c := range s.Changes {
			if m.text[c.Place()] = "as it was"; c.Notify != nil {
				m.read[c.Place()] = "as it was"
			}
		}
	}
	return m
}

// drillOf returns a drill with a change of every type: persistent or not, read by a unit, held, expiring by
// itself.
func drillOf(run string) step.Drill {
	leave := int64(0)
	file := func(p string) step.Change {
		return step.Change{File: &step.File{Path: p, Text: "x"}, Notify: []step.Notify{{Unit: "a.service", Verb: "reload"}}}
	}
	return step.Drill{
		Schema: step.Schema, Run: run, Scenario: "s", Node: "n", By: "me", At: time.Unix(1, 0), TTL: 30_000, Disposable: true,
		Steps: []step.Step{
			{ID: "a", Fault: "f", Tier: step.TierPersistent, Changes: []step.Change{file("/etc/a"), file("/run/b")}},
			{ID: "b", Fault: "f", Tier: step.TierPersistent,
				Changes: []step.Change{{Hold: &step.Hold{Dir: "/var", Leave: &leave}}, file("/etc/c"),
					{Mount: &step.Mount{Target: "/etc/passwd", Unit: "b.service", Text: "x"}}}},
		},
	}
}

func (m *memory) drill(run string) step.Drill { return drillOf(run) }

func (m *memory) sight(place string) string {
	if read, told := m.read[place]; told {
		return m.text[place] + ", read as " + read
	}
	return m.text[place]
}

func (m *memory) edit(place string, n int) bool {
	if place == "disk:/var" {
		return false // what is held has no content
	}
	m.text[place] = fmt.Sprintf("edit %d", n)
	m.reread()
	return true
}

// reread makes every reader read again.
func (m *memory) reread() {
	for p := range m.read {
		m.read[p] = m.text[p]
	}
}

func (m *memory) mend(at Location) bool {
	if at.Change.Hold == nil {
		m.text[at.Change.Place()] = m.parked[at.Change.Place()]
	}
	return at.Change.Hold == nil
}

func (m *memory) died() {
	for p := range m.held {
		m.text[p] = m.parked[p]
		delete(m.held, p)
	}
}

// reboot clears places in memory; every reader reads again.
func (m *memory) reboot() {
	for _, s := range drillOf("r").Steps {
		for _, c := range s.Changes {
			if c.Tier() != step.TierPersistent {
				m.text[c.Place()] = "at boot"
			}
		}
	}
	m.reread()
}

func (m *memory) process(watchdog bool) Machine { return memoryProcess{m, watchdog} }

// memoryProcess is one process's view of the machine: it does not hold what another process holds.
type memoryProcess struct {
	*memory
	watchdog bool
}

func memoryInjected(at Location) string {
	return fmt.Sprintf("injected by %s/%s/%d", at.Run, at.Step, at.N)
}

// Snapshot implements Machine.
func (m memoryProcess) Snapshot(_ context.Context, at Location) (json.RawMessage, error) {
	v := m.text[at.Change.Place()]
	if v == memoryInjected(at) {
		return nil, errors.New("it is so already")
	}
	return json.Marshal(v)
}

// Make implements Machine.
func (m memoryProcess) Make(_ context.Context, at Location) error {
	place := at.Change.Place()
	m.parked[place], m.text[place] = m.text[place], memoryInjected(at)
	if at.Change.Hold != nil {
		m.held[place] = true
	}
	return nil
}

// Compare implements Machine.
func (m memoryProcess) Compare(_ context.Context, at Location) (Observed, error) {
	place := at.Change.Place()
	if (at.Rebooted && at.Change.Tier() != step.TierPersistent) ||
		(at.Change.Hold != nil && (!m.watchdog || !m.held[place])) {
		return Observed{}, nil
	}
	var was string
	if err := json.Unmarshal(at.Note, &was); err != nil {
		return Observed{}, err
	}
	switch m.text[place] {
	case was:
		return Observed{}, nil
	case memoryInjected(at):
		return Observed{State: Injected}, nil
	}
	return Observed{State: Foreign}, nil
}

// Undo implements Machine.
func (m memoryProcess) Undo(_ context.Context, at Location) error {
	place := at.Change.Place()
	if m.text[place] != memoryInjected(at) {
		return errors.New("somebody changed it just now")
	}
	m.text[place] = m.parked[place]
	delete(m.held, place)
	return nil
}

// Notify implements Machine.
func (m memoryProcess) Notify(context.Context, step.Notify) error { m.reread(); return nil }
