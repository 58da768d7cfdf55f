package platform_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// showing is the header that proves a request; its name is spelled out here, as a thief would have to.
const showing = "X-GPUaaS-Challenge"

// speaker is an agent, or a thief, from the platform's view. With a zero holds it has just started.
type speaker struct {
	t        *testing.T
	p        *platformtest.Platform
	cred     platformtest.Credential
	instance string
	legacy   bool // it echoes nothing
	holds    string
}

// header is what it sends with each request.
func (s *speaker) header() []string {
	h := []string{wire.HeaderNodeInstance, s.instance}
	if s.holds != "" {
		h = append(h, showing, s.holds)
	}
	return h
}

// beat sends a heartbeat, and immediately another one if the response requests that; it returns the code of a
// denial.
func (s *speaker) beat() string {
	s.t.Helper()
	var out struct {
		wire.ErrorBody
		Challenge string `json:"challenge"`
		EchoNow   bool   `json:"echo_now"`
	}
	for range 2 {
		in := struct {
			wire.HeartbeatRequest
			Challenge string `json:"challenge,omitempty"`
		}{wire.HeartbeatRequest{NodeInstanceID: s.instance, BootID: "boot-1"}, s.holds}
		out.EchoNow, out.Challenge = false, ""
		s.p.DoNode(s.cred, http.MethodPost, path(wire.PathHeartbeat, s.cred.NodeID), in, &out, s.header()...)
		wait.NextMillisecond()
		if out.Error.Code != "" || s.legacy {
			break
		}
		if s.holds = out.Challenge; !out.EchoNow {
			break
		}
	}
	return out.Error.Code
}

// poll asks for a task, and returns the task and the code of a denial.
func (s *speaker) poll() (wire.Task, string) {
	s.t.Helper()
	var out struct {
		wire.Task
		wire.ErrorBody
	}
	s.p.DoNode(s.cred, http.MethodGet, waitPath+"?timeout=0", nil, &out, s.header()...)
	return out.Task, out.Error.Code
}

// stream dials the node stream of a session, and returns the code of its refusal.
func (s *speaker) stream(sessionID string) string {
	s.t.Helper()
	h := http.Header{}
	for i := 0; i < len(s.header()); i += 2 {
		h.Set(s.header()[i], s.header()[i+1])
	}
	url := s.p.NodeTerminalURL + path(wire.PathNodeTerminal, "", "{session_id}", sessionID)
	conn, resp, err := websocket.Dial(short(s.t), url,
		&websocket.DialOptions{HTTPClient: s.p.NodeClient(s.cred), HTTPHeader: h,
			Subprotocols: []string{wire.TerminalSubprotocol}})
	if err == nil {
		s.t.Cleanup(func() { conn.CloseNow() })
		return ""
	}
	if resp == nil {
		s.t.Fatal(err)
	}
	return envelope(s.t, resp).Code
}

// kinds returns the kinds of the node's evidence.
func kinds(t *testing.T, p *platformtest.Platform) []string {
	t.Helper()
	rows, err := p.Store().EvidenceOf(t.Context(), platformtest.NodeID, "", time.Time{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		out = append(out, r.Kind)
	}
	return out
}

// browse attaches a browser, which queues terminal.open, and returns the session.
func browse(t *testing.T, p *platformtest.Platform) string {
	t.Helper()
	m := mint(t, p)
	if _, _, err := attach(t, p, m.URL, m.Token); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "terminal.open is queued, after the response to the upgrade", func() bool {
		row, err := p.Store().Session(t.Context(), m.SessionID)
		return err == nil && row.TaskID != ""
	})
	return m.SessionID
}

// theft is a node and a thief with a copy of its certificate.
func theft(t *testing.T, instance string, legacy bool) (p *platformtest.Platform, node, thief *speaker) {
	t.Helper()
	_, p = withRedis(t)
	cred := p.Enroll(platformtest.NodeID)
	node = &speaker{t: t, p: p, cred: cred, instance: "host-a", legacy: legacy}
	thief = &speaker{t: t, p: p, cred: cred, instance: instance, legacy: legacy}
	if code := node.beat(); code != "" {
		t.Fatalf("the node's heartbeat: %s", code)
	}
	return p, node, thief
}

