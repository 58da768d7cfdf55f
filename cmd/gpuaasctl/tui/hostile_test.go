package tui

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/ops"
)

// hostile is text that a terminal interprets.
const hostile = "X\x1b[31mX\x1b[2J\x1b]52;c;cHduZWQ=\x07\x1b]0;t\x1b\\\u009b2J\u0085" +
	"\u202eX\u2066\u200bX\rX\x00\x08\x07\x7f\n"

// harmless fails if a frame has control sequences other than our own colours.
func harmless(t *testing.T, what, frame string) {
	t.Helper()
	if strings.Contains(frame, "X\x1b[31mX") || strings.Contains(frame, "\x1b]") || strings.Contains(frame, "\x1b[2J") {
		t.Errorf("%s: a foreign sequence is in the frame: %.200q", what, frame)
	}
	rest := ansi.Strip(frame)
	if i := strings.IndexFunc(rest, func(r rune) bool { return r != '\n' && clean.Hidden(r) }); i >= 0 {
		t.Errorf("%s: a hidden rune is in the frame: %q", what, rest[max(0, i-40):min(len(rest), i+20)])
	}
}

// planted returns a copy of v with the hostile text appended to every string except the words by which a view
// distinguishes states.
func planted[T any](t *testing.T, v T) T {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	plant(reflect.ValueOf(&out).Elem())
	return out
}

func plant(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			plant(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "State", "Phase", "Status", "Stage", "Kind", "ID", "Machine", "Role":
			default:
				plant(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			plant(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(v.MapIndex(k))
			plant(e)
			v.SetMapIndex(k, e)
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(v.String() + hostile)
		}
	}
}

// TestHostileWalkFrames: hostile text in any hop or step of a walk, at every size.
func TestHostileWalkFrames(t *testing.T) {
	o := testOptions()
	o.Report.Color = true
	o.Subject.NodeID, o.Subject.AllocationID = o.Subject.NodeID+hostile, o.Subject.AllocationID+hostile
	o.Plan.Profile += hostile
	for i := range o.Plan.Hops {
		o.Plan.Hops[i].Skip += hostile
		o.Plan.Hops[i].Steps = append(o.Plan.Hops[i].Steps, hostile)
		o.Plan.Hops[i].Vantages = append(o.Plan.Hops[i].Vantages, hostile)
	}
	m, shown := newModel(o, func() {}), false
	for i, id := range diag.HopIDs() {
		done := hopDone(id, diag.Statuses[i%len(diag.Statuses)], "text"+hostile)
		done.Result = planted(t, done.Result)
		done.Result.ID = id
		m = send(m, started(id, 0), stepDone(id, "http"+hostile, "node"+hostile, diag.StatusFail, 4, time.Millisecond), done)
		for _, size := range [][2]int{{80, 24}, {200, 50}, {40, 10}} {
			m = send(m, tea.WindowSizeMsg{Width: size[0], Height: size[1]}, tickMsg(time.Second))
			harmless(t, string(id), m.text())
			shown = shown || strings.Contains(m.text(), `\x1b`)
		}
	}
	if !shown {
		t.Error("nothing of what was planted is shown")
	}
}

// TestHostileDrillFrames: hostile text from machines, plans and walks in a drill, event by event.
func TestHostileDrillFrames(t *testing.T) {
	m, shown := sized(200, 50, render.Options{Color: true}), 0
	for i, moments := range recordings() {
		for n, x := range moments {
			e := planted(t, x.Event)
			// otherwise it would not belong to anything that is shown
			e.Kind, e.Machine, e.Step = x.Event.Kind, x.Event.Machine, x.Event.Step
			if e.Seen != nil {
				e.Seen.Name, e.Seen.Stage = x.Event.Seen.Name, x.Event.Seen.Stage
			}
			if n%3 == 1 { // also for machines and steps that are not in the plan
				e.Machine, e.Step = e.Machine+hostile, e.Step+hostile
			}
			m = sendDrill(m, drillMsg{ops.Progress{Index: i, Count: len(recordings()), Event: e, Walk: x.Walk}, x.At})
			for _, size := range [][2]int{{200, 50}, {80, 24}} {
				m = sendDrill(m, tea.WindowSizeMsg{Width: size[0], Height: size[1]})
				harmless(t, fmt.Sprintf("run %d, event %d (%s)", i, n, e.Kind), m.text())
				if strings.Contains(m.text(), `\x1b`) {
					shown++
				}
			}
		}
	}
	if shown < 100 {
		t.Errorf("what was planted is in %d frames", shown)
	}
}
