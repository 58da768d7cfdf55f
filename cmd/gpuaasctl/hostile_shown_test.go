//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/hostiletest"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestHostilePlan plants hostile text in every string field of a plan with a survey of machines, which is shown as a
// table, as a document, and as the facts of another plan.
func TestHostilePlan(t *testing.T) {
	t.Parallel()
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	var text []byte
	for line := range bytes.Lines(golden(t, "golden", "drills", "api-egress-blocked.ndjson")) {
		var e struct{ Plan json.RawMessage }
		if json.Unmarshal(line, &e) == nil && e.Plan != nil {
			text = e.Plan
			break
		}
	}
	profileFile := s.Write("p.yaml",
		[]byte("api_base: https://api.test\nnodes: {compute-node-01: {host: 192.0.2.1}}\nchaos: {allow: true}\n"))
	hostiletest.PlantedIn(t, text, func(field string, p *chaos.Plan) bool {
		for _, format := range []string{cmdutil.FormatTable, cmdutil.FormatMarkdown} {
			s.Shows(field, format, func(a *cmdutil.App) error { return a.ShowPage(p, format, drillrender.Plan(p)...) })
		}
		inFormats(s, field, []string{cmdutil.FormatTable, cmdutil.FormatJSON, cmdutil.FormatMarkdown},
			"chaos", "plan", "api-egress-blocked",
			"--profile", profileFile, "--node-id", "compute-node-01", "--facts", s.Write("plan.json", hostiletest.Encoded(t, p)))
		return s.Shows(field, cmdutil.FormatJSON, func(a *cmdutil.App) error {
			return a.Show(p.Redacted(), a.RenderOptions(cmdutil.FormatJSON), nil)
		})
	})
	s.Enough()
}

// obeys returns the first planted control sequence that would reach the terminal: our own colours, cursor moves and
// erasures are stripped, and none of the planted ones may be left.
func obeys(text string) string {
	for _, foreign := range []string{"X\x1b[31mX", "X\x1b[2J", "\x1b]52;c;cHduZWQ=", "\x1b]0;t", "\u009b2J", "\u202e",
		"\u2066", "\u200b", "X\rX", "\x08\x07"} {
		if strings.Contains(text, foreign) {
			return fmt.Sprintf("%q", foreign)
		}
	}
	rest := strings.ReplaceAll(strings.ReplaceAll(ansi.Strip(text), "\r\n", "\n"), "\r", "")
	// A backspace by itself is how a live view moves back one column.
	if i := strings.IndexAny(rest, "\x00\x07\x1b\x7f\u0085\u009b"); i >= 0 {
		return fmt.Sprintf("%q", rest[max(0, i-20):min(len(rest), i+10)])
	}
	return ""
}

// TestHostileTextOnATerminal checks the output on a real terminal of a live walk, a replay, a drill's report and a
// plan, with hostile text everywhere.
func TestHostileTextOnATerminal(t *testing.T) {
	tier.NeedsHost(t)
	home := t.TempDir()
	if where := obeys("a X\x1b[31mX"); where == "" {
		t.Fatal("the test sees nothing")
	}
	s := &hostiletest.Shown{T: t, Home: home}
	walk := &mappedPlatform{t: t, alter: func(_ string, answer []byte) []byte { return hostiletest.AlterNth(answer, 0) }}
	terminal := func(args ...string) string {
		text, _ := onTerminal(t, "", append([]string{"gpuaasctl"}, args...)...)
		return text
	}
	commands := map[string]func() string{
		"a live walk": func() string {
			var live string
			walk.run = func(args []string) (code int) {
				live, code = onTerminal(t, "", append([]string{"gpuaasctl"}, args...)...)
				return code
			}
			walk.runOn([]string{"preflight", "--node-id", "n1", "--allocation-id", "a1", "--no-save"})
			return live
		},
	}
	replayed := s.Write("r.json", hostileReport(t, golden(t, "golden", "reports", "api-egress-blocked.json")))
	commands["preflight replay"] = func() string { return terminal("preflight", "replay", replayed) }
	var report drill.Report
	if err := json.Unmarshal(golden(t, "chaos", "render", "testdata", "residue.json"), &report); err != nil {
		t.Fatal(err)
	}
	for i := range report.Drills {
		d := &report.Drills[i]
		d.Title, d.Verdict.Text, d.Node = d.Title+hostiletest.Hostile, d.Verdict.Text+hostiletest.Hostile,
			d.Node+hostiletest.Hostile
	}
	commands["chaos report"] = func() string {
		return terminal("chaos", "report", s.Write("d.json", hostiletest.Encoded(t, report)))
	}
	for name, run := range commands {
		text := run()
		if !strings.Contains(text, `\x1b`) && !strings.Contains(text, `\u202e`) {
			t.Errorf("%s: nothing of what was planted is shown:\n%.600q", name, text)
		}
		if where := obeys(text); where != "" {
			t.Errorf("%s: a terminal obeys %s", name, where)
		}
	}
}

// hostileReport plants hostile text in the texts of a report on which no proof depends.
func hostileReport(t *testing.T, text []byte) []byte {
	t.Helper()
	var r diag.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	r.Subject.NodeID, r.Run.ToolVersion = r.Subject.NodeID+hostiletest.Hostile, r.Run.ToolVersion+hostiletest.Hostile
	for i := range r.Evidence {
		r.Evidence[i].Kind += hostiletest.Hostile
	}
	return hostiletest.Encoded(t, r)
}
