package evidence

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestFold: a day of health is one line, a loop is shown once, and a cause is never hidden.
func TestFold(t *testing.T) {
	var j diag.JournalFacts
	request := func(ms int, path, status string) {
		j.Lines = append(j.Lines, line(ms, `{"method":"POST","path":"`+path+`","status":`+status+`,"correlation_id":"c"}`))
	}
	for i := range 100 {
		request(i, "/internal/v1/nodes/n1/heartbeat", "200")
	}
	for i := range 50 {
		request(1000+2*i, "/internal/v1/nodes/n1/heartbeat", "502")
		j.Lines = append(j.Lines,
			line(1001+2*i, "level=WARN msg=decision reason=api_unreachable decision=retry attempt="+strings.Repeat("1", i%3+1)+
				" delay=1.5s"))
	}
	request(2000, "/internal/v1/nodes/n1/heartbeat", "403")
	request(2001, "/internal/v1/nodes/n1/heartbeat", "200")
	h := Join(Query{NodeID: "n1"}, Journal(known("platform", 0), FromIngress, "n1", &j))
	lines := Fold(h.Events)
	var got []string
	for _, l := range lines {
		_, text, _ := strings.Cut(l.Text(Query{NodeID: "n1"}), " ")
		got = append(got, strings.TrimSpace(text))
	}
	want := []string{
		"...       routine until 12:00:00: heartbeats, task waits, status probes and reads went well (lines: 100 ingress)",
		"E ingress   (50x until 12:00:01, the first:) POST /internal/v1/nodes/n1/heartbeat -> 502 [correlation c]",
		"W ingress   (50x until 12:00:01, the first:) decision reason=api_unreachable decision=retry attempt=1 delay=1.5s",
		"W ingress   POST /internal/v1/nodes/n1/heartbeat -> 403 [correlation c]",
		"...       routine until 12:00:02: heartbeats, task waits, status probes and reads went well (lines: 1 ingress)",
	}
	equal(t, got, want...)
}

// TestLogLines: lines of slog and nginx are parsed, and other lines stay text.
func TestLogLines(t *testing.T) {
	for text, want := range map[string]Event{
		`time=2026-01-02T12:00:00.500Z level=ERROR msg="task failed" task_id=t1 correlation_id=c1 code=x`: {
			Message: "task failed code=x", Severity: Error, TaskID: "t1", CorrelationID: "c1",
		},
		`{"method":"GET","path":"/internal/v1/nodes/n9/tasks/t9/result","status":500,"error":"boom"}`: {
			Message: "GET /internal/v1/nodes/n9/tasks/t9/result -> 500: boom", Severity: Error, NodeID: "n9", TaskID: "t9",
		},
		`{"method":"GET","path":"/x","status":400,"client_verify":"FAILED:certificate has expired"}`: {
			Message: "GET /x -> 400, client certificate: FAILED:certificate has expired", Severity: Warning,
		},
		`{"method":"GET","path":"/v1/terminal/[redacted]","status":101}`: {
			Message: "GET /v1/terminal/[redacted] -> 101", Severity: Info,
		},
		`Started a=b but not logfmt`: {Message: "Started a=b but not logfmt", Severity: Info},
		`{"broken`:                   {Message: `{"broken`, Severity: Info},
		``:                           {Severity: Info},
	} {
		got := logEvent(FromIngress, "", diag.JournalLine{At: at(1000), Text: text})
		if got.Message != want.Message || got.Severity != want.Severity || got.ids() != want.ids() {
			t.Errorf("%s\n got %q %s %q\nwant %q %s %q", text, got.Message, got.Severity, got.ids(), want.Message, want.Severity,
				want.ids())
		}
	}
	if e := logEvent(FromAgent, "n1",
		diag.JournalLine{At: at(1000), Text: "time=2026-01-02T12:00:00.500Z msg=x"}); !e.SourceTime.Equal(at(500).Time) {
		t.Errorf("the line's own time is not taken: %v", e.SourceTime)
	}
}

// FuzzLogLine: no line makes the parser fail.
func FuzzLogLine(f *testing.F) {
	f.Add(`a="b`)
	f.Add(`{"path":"/nodes/"}`)
	f.Fuzz(func(t *testing.T, s string) {
		e := logEvent(FromPlatform, "n", diag.JournalLine{Text: s})
		h := Join(Query{}, Source{Events: []Event{e, e}})
		if len(h.Events) != 1 {
			t.Errorf("%d events of one line", len(h.Events))
		}
		_ = h.Text()
	})
}
