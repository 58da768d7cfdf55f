package agent

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// rule is one row of a table of decisions: an event in a state, with all effects and every field of the state that
// changes. What is not listed must not happen.
type rule struct {
	from    func(*State)  // what differs from a node that serves: its poll is in flight, its next heartbeat is due
	at      time.Duration // since the start, on both clocks
	set     time.Duration // what this node's clock was set by since the start
	roll    float64
	files   string
	what    What
	want    string // effects, with "; " between them
	changes string // of the state, with "; " between them
}

// servingExactly is the state from which the rules start.
func servingExactly() State {
	s := servingState(healthy)
	s.APIURL = "https://api.test"
	return s
}

func holds(t *testing.T, rules map[string]rule) {
	t.Helper()
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			s := servingExactly()
			if r.from != nil {
				r.from(&s)
			}
			next, effects := Step(s, Event{At: r.at, Wall: testWall.Add(r.at + r.set), Roll: r.roll, Files: r.files,
				What: r.what})
			if got := exact(effects); got != r.want {
				t.Errorf("effects\ngot  %s\nwant %s", got, r.want)
			}
			if got := changes(s, next); got != r.changes {
				t.Errorf("changes\ngot  %s\nwant %s", got, r.changes)
			}
		})
	}
}

// exact lists effects with everything that they carry.
func exact(effects []Effect) string {
	var out []string
	for _, e := range effects {
		switch e := e.(type) {
		case Log:
			out = append(out, "log("+e.Message+")")
		case Record:
			out = append(out, "record("+exactly(e.Decision)+")")
		case SetTimer:
			out = append(out, fmt.Sprintf("timer(%s %v)", e.Timer, e.In))
		case RunTask:
			out = append(out, "run("+e.Task.ID+")")
		case WaitTask:
			out = append(out, fmt.Sprintf("poll(%d)", e.Most))
		case PostResult:
			out = append(out, "post("+posted(e)+")")
		case SendHeartbeat:
			out = append(out, "heartbeat("+strings.Join(strings.Fields(e.Posture+" "+e.Profile+" "+e.Challenge), " ")+")")
		case SaveLedger:
			out = append(out, map[bool]string{true: "save(counts)", false: "save"}[e.Counts])
		case WriteMetrics:
			out = append(out, "metrics("+e.Posture+")")
		case Enroll:
			path := map[bool]string{true: "recovery", false: "runtime"}[e.Recovery]
			out = append(out, strings.TrimSpace("enroll("+path+" "+e.Profile)+")")
		case EndSessions:
			out = append(out, "end("+e.Why+")")
		default:
			out = append(out, strings.TrimPrefix(reflect.TypeOf(e).String(), "agent."))
		}
	}
	return strings.Join(out, "; ")
}

func posted(r PostResult) string {
	text := r.TaskID + " " + r.Result.Status
	if e := r.Result.Error; e != nil {
		text += " " + e.Code
	}
	return text
}

// exactly lists a decision's fields.
func exactly(d Decision) string {
	text := fmt.Sprintf("%s %s %s", d.Reason, d.About, d.What)
	if d.Attempt != 0 {
		text += fmt.Sprintf(" attempt %d in %v of %v", d.Attempt, d.Delay, d.Ceiling)
	}
	for _, word := range []string{string(d.Failure), d.Code, d.TaskID, d.Correlation} {
		if word != "" {
			text += " " + word
		}
	}
	if d.Status != 0 {
		text += fmt.Sprintf(" %d", d.Status)
	}
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	return text
}

// changes lists the fields in which two states differ, with the second's values.
func changes(a, b State) string {
	return strings.Join(differences("", reflect.ValueOf(a), reflect.ValueOf(b)), "; ")
}

func differences(path string, a, b reflect.Value) (out []string) {
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return nil
	}
	text, whole := shown(b.Interface())
	if whole || b.Kind() != reflect.Struct {
		return []string{path + "=" + text}
	}
	for i := range b.NumField() {
		out = append(out, differences(strings.TrimPrefix(path+"."+b.Type().Field(i).Name, "."), a.Field(i), b.Field(i))...)
	}
	return out
}

// shown returns a value of the state as one word, and whether it is to be shown as a whole.
func shown(v any) (text string, whole bool) {
	switch v := v.(type) {
	case Outcome:
		return cmp.Or(string(v.Reason), "none"), true
	case Hold:
		if !v.Active() {
			return "off", true
		}
		return "on", true
	case Backoff:
		text = "failing"
		if v.Good {
			text = "good since " + v.GoodSince.String()
		}
		for _, r := range slices.Sorted(maps.Keys(v.Attempts)) {
			text += fmt.Sprintf(" %s:%d", r, v.Attempts[r])
		}
		return text, true
	case Material:
		return "another", true
	case time.Time:
		return v.Sub(testWall).String(), true
	case []PostResult:
		var ids []string
		for _, r := range v {
			ids = append(ids, r.TaskID)
		}
		return strings.Join(ids, ","), true
	case []string:
		return strings.Join(v, ","), true
	case []Attempt:
		var results []string
		for _, a := range v {
			results = append(results, a.Result)
		}
		return strings.Join(results, ","), true
	case []Decision:
		return fmt.Sprintf("%d", len(v)), true
	case diag.RecordReason:
		return cmp.Or(string(v), "none"), true
	}
	return fmt.Sprint(v), false
}