// TestSecThief: a copy of the certificate that polls, and sends no heartbeat, gets nothing that is for the node
// only, is in the evidence, and is reported by name at the node's next heartbeat. The same holds for an agent from
// before challenges.
func TestSecThief(t *testing.T) {
	for name, legacy := range map[string]bool{"an agent that echoes": false, "an old agent": true} {
		t.Run(name, func(t *testing.T) {
			p, node, thief := theft(t, "thief", legacy)
			id := enqueue(t, p, map[string]any{"type": "recovery_token.rotate"})
			if task, _ := thief.poll(); task.ID != "" {
				t.Fatalf("the thief got %s", task.Type)
			}
			if task, _ := node.poll(); task.ID != id {
				t.Errorf("the node got %q", task.ID)
			}
			browse(t, p)
			if task, _ := thief.poll(); task.ID != "" {
				t.Fatalf("the thief got %s", task.Type)
			}
			if task, _ := node.poll(); task.Type != wire.TaskTerminalOpen {
				t.Errorf("the node got %q", task.Type)
			}
			if code := node.beat(); code != wire.DenyCloned {
				t.Errorf("the node's heartbeat between two polls of another host: %q", code)
			}
			got := kinds(t, p)
			for _, kind := range []string{"task.withheld", "node.source_differs", "node.clone_detected"} {
				if !slices.Contains(got, kind) {
					t.Errorf("no %s in the evidence: %q", kind, got)
				}
			}
		})
	}
}

// TestThiefWithTheNodesName: an instance name is copied as easily as a certificate; the challenge in the node's
// last response is not.
func TestThiefWithTheNodesName(t *testing.T) {
	p, node, thief := theft(t, "host-a", false)
	id := enqueue(t, p, map[string]any{"type": "recovery_token.rotate"})
	for _, shown := range []string{"", "0123456789abcdef"} {
		thief.holds = shown
		if task, _ := thief.poll(); task.ID != "" {
			t.Fatalf("the thief that shows %q got %s", shown, task.Type)
		}
	}
	if task, _ := node.poll(); task.ID != id {
		t.Errorf("the node got %q", task.ID)
	}
	if n := readNode(t, p); n.Identity != "accepted" {
		t.Errorf("identity %s", n.Identity)
	}
}

// TestThiefThatHeartbeats: the thief has the node's name, its address and its boot id, so that only the challenge
// differs.
func TestThiefThatHeartbeats(t *testing.T) {
	p, node, thief := theft(t, "host-a", false)
	beats := 0
	for code := ""; code != wire.DenyCloned; beats++ {
		if beats == 4 { // a minute of both at the usual interval
			t.Fatal("two live copies are taken for one host")
		}
		if code = thief.beat(); code == "" {
			code = node.beat()
		}
	}
	if a, b := node.beat(), thief.beat(); a != wire.DenyCloned || b != wire.DenyCloned {
		t.Errorf("afterwards: %q %q", a, b)
	}
	if status, _ := decide(t, p, platformtest.NodeID, "reactivate", map[string]any{"new_identity": true}); status != 200 {
		t.Fatalf("reactivate: %d", status)
	}
	if code := thief.beat(); code != wire.DenyNotNodeBound {
		t.Errorf("the copy, once the operator asked for a new identity: %q", code)
	}
}

// TestThiefThatOnlyStreams: a thief that knows the session cannot receive the tenant's input in the node's place.
func TestThiefThatOnlyStreams(t *testing.T) {
	for name, c := range map[string]struct {
		instance string
		legacy   bool
	}{"with the node's name": {"host-a", false}, "with another name": {"thief", false},
		"with another name, an old agent": {"thief", true}} {
		t.Run(name, func(t *testing.T) {
			p, node, thief := theft(t, c.instance, c.legacy)
			id := browse(t, p)
			if code := thief.stream(id); code != "source_unproven" {
				t.Fatalf("the thief's stream: %q", code)
			}
			if code := node.stream(id); code != "" {
				t.Errorf("the node's stream: %q", code)
			}
		})
	}
}

