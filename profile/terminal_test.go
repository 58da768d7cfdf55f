package profile

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestExamplesOfTheContract: every example of a task or a terminal in the documentation is a valid profile.
func TestExamplesOfTheContract(t *testing.T) {
	text, err := os.ReadFile("../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if _, _, err := parse("contract.md", []byte(block)); err != nil {
			t.Errorf("example %d: %v", i+1, err)
		}
		if strings.Contains(block, "terminal:") || strings.Contains(block, "task:") {
			found++
		}
	}
	if found < 5 {
		t.Errorf("%d examples of tasks and terminals", found)
	}
}

// TestMistakesInTasksAndTerminals: each mistake is an error that names its key.
func TestMistakesInTasksAndTerminals(t *testing.T) {
	for text, want := range map[string]string{
		"terminal: {kind: ttyd}":                                  "terminal.kind cannot be",
		"terminal: {like: tytd}":                                  "ttyd",
		"terminal: {kind: none, path: /ws}":                       "terminal.path is of the kind terminal-ws",
		"terminal: {pod: a, namespace: b}":                        "terminal.pod is of the kind kubernetes-exec",
		"terminal: {kind: kubernetes-exec}":                       "needs terminal.namespace",
		"terminal: {closes: {4401: refused}}":                     "want ended, token_refused",
		"terminal: {closes: {99: ended}}":                         "between 1000 and 4999",
		"terminal: {input: x}":                                    "nothing can be typed",
		"terminal: {frames: [{prefix: x}]}":                       "needs is",
		"terminal: {frames: [{is: data, equals: x}]}":             "needs the field",
		"terminal: {path: '/{pod}'}":                              "cannot use {pod}",
		"task: {kind: grpc}":                                      "want none, http-task",
		"task: {body: '{\"a\":{node_id}}'}":                       "not JSON",
		"task: {body: '{\"a\":\"{nodeid}\"}'}":                    "cannot use {nodeid}",
		"task: {content_type: text/plain}":                        "escaped as it asks",
		"task: {done: [ok], failed: [OK]}":                        "two states",
		"task: {done: ['a,b']}":                                   "cannot be a word",
		"terminal: {kind: kubernetes-exec, pod: A, namespace: b}": "not a name of Kubernetes",
	} {
		if _, _, err := parse("p", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestTaskBody: the default body is the reference platform's, and a value cannot leave its string.
func TestTaskBody(t *testing.T) {
	vars := map[string]string{"correlation_id": "c-1", "ttl_seconds": "15", "node_id": `a"},{"b` + "\n"}
	for name, c := range map[string]struct {
		task             Task
		kind, body, sent string
	}{
		"default": {Task{}, "", `{"correlation_id":"c-1","payload":{},"ttl_seconds":15,"type":"noop"}`, "POST"},
		"JSON":    {Task{Body: `{"n":"{node_id}"}`, Method: "PUT"}, "", `{"n":"a\"},{\"b\n"}`, "PUT"},
		"form":    {Task{Body: "n={node_id}", ContentType: formType}, formType, "n=a%22%7D%2C%7B%22b%0A", "POST"},
	} {
		if method, kind, body := c.task.Request(vars); method != c.sent || kind != c.kind || body != c.body {
			t.Errorf("%s: %s %q %s", name, method, kind, body)
		}
	}
}

// TestDefaultsOfTerminals: a terminal of another platform has no default path, and the reference platform's has no data
// in its request.
func TestDefaultsOfTerminals(t *testing.T) {
	p := Profile{Terminal: Terminal{Like: "ttyd", Path: "/ws"}}.WithDefaults()
	if p.Mapping.Path(PathTerminalWS, nil) != "/ws" || !p.Mapping.Lacks(PathTerminalHealthz) || p.Terminal.OfReference() ||
		p.Terminal.Speaks().Hello[0] == "" {
		t.Errorf("ttyd: %+v", p.Terminal)
	}
	if again := p.WithDefaults(); again.Mapping.Path(PathTerminalWS, nil) != "/ws" || again.Terminal.Input != "0{data}" {
		t.Errorf("twice: %+v", again.Terminal)
	}
	p = Profile{Terminal: Terminal{Kind: diag.TerminalWS}}.WithDefaults()
	if p.Terminal.Speaks() != nil || p.Mapping.Lacks(PathTerminalHealthz) {
		t.Errorf("the reference platform's: %+v", p.Terminal)
	}
	p = Profile{Terminal: Terminal{Closes: map[int]string{4000: "ended"}}}.WithDefaults()
	if s := p.Terminal.Speaks(); s == nil || !s.Reference || len(s.Frames) == 0 || p.Mapping.Lacks(PathTerminalHealthz) {
		t.Errorf("with its own closes: %+v", p.Terminal)
	}
}
