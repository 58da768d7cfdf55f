//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab"
)

// Deadlines of a trial's waits. A wait ends as soon as its condition holds; the deadlines are several times the
// measured times.
const (
	agentPatience = 2 * time.Minute // for a decision of the agent, whose back-offs have ceilings of up to 40 s here
	watched       = 6 * time.Second // how long a silence is watched
)

// trial is one node with a manually injected fault, and what the sources reported before: the node's own record,
// the platform's evidence, the certificate. Only later entries count.
type trial struct {
	t      *testing.T
	l      *lab.Lab
	node   string
	began  time.Time
	since  string // the platform's clock
	serial string // of the certificate
}

// begin waits until the node is healthy and saves what the trial may change. After the trial it restores that, and
// the node must recover, by itself or else with an operator's bundle.
func begin(t *testing.T, l *lab.Lab, machine string) *trial {
	t.Helper()
	c := &trial{t: t, l: l, node: machine, began: time.Now()}
	c.on(startedByHand)
	c.well()
	c.on("rm -rf /root/kept; mkdir /root/kept; cp -p /etc/gpuaas/agent.env /etc/gpuaas/recovery-ca.crt " +
		"/var/lib/gpuaas/recovery.json /root/kept/")
	t.Cleanup(c.end)
	c.began = time.Now()
	c.since = strings.TrimSpace(on(t, l, platform, "date -u +%FT%T.%3NZ"))
	c.serial = c.certSerial()
	return c
}

// end restores the node's configuration and its enrollment ledger. The certificate stays: it is the node's newest.
func (c *trial) end() {
	c.t.Helper()
	if c.t.Failed() {
		c.t.Log("\n" + c.account())
	}
	c.on(stopAgent + `; cp -p /root/kept/agent.env /root/kept/recovery-ca.crt /etc/gpuaas/; rm -f /run/gpuaas/recovery.json
cp -p /root/kept/recovery.json /var/lib/gpuaas/; rm -rf /root/kept /root/cert.pem /root/key.pem /root/stale.crt /var/lib/gpuaas/undo; systemctl start gpuaas-node-agent`)
	if !c.wellWithin(20 * time.Second) { // a slow machine is re-enrolled as well, which is harmless
		c.reenroll()
	}
	c.well()
}

// account returns what the sources report, for the log of a failed test.
func (c *trial) account() string {
	out, _, _ := try(c.t, 2*time.Minute, "diag", "show", c.node, "--profile", "lab", "--limit", "40")
	why, _, _ := try(c.t, 60*time.Second, "diag", "classify", c.node, "--profile", "lab", "--explain")
	return string(out) + "\n" + string(why)
}

func (c *trial) on(script string) string {
	c.t.Helper()
	return on(c.t, c.l, c.node, script)
}

// step logs what was reached, and after how long.
func (c *trial) step(format string, args ...any) {
	c.t.Helper()
	c.t.Logf("%5.1fs "+format, append([]any{time.Since(c.began).Seconds()}, args...)...)
}

// --- the node's health

func (c *trial) wellWithin(d time.Duration) bool {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(300 * time.Millisecond) {
		if _, code, _ := walk(c.t, c.node); code == 0 {
			return true
		}
	}
	return false
}

// well waits until a complete preflight of the node passes.
func (c *trial) well() {
	c.t.Helper()
	if c.wellWithin(settle) {
		c.step("well")
		return
	}
	r, _, _ := walk(c.t, c.node)
	c.t.Fatalf("%s is not well after %s:\n%s", c.node, settle, describe(r))
}

// unheard fails if the platform received a heartbeat within the last d: the node recovered although an operator
// has to act first.
func (c *trial) unheard(d time.Duration) {
	c.t.Helper()
	var n struct {
		Agent struct {
			At diag.Time `json:"last_heartbeat_at"`
		}
		Now diag.Time
	}
	c.get("/v1/admin/nodes/"+c.node, &n)
	if ago := n.Now.Sub(n.Agent.At.Time); ago < d {
		c.t.Errorf("the platform heard the node %s ago; it must not come back by itself", ago)
	}
}

