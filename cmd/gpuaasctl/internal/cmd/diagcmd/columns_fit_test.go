package diagcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// TestTablesFit: on a terminal no line is too wide, and no word is lost; on a pipe each row is one line.
func TestTablesFit(t *testing.T) {
	long := "this certificate has expired: the current time is behind 2026-11-21T08:00:00Z, and nobody renewed it in " +
		"between"
	at := diag.At(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	f := diag.RecordFacts{Path: "/var/lib/gpuaas/diag", Slots: 256, Valid: 2, Entries: []diag.RecordEntry{
		{Seq: 1, BootID: "6c71106c-b36e", At: at, Reason: diag.RecProcessAlive, About: "agent", Decision: "start"},
		{Seq: 2, BootID: "6c71106c-b36e", At: at, Reason: diag.RecRecoveryEnrollmentBlocked, About: "terminal_stream",
			Decision: "quarantine", Attempt: 97, DelayMS: 28700, Failure: diag.MTLSIngress400, Detail: long},
	}}
	doc := ops.Record{Record: f, Story: record.StoryOf(f)}
	history := "# times are the operator's clock; ~ by the clock of the source, whose error is not known; ^ of the line " +
		"before\n" +
		"2030-01-01T12:00:00.000Z  W agent     " + long + "\n" +
		"2030-01-01T12:00:01.000Z    ...       routine until 12:00:09\n"
	for _, limit := range []int{80, 200, 0} {
		for name, text := range map[string]string{
			"record":   fits(limit, recordPage(doc, limit > 0)),
			"timeline": fits(limit, timelinePage([]byte(history), limit > 0)),
			"trust": fits(limit, []page.Block{cmdutil.Table([][]string{{"WHAT", "BY", "SHA256", "NAME", "VALID", "NOTE"},
				{"certificate that the node API presents", "node", "0123456789ab", "node-api.gpuaas.test",
					"2026-11-21 to 2027-11-21", long}})}),
			"story": fits(limit, []page.Block{storyFields(doc)}),
		} {
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); limit > 0 && n > limit {
					t.Errorf("%s at %d: a line of %d:\n%s", name, limit, n, text)
				}
			}
			words := strings.Fields(text)
			for _, w := range strings.Fields(long) {
				if !strings.Contains(strings.Join(words, " "), w) {
					t.Errorf("%s at %d lacks %q:\n%s", name, limit, w, text)
				}
			}
			if limit == 0 && !strings.Contains(text, long) {
				t.Errorf("%s on a pipe is wrapped:\n%s", name, text)
			}
			if limit == 80 {
				t.Logf("%s:\n%s", name, text)
			}
		}
	}
	if text := fits(80, recordPage(doc, true)); strings.Count(text, "6c71106c") != 1 {
		t.Errorf("a boot that all share is repeated:\n%s", text)
	}
}

func fits(limit int, blocks []page.Block) string {
	return string(page.Text(page.Layout{Width: limit}, blocks...))
}
