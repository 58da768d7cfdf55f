package preflight

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// scrubLine is the Scrub that the tool gives an Env.
func scrubLine(text string) string { return scrub.Line(text, nil) }

const emfile = "connect the node stream: dial tcp 192.0.2.10:18443: socket: too many open files"

// noStreamOf returns the answers of a session whose task the agent failed.
func noStreamOf(task string) answers {
	return answers{
		"browser_terminal_ws/session": streamTimeout,
		"terminal_open_task/session": func(f *diag.Fact) {
			noStream(f)
			f.HTTP.Fields["session.task_id"], f.HTTP.Fields["session.task_error_code"] = task, "node_stream_failed"
		},
	}
}

// inRecord adds an entry to the node's record.
func inRecord(e diag.RecordEntry) answers {
	return answers{"node_recovery_status/host_record": func(f *diag.Fact) {
		e.Seq, e.BootID, e.At = 2, "boot-1", diag.At(noon)
		f.Record.Entries = append(f.Record.Entries, e)
	}}
}

// TestOwnWordsAreQuoted: the error that node or platform recorded for this walk's own task is in the finding of its
// hop, and the advice follows it. An error of another task is not.
func TestOwnWordsAreQuoted(t *testing.T) {
	entry := diag.RecordEntry{Reason: diag.RecTerminalStreamFailed, About: "task", Decision: "report",
		Code: "node_stream_failed", Detail: emfile}
	own, byID, other := entry, entry, entry
	own.TaskID, byID.CorrelationID, other.TaskID, other.CorrelationID = "task-9", "corr-1", "task-1", "corr-0"
	line := diag.EvidenceLine{At: diag.At(noon), Kind: "task.failed", CorrelationID: "corr-1", TaskID: "task-9",
		Code: "node_stream_failed", Error: emfile}
	late, gateway := line, line
	late.TaskID, late.CorrelationID = "task-1", "corr-0"
	gateway.Kind, gateway.Code, gateway.Error = "terminal.error", "node_stream_timeout", "no node stream came in time"
	for _, tc := range []struct {
		name     string
		answers  answers
		evidence []diag.EvidenceLine
		quoted   bool
	}{
		{"the record, by the task", with(noStreamOf("task-9"), inRecord(own)), nil, true},
		{"the record, by the correlation id", with(noStreamOf(""), inRecord(byID)), nil, true},
		{"the record of another walk", with(noStreamOf("task-9"), inRecord(other)), nil, false},
		{"the platform's evidence", noStreamOf("task-9"), []diag.EvidenceLine{line}, true},
		{"evidence of another walk", noStreamOf("task-9"), []diag.EvidenceLine{late}, false},
		{"the gateway's own time-out is no cause", noStreamOf("task-9"), []diag.EvidenceLine{gateway}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := walkWith(t, tc.answers)
			r.Evidence = tc.evidence
			verdict.Judge(hops.BuiltIn(), r)
			v := r.Verdict
			if v.Blame == nil || v.Blame.Hop != diag.HopGatewayNodeStream {
				t.Fatalf("blame %+v\n%s", v.Blame, describe(r))
			}
			if got := strings.Contains(v.Blame.Text, "too many open files"); got != tc.quoted {
				t.Errorf("quoted: %t, want %t: %s", got, tc.quoted, v.Blame.Text)
			}
			limit := func(s string) bool { return strings.Contains(s, "LimitNOFILE") }
			if first := len(v.Recovery) > 0 && limit(v.Recovery[0]); first != tc.quoted {
				t.Errorf("the first step is about the limit: %t, want %t: %q", first, tc.quoted, v.Recovery)
			}
			if slices.ContainsFunc(v.Recovery, func(s string) bool { return strings.Contains(s, "must be replaced") }) {
				t.Errorf("the agent said that its task failed, and its build is to be replaced: %q", v.Recovery)
			}
			replaysToItself(t, r)
		})
	}
}

// TestOneTaskIsNotQuotedForAnother: the platform's evidence about the walk's terminal session is not quoted for its
// no-op.
func TestOneTaskIsNotQuotedForAnother(t *testing.T) {
	r := walkWith(t, answers{taskFact: nobodyClaims})
	for _, session := range []string{"", "sess-1"} {
		r.Evidence = []diag.EvidenceLine{{At: diag.At(noon), Kind: "terminal.error", CorrelationID: "corr-1",
			SessionID: session, Code: "session_not_found", Error: "no browser waits for this terminal session"}}
		verdict.Judge(hops.BuiltIn(), r)
		if b := r.Verdict.Blame; b == nil || b.Hop != diag.HopNodeTaskRoundtrip ||
			strings.Contains(b.Text, "no browser waits") {
			t.Errorf("%+v", b)
		}
	}
}

