package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/outbox"
	"github.com/gpuaas/gpuaasctl/agent/terminal"
	"github.com/gpuaas/gpuaasctl/agent/update"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestWhatCountsAgainstABuild: a refusal counts for each probe of the soak, a platform that is not reached, broken or
// busy for the heartbeat alone.
func TestWhatCountsAgainstABuild(t *testing.T) {
	for _, tc := range []struct {
		probe  string
		o      Outcome
		known  bool // the result is kept
		passes bool
	}{
		{wire.ProbeNoop, Outcome{}, true, true},
		{wire.ProbeTaskWait, Outcome{Status: 200}, true, true},
		{wire.ProbeNoop, Outcome{Reason: diag.RecTaskPollFailed, Status: 399}, false, false},
		{wire.ProbeNoop, Outcome{Reason: diag.RecTaskPollFailed, Status: 400}, true, false},
		{wire.ProbeNoop, Outcome{Reason: diag.RecTaskPollFailed, Status: 499}, true, false},
		{wire.ProbeNoop, Outcome{Reason: diag.RecTaskPollFailed, Status: 500}, false, false},
		{wire.ProbeNoop, Outcome{Reason: diag.RecEdgeRateLimited, Status: 429}, false, false},
		{wire.ProbeTaskWait, Outcome{Reason: diag.RecAPIUnreachable}, false, false},
		{wire.ProbeHeartbeat, Outcome{Reason: diag.RecAPIUnreachable}, true, false},
		{wire.ProbeHeartbeat, Outcome{Reason: diag.RecEdgeRateLimited, Status: 429}, true, false},
	} {
		b, _ := bootOf(t, inMemory())
		r := &runtime{cfg: Config{Boot: b}, work: t.Context()}
		running := b.keeper.Journal().Rollout.Target
		b.step(func(j update.Journal) update.Journal { return j.Handshake(running, running, time.Now()) })
		r.observe(tc.probe, tc.o)
		p, known := b.keeper.Journal().Rollout.Probes[tc.probe]
		if known != (tc.known || tc.probe == wire.ProbeHeartbeat) || p.Pass != tc.passes {
			t.Errorf("%s, %+v: known %v, %+v", tc.probe, tc.o, known, p)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		before := fmt.Sprintf("%+v", b.keeper.Journal().Rollout.Probes)
		(&runtime{cfg: Config{Boot: b}, work: over}).observe(wire.ProbeHeartbeat, Outcome{Reason: diag.RecAPIUnreachable})
		if got := fmt.Sprintf("%+v", b.keeper.Journal().Rollout.Probes); got != before {
			t.Errorf("observed while stopping: %s", got)
		}
	}
}

// TestInterruptedUpdates: which rollouts a new process goes on with, and which it ends.
func TestInterruptedUpdates(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(update.Journal) update.Journal
		state  string
		result string
	}{
		"its task expired": {func(j update.Journal) update.Journal {
			j.Rollout.Task.ExpiresAt = time.Now().Add(-time.Second)
			return j
		}, wire.RolloutFailed, "its task expired"},
		"verified, its task expired": {func(j update.Journal) update.Journal {
			j = j.Verified(time.Now())
			j.Rollout.Task.ExpiresAt = time.Now().Add(-time.Second)
			return j
		}, wire.RolloutFailed, "its task expired"},
		"its payload is refused now": {func(j update.Journal) update.Journal {
			j.Rollout.Task.Payload = []byte("{}")
			return j
		}, wire.RolloutFailed, "a self-update is pinned"},
		"it was activated": {func(j update.Journal) update.Journal {
			j = j.Activating(time.Now())
			j.Rollout.Task.ExpiresAt = time.Now().Add(-time.Second)
			return j
		}, wire.RolloutActivating, ""},
	} {
		d := inMemory()
		n := newNode(t, d, nil, t.TempDir())
		b := openBoot(d, slog.New(slog.DiscardHandler), n)
		b.launch(crashPackage, crashKeys)
		a, refusal := b.keeper.Journal().Accept(*crashTask(), update.Node{ID: "n1", Keys: crashKeys}, time.Now())
		if refusal != nil {
			t.Fatal(refusal)
		}
		b.step(func(j update.Journal) update.Journal { return tc.change(j.Begin(a, time.Now())) })
		r := &runtime{cfg: Config{Boot: b, NodeID: "n1", Verifiers: crashKeys}, creds: credentialsIn(t.TempDir()),
			work: t.Context()}
		r.resume()
		r.wg.Wait()
		if ro := b.keeper.Journal().Rollout; ro.State != tc.state || !strings.HasPrefix(ro.Result, tc.result) {
			t.Errorf("%s: %s, %q", name, ro.State, ro.Result)
		}
	}
}