// serves waits until the agent reports that it serves again.
func (c *trial) serves() {
	c.t.Helper()
	var n struct{ Agent struct{ Posture string } }
	for began := time.Now(); time.Since(began) < agentPatience; time.Sleep(200 * time.Millisecond) {
		if c.get("/v1/admin/nodes/"+c.node, &n); n.Agent.Posture == wire.PostureServing {
			return
		}
	}
	c.t.Errorf("the agent's posture is %q", n.Agent.Posture)
}

// reenroll does what the operator does: it takes an audited bundle to the node.
func (c *trial) reenroll() {
	c.t.Helper()
	run(c.t, 2*time.Minute, "node", "reenroll", c.node, "--profile", "lab", "--reason", "recovery suite", "--apply",
		"--confirm", c.node)
	c.step("re-enrolled by an operator")
}

// --- the record

// shown is what `diag show` and `diag decode` print.
type shown struct {
	Record diag.RecordFacts `json:"record"`
}

func (c *trial) show() shown {
	c.t.Helper()
	out, stderr, code := try(c.t, 2*time.Minute, "diag", "show", c.node, "--profile", "lab", "-o", "json", "--limit",
		"256")
	if code != 0 {
		c.t.Fatalf("diag show: exit %d\n%s", code, stderr)
	}
	return parseShown(c.t, out)
}

func parseShown(t *testing.T, out []byte) shown {
	t.Helper()
	var s shown
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return s
}

// new returns the record's entries since the trial began. A counted entry is new if its last occurrence is.
func (c *trial) new(s shown) []diag.RecordEntry {
	var out []diag.RecordEntry
	for _, e := range s.Record.Entries {
		if e.At.After(c.began) || e.Last.After(c.began) {
			out = append(out, e)
		}
	}
	return out
}

// decided returns the first new entry with a reason and a decision.
func decided(entries []diag.RecordEntry, reason diag.RecordReason, decision string) (diag.RecordEntry, bool) {
	for _, e := range entries {
		if e.Reason == reason && e.Decision == decision {
			return e, true
		}
	}
	return diag.RecordEntry{}, false
}

// says waits until the record has the decision, and returns the entry.
func (c *trial) says(reason diag.RecordReason, decision string) diag.RecordEntry {
	c.t.Helper()
	var entries []diag.RecordEntry
	for began := time.Now(); time.Since(began) < agentPatience; time.Sleep(200 * time.Millisecond) {
		entries = c.new(c.show())
		if e, ok := decided(entries, reason, decision); ok {
			c.step("recorded: %s %s", reason, decision)
			return e
		}
	}
	c.t.Fatalf("the record does not say %s %s within %s:\n%s", reason, decision, agentPatience, told(entries))
	return diag.RecordEntry{}
}

// silent fails if the record has a decision that must not have been made.
func (c *trial) silent(reason diag.RecordReason, decision string) {
	c.t.Helper()
	if e, ok := decided(c.new(c.show()), reason, decision); ok {
		c.t.Errorf("the record says %s", told([]diag.RecordEntry{e}))
	}
}

func told(entries []diag.RecordEntry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %s %s %s %s %s %s\n", e.Seq, e.Reason, e.About, e.Decision, e.Failure, e.Code, e.Detail)
	}
	return b.String()
}

// --- the reason

// verdict is the classifier's expected result.
type verdict struct {
	reason   diag.ReasonCode
	state    diag.UserState
	severity diag.Severity
}

// named waits until the classifier names the reason, and checks the rest of the verdict.
func (c *trial) named(want verdict) { c.t.Helper(); named(want, c) }

