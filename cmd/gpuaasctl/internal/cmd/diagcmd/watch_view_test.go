package diagcmd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui/explorer"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// TestLiveRecord: the newest entry comes first, each tick reads once, and a failed read keeps the earlier entries and
// is shown.
func TestLiveRecord(t *testing.T) {
	at := func(s int) diag.Time { return diag.At(time.Date(2026, 5, 21, 10, 0, s, 0, time.UTC)) }
	facts := &diag.RecordFacts{Path: "/r", Slots: 8, Valid: 2, Newest: 2, Entries: []diag.RecordEntry{
		{Seq: 1, BootID: "b", MonoNS: 1, At: at(1), Reason: diag.RecAPIUnreachable, About: "heartbeat", Decision: "retry",
			Failure: diag.TCPRefused, Count: 3, First: at(1), Last: at(9), Attempt: 2, DelayMS: 1500, CeilingMS: 30_000,
			Facts: map[string]string{"endpoint": "https://api.example"}},
		{Seq: 2, BootID: "b", MonoNS: 2, At: at(3), About: "identity", Decision: "enrolled"},
	}, Pinned: []diag.RecordEntry{
		{Seq: 2, BootID: "b", MonoNS: 3, At: at(4), About: "heartbeat", Decision: record.DecisionContact,
			Pin: record.PinContact},
	}}
	var err error
	tick := make(chan time.Time)
	l := &liveRecord{node: "n1", every: 2 * time.Second, tick: tick, now: func() time.Time { return at(30).Time },
		command: func(words ...string) string { return strings.Join(words, " ") },
		read:    func(context.Context) (*diag.RecordFacts, error) { return facts, err }}
	if err := l.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := func(d explorer.Document) (text string) {
		for _, i := range d.Items {
			text += i.Mark.Text + " " + strings.TrimSpace(i.Name+" "+i.Note) + "\n"
		}
		return text
	}
	const entries = "✔ 10:00:04 heartbeat contact\n· 10:00:03 identity enrolled\n✘ 10:00:09 api_unreachable x3\n"
	d := l.document()
	if got := rows(d); got != "✔ the record\n"+entries {
		t.Errorf("the rows are\n%s", got)
	}
	text := ""
	for _, i := range d.Items {
		for _, s := range i.Sections(render.Options{}) {
			text += string(page.Text(page.Layout{}, s.Blocks...))
		}
	}
	for _, want := range []string{"3 times since", "2 in 1.5s", "at most", "30s", "https://api.example", "[3]",
		"diag classify --explain", "first cause", "1 of boot b"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not shown:\n%s", want, text)
		}
	}

	shown := make(chan explorer.Document)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.follow(ctx, func(d explorer.Document) { shown <- d })
	}()
	err = errors.New("no route to host")
	tick <- time.Time{}
	d = <-shown
	const lost = "not read since 10:00:30Z, trying on: no route"
	if got := rows(d); got != "? the record not read\n"+entries || !strings.Contains(d.Title, lost) {
		t.Errorf("a record that cannot be read is %q\n%s", d.Title, got)
	}
	err, facts.Degraded = nil, "the disk is full"
	tick <- time.Time{}
	d = <-shown
	if !strings.HasPrefix(rows(d), "✘ the record\n") || !strings.Contains(d.Title, "read at 10:00:30Z, every 2s") {
		t.Errorf("a record that is degraded is %q\n%s", d.Title, rows(d))
	}
	cancel()
	<-over
}
