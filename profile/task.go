package profile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// Task is the task that a walk gives a node, and the platform's words for what became of it. The zero value is the
// reference platform's. Its paths and fields are those of the mapping: node_tasks, task, task.id and task.status.
type Task struct {
	Kind string `yaml:"kind,omitempty"` // http-task (the default) | none: the platform has no tasks
	// what creates it; {node_id}, {correlation_id}, {allocation_id} and {ttl_seconds} are filled in, escaped as the
	// content type asks
	Body        string `yaml:"body,omitempty"`
	ContentType string `yaml:"content_type,omitempty"` // application/json (the default) or a form
	Method      string `yaml:"method,omitempty"`       // POST (the default) or PUT

	Queued  []string `yaml:"queued,omitempty,flow"`  // default [queued]
	Claimed []string `yaml:"claimed,omitempty,flow"` // default [dispatched]
	Done    []string `yaml:"done,omitempty,flow"`    // default [completed]
	Failed  []string `yaml:"failed,omitempty,flow"`  // default [failed]
	Expired []string `yaml:"expired,omitempty,flow"` // default [expired]

	Every time.Duration `yaml:"every,omitempty"` // pause between two reads of it
}

// The kinds of tasks.
const (
	TaskNone = "none"
	TaskHTTP = "http-task"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"

	defaultTaskBody = `{"correlation_id":"{correlation_id}","payload":{},"ttl_seconds":{ttl_seconds},"type":"noop"}`
)

// States returns the platform's words by the reference platform's word for the same state; only those that the profile
// sets.
func (t Task) States() map[string][]string {
	out := map[string][]string{}
	for state, words := range map[string][]string{"queued": t.Queued, "dispatched": t.Claimed, "completed": t.Done,
		"failed": t.Failed, "expired": t.Expired} {
		if words != nil {
			out[state] = words
		}
	}
	return out
}

// Final returns the words that end a task.
func (t Task) Final() []string {
	words := t.States()
	var out []string
	for _, state := range []string{"completed", "failed", "expired"} {
		if own, set := words[state]; set {
			out = append(out, own...)
			continue
		}
		out = append(out, state)
	}
	return out
}

// Request returns the method, the content type ("" for JSON) and the body that create the task.
func (t Task) Request(vars map[string]string) (method, contentType, body string) {
	escape := inJSON
	if t.ContentType == formType {
		escape, contentType = url.QueryEscape, formType
	} else if t.ContentType != jsonType {
		contentType = t.ContentType
	}
	body = placeholder().ReplaceAllStringFunc(cmp.Or(t.Body, defaultTaskBody), func(name string) string {
		return escape(vars[strings.Trim(name, "{}")])
	})
	return cmp.Or(t.Method, "POST"), contentType, body
}

// inJSON escapes text for the inside of a JSON string.
func inJSON(v string) string {
	quoted, _ := json.Marshal(v) // a string always has a form
	return string(quoted[1 : len(quoted)-1])
}

// placeholder matches one in a body, where braces are also JSON's.
var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[a-z_]+\}`) })

var bodyVars = []string{"node_id", "correlation_id", "allocation_id", "ttl_seconds"}

// taskProblems reports invalid settings of the task.
func taskProblems(t *Task, add func(key string, err error)) {
	add("task.kind", oneOf("task.kind", t.Kind, []string{TaskNone, TaskHTTP}))
	add("task.method", oneOf("task.method", t.Method, []string{"POST", "PUT"}))
	if t.Every != 0 && (t.Every < 10*time.Millisecond || t.Every > time.Minute) {
		add("task.every", fmt.Errorf("want a pause between 10ms and 1m, not %s", t.Every))
	}
	form := t.ContentType == formType
	if t.ContentType != "" && !form && t.ContentType != jsonType && !strings.HasSuffix(t.ContentType, "+json") {
		add("task.content_type", fmt.Errorf("want %s, a type that ends in +json, or %s: values are escaped as it asks",
			jsonType, formType))
	}
	for _, name := range placeholder().FindAllString(t.Body, -1) {
		if name = strings.Trim(name, "{}"); !slices.Contains(bodyVars, name) {
			add("task.body", fmt.Errorf("the body cannot use {%s}%s; it has %s", name,
				strictyaml.Nearest(name, bodyVars), placeholders(bodyVars)))
			return
		}
	}
	_, _, body := t.Request(map[string]string{"ttl_seconds": "1"})
	if t.Body != "" && !form && !json.Valid([]byte(body)) {
		add("task.body", errors.New("the body is not JSON when its placeholders are filled in; put text in quotes"))
	}
	states := map[string]string{}
	for state, words := range t.States() {
		for _, word := range words {
			lower := strings.ToLower(word)
			switch other := states[lower]; {
			case word == "" || strings.ContainsAny(word, ",\n"):
				add("task", fmt.Errorf("cannot be a word for the state of a task: %q", word))
			case other != "":
				add("task", fmt.Errorf("the word %q is listed for two states, %s and %s", word, min(other, state),
					max(other, state)))
			}
			states[lower] = state
		}
	}
}