// named waits for several nodes concurrently.
func named(want verdict, trials ...*trial) {
	c := trials[0]
	c.t.Helper()
	docs, errs := make([]diag.Classification, len(trials)), make([]error, len(trials))
	for began := time.Now(); time.Since(began) < agentPatience; time.Sleep(300 * time.Millisecond) {
		var wg sync.WaitGroup
		for i, c := range trials {
			wg.Go(func() { docs[i], errs[i] = c.classify() })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			c.t.Fatal(err)
		}
		if !slices.ContainsFunc(docs, func(d diag.Classification) bool {
			return (verdict{d.Reason, d.State, d.Severity}) != want
		}) {
			for _, d := range docs {
				if d.Owner == "" || d.Next == "" || d.Healthy {
					c.t.Errorf("owner %q, next %q, healthy %v", d.Owner, d.Next, d.Healthy)
				}
			}
			c.step("named: %s", want.reason)
			return
		}
	}
	why, _ := json.MarshalIndent(docs, "", "  ")
	c.t.Fatalf("want %v within %s, have\n%s", want, agentPatience, why)
}

// classify asks the tool for the node's one reason.
func (c *trial) classify() (diag.Classification, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool(), "diag", "classify", c.node, "--profile", "lab", "-o", "json")
	out, err := cmd.Output()
	var doc struct{ Classification *diag.Classification }
	if json.Unmarshal(out, &doc) != nil || doc.Classification == nil {
		return diag.Classification{}, fmt.Errorf("diag classify %s: %w\n%s", c.node, err, out)
	}
	return *doc.Classification, nil
}

// --- what the platform and its ingress saw

// get asks the platform from its own machine.
func (c *trial) get(path string, answer any) {
	c.t.Helper()
	get(c.t, c.l, path, answer)
}

// get asks the platform from its own machine.
func get(t *testing.T, l *lab.Lab, path string, answer any) {
	t.Helper()
	out := on(t, l, platform,
		`curl -sSf -H "Authorization: Bearer $(cat /etc/gpuaas-platform/operator.token)" 'http://127.0.0.1:8080`+path+`'`)
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
}

// enrollments counts the enrollments that the platform granted and refused since the trial began, by its own
// evidence.
func (c *trial) enrollments() (granted, refused int) {
	c.t.Helper()
	var doc struct {
		Items     []struct{ Kind string }
		Truncated bool
	}
	c.get("/v1/admin/evidence?node_id="+c.node+"&since="+c.since, &doc)
	if doc.Truncated {
		c.t.Fatal("there is more evidence than one answer holds")
	}
	for _, e := range doc.Items {
		switch e.Kind {
		case "node.enrolled":
			granted++
		case "node.enroll_denied":
			refused++
		}
	}
	return granted, refused
}

// enrolled fails unless the platform saw exactly so many enrollments of the node.
func (c *trial) enrolled(granted, refused int) {
	c.t.Helper()
	if g, r := c.enrollments(); g != granted || r != refused {
		c.t.Errorf("the platform granted %d enrollments and refused %d; want %d and %d", g, r, granted, refused)
	}
}

// certSerial is the certificate's serial number, as openssl reads it on the node, or "".
func (c *trial) certSerial() string {
	c.t.Helper()
	return strings.TrimSpace(c.on("openssl x509 -in /etc/gpuaas/cert.pem -noout -serial 2>/dev/null || true"))
}

// sameCert fails when the certificate is another one than serial.
func (c *trial) sameCert(serial string) {
	c.t.Helper()
	if now := c.certSerial(); now != serial {
		c.t.Errorf("the certificate is %s now, and was %s", now, serial)
	}
}

// newCert fails while the certificate is the previous one.
func (c *trial) newCert() {
	c.t.Helper()
	if now := c.certSerial(); now == c.serial || now == "" {
		c.t.Errorf("the certificate is %q, and was %q", now, c.serial)
	}
}

// address returns the node's own address in the lab's network.
func (c *trial) address() string {
	n, _ := strconv.Atoi(strings.TrimPrefix(c.node, "compute-node-"))
	return "10.231.77." + strconv.Itoa(100+n)
}