// TestWhatIsPublished: decisions that an operator may have to explain, the first of several attempts, if they fit.
func TestWhatIsPublished(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, tc := range map[string]struct {
		d     Decision
		want  bool
		owner bool
	}{
		"an enrollment": {Decision{Reason: diag.RecRecoveryEnrolled}, true, true},
		"the first attempt": {Decision{Reason: diag.RecCertExpired, Attempt: 1, Facts: map[string]string{"a": "b"}}, true,
			true},
		"the second":         {Decision{Reason: diag.RecCertExpired, Attempt: 2}, false, false},
		"a wrong clock":      {Decision{Reason: diag.RecClockSkew}, true, false},
		"a failed poll":      {Decision{Reason: diag.RecTaskPollFailed}, false, false},
		"as long as may be":  {Decision{Reason: diag.RecDiskFull, Detail: text(outbox.MaxDetail / 2)}, true, false},
		"longer":             {Decision{Reason: diag.RecDiskFull, Detail: text(outbox.MaxDetail/2 + 1)}, false, false},
		"a clone":            {Decision{Reason: diag.RecClonedIdentity}, true, true},
		"a denial":           {Decision{Reason: diag.RecIdentityRevoked}, true, true},
		"a suppression":      {Decision{Reason: diag.RecRecoverySuppressed}, true, true},
		"a blocked recovery": {Decision{Reason: diag.RecRecoveryEnrollmentBlocked}, true, true},
		"a degraded record":  {Decision{Reason: diag.RecRecordDegraded}, true, false},
		"a lost certificate": {Decision{Reason: diag.RecCertMissing}, false, false},
	} {
		b := openBoot(inMemory(), slog.New(slog.DiscardHandler), newDecisions())
		r := &runtime{cfg: Config{Boot: b, Log: slog.New(slog.DiscardHandler), NodeID: testNode}}
		r.publish(tc.d)
		must(t, b.out.Replay(1)) // the platform says from where
		events := b.out.Batch()
		if (len(events) == 1) != tc.want {
			t.Errorf("%s: %d events", name, len(events))
			continue
		}
		var e diag.RecordEntry
		if tc.want {
			must(t, json.Unmarshal(events[0].Detail, &e))
		}
		if tc.want && (e.Reason != tc.d.Reason || e.NodeID != testNode || (e.Facts["owner"] != "") != tc.owner ||
			e.Facts["a"] != tc.d.Facts["a"]) {
			t.Errorf("%s: %+v", name, e)
		}
		if tc.d.Facts["owner"] != "" {
			t.Errorf("%s: the decision's own facts were changed: %v", name, tc.d.Facts)
		}
	}
}

