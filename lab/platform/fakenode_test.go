package platform_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

// path fills in a wire path.
func path(template, nodeID string, pairs ...string) string {
	return strings.NewReplacer(append([]string{"{node_id}", nodeID}, pairs...)...).Replace(template)
}

// fakeNode plays a node without an agent: it waits for tasks and passes each to do.
type fakeNode struct {
	t    *testing.T
	p    *platformtest.Platform
	cred platformtest.Credential
}

// run waits for tasks until the end of the test.
func (n fakeNode) run(do func(ctx context.Context, t wire.Task) wire.TaskResult) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	client := n.p.NodeClient(n.cred)
	verify, err := wire.ParseVerifiers(n.p.TaskPubkeys)
	if err != nil {
		n.t.Fatal(err)
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			task, ok := n.wait(ctx, client)
			if !ok {
				continue
			}
			if err := verify.Verify(&task); err != nil {
				n.t.Errorf("task %s: %v", task.ID, err)
			}
			n.post(ctx, client, task.ID, do(ctx, task))
		}
	}()
	n.t.Cleanup(func() { cancel(); <-done })
}

func (n fakeNode) wait(ctx context.Context, client *http.Client) (task wire.Task, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		n.p.NodeAPIURL+path(wire.PathTaskWait, n.cred.NodeID)+"?timeout=1", nil)
	if err != nil {
		n.t.Error(err)
		return task, false
	}
	resp, err := client.Do(req)
	if err != nil {
		return task, false // the test is over
	}
	defer resp.Body.Close()
	return task, resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&task) == nil
}

func (n fakeNode) post(ctx context.Context, client *http.Client, taskID string, r wire.TaskResult) {
	b, err := json.Marshal(r)
	if err != nil {
		n.t.Error(err)
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		n.p.NodeAPIURL+path(wire.PathTaskResult, n.cred.NodeID, "{task_id}", taskID), strings.NewReader(string(b)))
	if err != nil {
		n.t.Error(err)
		return
	}
	if resp, err := client.Do(req); err == nil {
		resp.Body.Close()
	}
}

// dialStream opens the node's stream of a session.
func (n fakeNode) dialStream(ctx context.Context, sessionID string,
	edit ...func(*websocket.DialOptions)) (*websocket.Conn, *http.Response, error) {
	url := n.p.NodeTerminalURL + path(wire.PathNodeTerminal, "", "{session_id}", sessionID)
	o := &websocket.DialOptions{HTTPClient: n.p.NodeClient(n.cred), Subprotocols: []string{wire.TerminalSubprotocol}}
	for _, e := range edit {
		e(o)
	}
	return websocket.Dial(ctx, url, o)
}

// stream runs the node: for each terminal task it opens the stream, passes it to do, and reports the task as
// completed when do returns.
func (n fakeNode) stream(do func(conn *websocket.Conn), edit ...func(*websocket.DialOptions)) {
	n.run(func(ctx context.Context, task wire.Task) wire.TaskResult {
		var open wire.TerminalOpenPayload
		_ = json.Unmarshal(task.Payload, &open)
		conn, _, err := n.dialStream(ctx, open.SessionID, edit...)
		if err != nil {
			n.t.Errorf("node stream: %v", err)
			return completed()
		}
		do(conn)
		return completed()
	})
}

// completed is a good result.
func completed() wire.TaskResult {
	now := time.Now()
	return wire.TaskResult{Status: wire.TaskCompleted, StartedAt: now, FinishedAt: now}
}