// healthyRate is the number of requests per second of a healthy agent here: a heartbeat every 2 s, a poll every 5
// s.
const healthyRate = 1.0/2 + 1.0/5

// quiet watches the node for a while, and fails if it sends more requests than a healthy one. The kernel counts
// connections at the platform's machine, since no log shows those that fail in TLS, and the ingress counts
// requests. No walk may run at the same time.
func (c *trial) quiet(d time.Duration) {
	c.t.Helper()
	table := "watch_" + strings.ReplaceAll(c.node, "-", "_")
	began, mark := time.Now(), c.mark()
	out := on(c.t, c.l, platform, "nft delete table inet "+table+" 2>/dev/null || true; nft -f - <<'X'\nadd table inet "+
		table+"\nadd chain inet "+table+
		" c { type filter hook input priority 0; }\nadd rule inet "+table+" c ip saddr "+c.address()+
		" tcp dport 443 tcp flags & (syn|ack) == syn counter\nX\nsleep "+
		strconv.FormatFloat(d.Seconds(), 'f', 1, 64)+"; nft -j list table inet "+table+"; nft delete table inet "+table)
	requests, took := c.requests(mark), time.Since(began)
	_, after, _ := strings.Cut(out, `"packets": `)
	digits, _, _ := strings.Cut(after, ",")
	connections, err := strconv.Atoi(digits)
	if err != nil {
		c.t.Fatalf("no counter: %s", out)
	}
	c.step("%d connections and %d requests in %s", connections, requests, took.Round(time.Millisecond))
	if limit := 2 + int(took.Seconds()*healthyRate); max(connections, requests) > limit {
		c.t.Errorf("a healthy agent makes at most %d", limit)
	}
}

// mark returns the current end of the ingress's log.
func (c *trial) mark() string {
	c.t.Helper()
	_, cursor, ok := strings.Cut(on(c.t, c.l, platform, "journalctl -q -t nginx -n 1 -o cat --show-cursor"), "-- cursor: ")
	if !ok {
		c.t.Fatal("the ingress's log has no end")
	}
	return strings.TrimSpace(cursor)
}

// requests counts the agent's requests to the ingress since a mark. It leaves out those of walks.
func (c *trial) requests(mark string) (n int) {
	c.t.Helper()
	for line := range strings.Lines(
		on(c.t, c.l, platform, "sleep 0.2; journalctl -q -t nginx -o cat --after-cursor='"+mark+"'")) {
		var r struct {
			Remote string
			ID     string `json:"correlation_id"`
		}
		if json.Unmarshal([]byte(line), &r) == nil && r.Remote == c.address() && strings.HasPrefix(r.ID, "agent-") {
			n++
		}
	}
	return n
}

// --- what an operator, or a disaster, puts on the node

// token makes the platform issue a recovery token for the trial's node.
func token(c *trial) string {
	c.t.Helper()
	text, _ := api(c.t, c.l, "/v1/admin/nodes/"+c.node+"/reenroll",
		`{"reason":"recovery suite: a current token"}`)["token"].(string)
	return text
}

// giveToken puts a current recovery token where the agent reads it, as a rotation would.
func (c *trial) giveToken() {
	c.t.Helper()
	c.putToken(token(c))
}

// dropToken removes the node's token.
func (c *trial) dropToken() {
	c.t.Helper()
	c.on(noToken)
}

func (c *trial) putToken(token string) {
	c.t.Helper()
	if token == "" {
		c.t.Fatal("no token")
	}
	c.on(noToken + "; echo GPUAAS_ENROLLMENT_TOKEN=" + token + " >>/etc/gpuaas/agent.env")
}

// diskOf returns where the host stores a machine's disk.
func diskOf(t *testing.T, l *lab.Lab, machine string) string {
	t.Helper()
	return filepath.Join(filepath.Dir(secretsDir(t, l)), "machines", machine, "root")
}