// TestConfigBounds: what each key of the environment may say.
func TestConfigBounds(t *testing.T) {
	for name, tc := range map[string]struct {
		key, value string
		good       bool
	}{
		"a tenth of a second": {KeyHeartbeatInterval, "100ms", true}, "less": {KeyHeartbeatInterval, "99ms", false},
		"an hour": {KeyTaskWait, "1h", true}, "a moment more": {KeyTaskWait, "1h0m0.000000001s", false},
		"no unit": {KeyTaskWait, "5", false}, "samples": {KeyGPUInterval, "15s", true}, "rare samples": {KeyGPUInterval,
			"15.000000001s", false},
		"a probe": {KeyGPUProbe, "/bin/x", true}, "a relative probe": {KeyGPUProbe, "x", false},
		"a log": {KeyGPUKernelLog, "/dev/x", true}, "a relative log": {KeyGPUKernelLog, "x", false},
		"no https": {KeyAPIURL, "http://a", false}, "no host": {KeyAPIURL, "https://", false}, "no URL": {KeyAPIURL,
			"https://%", false},
		"none": {KeyAPIURL, "", false}, "a slash": {KeyAPIURL, "https://a/", true}, "no terminal": {KeyTerminalURL, "", true},
		"a bad terminal": {KeyTerminalURL, "x", false}, "a bad recovery": {KeyRecoveryURL, "x", false},
		"no node": {KeyNodeID, "", false}, "bad keys": {KeyTaskPubkeys, "x", false},
	} {
		env := map[string]string{KeyNodeID: "n", KeyAPIURL: "https://a"}
		env[tc.key] = tc.value
		c, err := FromEnv(func(k string) string { return env[k] })
		if (err == nil) != tc.good || (err != nil && !strings.Contains(err.Error(), tc.key)) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && c.APIURL.String() != "https://a" {
			t.Errorf("%s: %s", name, c.APIURL)
		}
	}
	for dir, want := range map[string]string{"": "/etc/gpuaas /var/lib/gpuaas /run/gpuaas /etc/gpuaas/agent.env",
		"/x": "/x /x/state  /x/agent.env"} {
		c := Config{Dir: dir}.withDefaults()
		if got := strings.Join([]string{c.Dir, c.StateDir, c.MirrorDir, c.EnvFile}, " "); got != want {
			t.Errorf("%q: %s, want %s", dir, got, want)
		}
		if c.HeartbeatInterval != 15*time.Second || c.TaskWait != 25*time.Second || c.grace != stopGrace ||
			c.TerminalLimits != terminal.DefaultLimits() || c.Dial == nil || c.Recorder == nil || c.Log == nil {
			t.Errorf("defaults: %+v", c)
		}
	}
	own := Config{HeartbeatInterval: time.Second, TaskWait: time.Minute, TerminalLimits: terminal.Limits{TasksMax: "7"}}
	if c := own.withDefaults(); c.HeartbeatInterval != time.Second || c.TaskWait != time.Minute ||
		c.TerminalLimits != own.TerminalLimits {
		t.Errorf("replaced by defaults: %+v", c)
	}
}

// TestTaskResults: what a runner's return values become; output that is too long is a failure, and never cut.
func TestTaskResults(t *testing.T) {
	output := func(n int) string { return strings.Repeat("x", n-2) } // two quotes
	typed := &taskError{code: "c", reason: diag.RecTaskClaimFailed, err: errors.New("no")}
	for name, tc := range map[string]struct {
		output any
		err    error
		status string
		code   string
		reason diag.RecordReason
	}{
		"nothing": {nil, nil, wire.TaskCompleted, "", ""}, "output": {"x", nil, wire.TaskCompleted, "", ""},
		"the most":    {output(maxOutput), nil, wire.TaskCompleted, "", ""},
		"more":        {output(maxOutput + 1), nil, wire.TaskFailed, CodeTaskInternal, ""},
		"unencodable": {func() {}, nil, wire.TaskFailed, CodeTaskInternal, ""},
		"a code":      {"x", typed, wire.TaskFailed, "c", diag.RecTaskClaimFailed},
		"wrapped":     {nil, fmt.Errorf("x: %w", typed), wire.TaskFailed, "c", diag.RecTaskClaimFailed},
		"stopped":     {nil, fmt.Errorf("x: %w", context.Canceled), wire.TaskFailed, CodeAgentStopping, ""},
		"too late":    {nil, fmt.Errorf("x: %w", context.DeadlineExceeded), wire.TaskFailed, CodeTaskTimeout, ""},
		"any error":   {"x", errors.New("x"), wire.TaskFailed, CodeTaskInternal, ""},
	} {
		res, reason := taskResult(&wire.Task{CorrelationID: "corr"}, time.Now(), tc.output, tc.err)
		code := ""
		if res.Error != nil {
			code = res.Error.Code
		}
		if res.Status != tc.status || code != tc.code || reason != tc.reason ||
			(res.Error != nil && res.Error.CorrelationID != "corr") ||
			(len(res.Output) > 0) != (tc.status == wire.TaskCompleted && tc.output != nil) {
			t.Errorf("%s: %s %q %q, %d bytes", name, res.Status, code, reason, len(res.Output))
		}
	}
}