// TestBuildsAreReplacedForWhatTheyHid: an agent that reported success and recorded nothing is still treated as an old
// build.
func TestBuildsAreReplacedForWhatTheyHid(t *testing.T) {
	r := walkWith(t, answers{
		"browser_terminal_ws/session": streamTimeout, "terminal_open_task/session": func(f *diag.Fact) {
			noStream(f)
			f.HTTP.Fields["session.task_status"] = "completed"
		}})
	if !slices.ContainsFunc(r.Verdict.Recovery, func(s string) bool { return strings.Contains(s, "must be replaced") }) {
		t.Errorf("%q\n%s", r.Verdict.Recovery, describe(r))
	}
}

// TestEvidenceKeepsTheError: code and message of an item's detail are kept on one bounded line, without what looks like
// a credential; nothing else of the detail is.
func TestEvidenceKeepsTheError(t *testing.T) {
	long := strings.Repeat("wrapped: ", 60) + "too many open files"
	raw :=
		`[{"at":"2026-01-02T12:00:00Z","kind":"task.failed","task_id":"task-9","detail":{"code":"node_stream_failed","message":"` + long +
			`","payload":"kept there"}},` +
			`{"at":"2026-01-02T12:00:00Z","kind":"x","detail":{"message":"token=canary-1 Authorization: Bearer canary-2\nGET \"https://h/p?login=canary-3\" ` +
			`eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9canary4"}},{"at":"2026-01-02T12:00:00Z","kind":"y","detail":{"code":7,"message":["canary-5"]}}]`
	lines := walk.ParseEvidence(raw, scrubLine)
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	if l := lines[0]; l.Code != "node_stream_failed" || !strings.HasSuffix(l.Error, "too many open files") ||
		len([]rune(l.Error)) > reading.MaxCause {
		t.Errorf("%+v", l)
	}
	for _, l := range lines {
		if strings.Contains(l.Error+l.Code, "canary") || strings.ContainsAny(l.Error, "\n\t") {
			t.Errorf("%+v", l)
		}
	}
	if !lines[0].At.Equal(noon.Truncate(time.Second)) || lines[0].TaskID != "task-9" {
		t.Errorf("%+v", lines[0])
	}
}

// TestEvidenceKeepsNoSecret: an error in foreign evidence is kept without secrets, in every form in which errors have
// them, and without characters that control a terminal; ids and plain text stay. Without a scrubber nothing of it is
// kept.
func TestEvidenceKeepsNoSecret(t *testing.T) {
	const canary = "canary-1f9C"
	for _, message := range []string{
		"access_token=" + canary, "client_secret: " + canary, "GPUAAS_ENROLLMENT_TOKEN=" + canary,
		`{"refresh_token":"` + canary + `"}`, "Cookie: a=1; session=" + canary, "Set-Cookie: s=" + canary + "; HttpOnly",
		"Authorization: Token " + canary, "Authorization: Digest username=x, response=" + canary, "x-api-key: " + canary,
		"gpuaas.terminal.v1, bearer." + canary,
		"postgres://u:" + canary + "@db/x: refused", "url=https://u:" + canary + "@h/p",
		"GET https://h/p?sig=" + canary + ": EOF", "-----BEGIN PRIVATE KEY-----\nMIIE/" + canary + "\nAAA" + canary +
			"\n-----END PRIVATE KEY-----",
		"-----BEGIN EC PRIVATE KEY-----\n" + canary, strings.Repeat("x ", 300) + "token=" + canary + strings.Repeat(" y", 94),
	} {
		item, err := json.Marshal([]map[string]any{
			{"kind": "task.failed", "detail": map[string]string{"message": message, "code": message}},
		})
		if err != nil {
			t.Fatal(err)
		}
		lines := walk.ParseEvidence(string(item), scrubLine)
		if len(lines) != 1 || lines[0].Error == "" {
			t.Fatalf("%q: %+v", message, lines)
		}
		if text := lines[0].Error + lines[0].Code; strings.Contains(text, "1f9C") {
			t.Errorf("%q is kept as %q", message, text)
		}
		if l := walk.ParseEvidence(string(item), nil)[0]; l.Error+l.Code != "" {
			t.Errorf("without a scrubber %q is kept", l.Error+l.Code)
		}
	}
	const plain = "task-0123456789abcdef0123456789abcdef: the recovery token is expired: dial tcp 192.0.2.10:18443: " +
		"connect: connection refused"
	if got := walk.ParseEvidence(`[{"detail":{"message":"`+plain+`"}}]`, scrubLine)[0].Error; got != plain {
		t.Errorf("%q", got)
	}
	for _, r := range walk.ParseEvidence(`[{"detail":{"message":"\u001b[31mred\u202e\u009b31m\u2028\u200b\u007f"}}]`,
		scrubLine)[0].Error {
		if r < ' ' || r >= 0x7f {
			t.Errorf("%U is kept", r)
		}
	}
}