// TestThiefThatEnrollsFirst: with the node's token, before the node does.
func TestThiefThatEnrollsFirst(t *testing.T) {
	t.Run("under another name", func(t *testing.T) {
		p, node, _ := theft(t, "thief", false)
		_, _, bundle := bundleOf(t, p, platformtest.NodeID, nil)
		if code, _ := enrollAs(t, p, bundle.Token,
			wire.EnrollRequest{NodeID: platformtest.NodeID, NodeInstanceID: "thief"}); code != wire.DenyCloned {
			t.Fatalf("the thief enrolls: %q", code)
		}
		if code := node.beat(); code != wire.DenyCloned {
			t.Errorf("until an operator has settled it: %q", code)
		}
		decide(t, p, platformtest.NodeID, "fence", map[string]any{"instance_id": "thief"})
		decide(t, p, platformtest.NodeID, "reactivate", nil)
		if code := node.beat(); code != "" {
			t.Errorf("the node, once that is settled: %q", code)
		}
		if code, _ := enrollAs(t, p, bundle.Token,
			wire.EnrollRequest{NodeID: platformtest.NodeID, NodeInstanceID: "host-a"}); code != "" {
			t.Errorf("the node enrolls with its token: %q", code)
		}
	})
	t.Run("under the node's name", func(t *testing.T) {
		clk := &clock{}
		p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now})
		old := p.Issue(platformtest.NodeID, platformtest.IssueOptions{}) // of no generation
		node := &speaker{t: t, p: p, cred: old, instance: "host-a"}
		node.beat()
		thief := &speaker{t: t, p: p, instance: "host-a",
			cred: p.EnrollWith(platformtest.NodeID, "host-a", p.EnrollmentToken(platformtest.NodeID).Reveal())}
		thief.poll()
		enqueue(t, p, map[string]any{"type": "recovery_token.rotate"})
		if task, _ := thief.poll(); task.ID != "" {
			t.Fatalf("the thief got %s with its own certificate", task.Type)
		}
		clk.advance(20 * time.Minute)
		if code := node.beat(); code != "" {
			t.Errorf("a newer certificate that sends no heartbeat ends the node's: %q", code)
		}
	})
}

// TestOlderCertificatesEnd: older certificates are denied some minutes after the first heartbeat under the newer
// one. Until then both are valid, for open connections of the node, and for a node that crashed between two steps.
func TestOlderCertificatesEnd(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now})
	old := p.Enroll(platformtest.NodeID)
	node := &speaker{t: t, p: p, cred: old, instance: "instance-of-" + platformtest.NodeID}
	node.beat()
	renewed := p.EnrollWith(platformtest.NodeID, node.instance, bundleToken(t, p))
	clk.advance(20 * time.Minute)
	if code := node.beat(); code != "" {
		t.Fatalf("the newer one was not used yet: %q", code)
	}
	node.cred = renewed
	if code := node.beat(); code != "" {
		t.Fatalf("the newer one: %q", code)
	}
	thief := &speaker{t: t, p: p, cred: old, instance: node.instance}
	clk.advance(4 * time.Minute)
	if _, code := thief.poll(); code != "" {
		t.Errorf("within the overlap: %q", code)
	}
	clk.advance(2 * time.Minute)
	node.beat()
	if _, code := thief.poll(); code != wire.DenyNotNodeBound {
		t.Errorf("the copy of the older one: %q", code)
	}
	if code := node.beat(); code != "" {
		t.Errorf("the node: %q", code)
	}
	if n := readNode(t, p); n.Recovery.Denial != nil {
		t.Errorf("what the copy is denied counts against the node: %+v", n.Recovery.Denial)
	}
}

// bundleToken returns the token of a new bundle.
func bundleToken(t *testing.T, p *platformtest.Platform) string {
	t.Helper()
	_, _, b := bundleOf(t, p, platformtest.NodeID, nil)
	return b.Token
}

// TestOneNodeIsNoThief: a node that restarts, moves, loses responses and renews while it works gets its tasks all
// the time.
func TestOneNodeIsNoThief(t *testing.T) {
	p, node, _ := theft(t, "host-a", false)
	works := func(when string) {
		t.Helper()
		if code := node.beat(); code != "" {
			t.Fatalf("%s: %s", when, code)
		}
		id := enqueue(t, p, map[string]any{"type": "recovery_token.rotate"})
		if task, _ := node.poll(); task.ID != id {
			t.Fatalf("%s: the node got %q", when, task.ID)
		}
	}
	works("at first")
	node.holds = ""
	works("its agent restarted")
	held := node.holds
	node.beat()
	node.holds = held
	works("an answer was lost")
	node.beat()
	node.beat()
	node.holds = held
	works("the machine went back to a snapshot")
	node.cred = p.EnrollWith(platformtest.NodeID, "host-a", bundleToken(t, p))
	works("it has another certificate")
}