// TestTasksThatCannotBeDone: a payload that a task cannot have.
func TestTasksThatCannotBeDone(t *testing.T) {
	requests := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`{"op":"none"},`, n), ",") + "]" }
	r := &runtime{cfg: Config{NodeID: testNode, EnvFile: filepath.Join(t.TempDir(), "agent.env")}.withDefaults(),
		creds: credentialsIn(t.TempDir()), work: t.Context()}
	r.cfg.APIURL = attemptAt(t, newAuthority(t, "CA"), &pipes{}).cfg.APIURL
	for name, tc := range map[string]struct{ kind, payload, code string }{
		"as many probes as may be": {wire.TaskProbe, requests(64), ""},
		"more probes":              {wire.TaskProbe, requests(65), CodeTaskInvalid},
		"no list of probes":        {wire.TaskProbe, "{}", CodeTaskInvalid},
		"no unit":                  {wire.TaskStatusProbe, `{}`, CodeTaskInvalid},
		"an option for a unit":     {wire.TaskStatusProbe, `{"unit":"-x"}`, CodeTaskInvalid},
		"an option to be stopped":  {wire.TaskCleanup, `{"unit":"-x"}`, CodeTaskInvalid},
		"nothing to clean up":      {wire.TaskCleanup, `{}`, ""},
		"no terminal":              {wire.TaskTerminalOpen, `{}`, terminal.CodeStreamFailed},
		"no token":                 {wire.TaskRotateToken, `{"token":""}`, CodeTokenRefused},
		"no object":                {wire.TaskNoop, `[]`, CodeTaskInvalid},
		"no journal":               {wire.TaskSelfUpdate, `{}`, CodeTaskUnsupported},
		"no such task":             {"other", `{}`, CodeTaskUnsupported},
	} {
		_, _, err := r.guarded(&wire.Task{ID: "t", Type: tc.kind, Payload: []byte(tc.payload)})
		var e *taskError
		if errors.As(err,
			&e); (err == nil) != (tc.code == "") || (e != nil && e.code != tc.code) || (e == nil && err != nil) {
			t.Errorf("%s: %v, want %q", name, err, tc.code)
		}
	}
}

// TestTokensOfTheEnvironment: the file's token counts once the file has changed, and can be read.
func TestTokensOfTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.env")
	must(t, os.WriteFile(path, []byte(KeyToken+"=a\n"), 0o600))
	seen := stamp(path)
	if token, changed := tokenIn(path, seen); changed || !token.IsZero() {
		t.Errorf("unchanged: %v", changed)
	}
	must(t, os.WriteFile(path, []byte(KeyToken+"=bb\n"), 0o600))
	if token, changed := tokenIn(path, seen); !changed || token.Reveal() != "bb" {
		t.Errorf("changed: %v, %q", changed, token.Reveal())
	}
	must(t, os.Remove(path))
	if _, changed := tokenIn(path, seen); changed {
		t.Error("a file that is gone holds a token")
	}
	for v, want := range map[string]bool{"": true, "a": true, "!": true, "~": true, " ": false, "\x7f": false,
		"\x1f": false, "\"": false,
		"'": false, `\`: false, "$": false, "`": false, ";": false, "&": false, "|": false, "<": false, ">": false,
		"(": false, ")": false} {
		if got := fitsEnv(v); got != want {
			t.Errorf("%q fits: %v", v, got)
		}
	}
}
