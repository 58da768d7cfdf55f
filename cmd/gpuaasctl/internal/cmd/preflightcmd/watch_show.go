package preflightcmd

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/compare"
)

// watchShow writes the results of a watch: lines for people, or NDJSON. On a terminal one more line, rewritten each
// second, shows that the watch is running.
type watchShow struct {
	app    *cmdutil.App
	format string
	bell   io.Writer  // a terminal; nil: no bell
	live   io.Writer  // the terminal whose last line is rewritten, or nil
	width  func() int // current width of that terminal; 0: unknown

	unbuilt int // number of hops that are not implemented: omitting them does not make a watch partial
	walks   int
	changed time.Time // time of the last change
	took    time.Duration
	beating bool // the line is on the screen
}

func newWatchShow(a *cmdutil.App, format string, bell bool) *watchShow {
	s := &watchShow{app: a, format: format}
	onTerminal := cmdutil.IsTerminal(a.Stdout) && a.Env("TERM") != "dumb"
	if onTerminal && !a.Quiet && format == cmdutil.FormatTable {
		s.live, s.width = cmdutil.Raw(a.Stdout), func() int { return a.Width(a.Stdout) }
	}
	for _, w := range []io.Writer{a.Stderr, a.Stdout} {
		if bell && s.bell == nil && cmdutil.IsTerminal(w) {
			s.bell = cmdutil.Raw(w)
		}
	}
	return s
}

// begin writes which hops are walked, and which are not.
func (s *watchShow) begin(w *compare.Watched) error {
	s.changed = time.Now()
	if s.format == cmdutil.FormatNDJSON {
		return s.app.Show(diag.Documents[diag.Document]{w}, s.app.RenderOptions(s.format), nil)
	}
	every := time.Duration(w.EveryMS) * time.Millisecond
	text := fmt.Sprintf("watching %s every %s: %d", cmp.Or(w.NodeID, "the platform"), every, len(w.Asked))
	left := 0
	for _, x := range w.NotAsked {
		switch {
		case unbuilt(x.Because):
			s.unbuilt++
		case x.What == "":
			left++
		}
	}
	if left > 0 {
		text += fmt.Sprintf(" of %d", len(w.Asked)+left)
	}
	text += " hops"
	return s.lines(s.stamp(time.Now())+"  "+text, notAsked(w.NotAsked),
		fmt.Sprintf("The login is kept between walks, and made again every %d minutes. Ctrl-C ends the watch.",
			int(ops.MaxLoginAge.Minutes())))
}

// unbuilt reports whether a hop is omitted because it is not implemented yet.
func unbuilt(because string) bool { return strings.HasPrefix(because, "not built yet") }

// notAsked lists the omitted hops by reason; "" for none.
func notAsked(list []compare.NotAsked) string {
	var reasons []string
	named := map[string][]string{}
	for _, x := range list {
		name := string(x.Hop)
		if x.What != "" {
			name += " (" + x.What + ")"
		}
		why := "Not asked, " + strings.TrimPrefix(x.Because, "not asked: ")
		if unbuilt(x.Because) {
			why = "Not built yet"
		}
		if named[why] == nil {
			reasons = append(reasons, why)
		}
		named[why] = append(named[why], name)
	}
	var text []string
	for _, why := range reasons {
		text = append(text, why+": "+strings.Join(named[why], ", "))
	}
	return strings.Join(text, "\n")
}

// walked writes how a walk differs from the previous one.
func (s *watchShow) walked(before, now *diag.Report, took time.Duration) error {
	s.walks, s.took = s.walks+1, took
	changes := compare.WatchChanges(before, now)
	if len(changes) == 0 {
		return nil
	}
	s.changed = time.Now()
	if s.bell != nil && before != nil {
		_, _ = io.WriteString(s.bell, "\a") // a terminal that is gone needs no bell
	}
	if s.format == cmdutil.FormatNDJSON {
		var docs diag.Documents[diag.Document]
		for i := range changes {
			docs = append(docs, &changes[i])
		}
		return s.app.Show(docs, s.app.RenderOptions(s.format), nil)
	}
	s.clear()
	return s.app.Show(nil, s.app.RenderOptions(s.format), func(w io.Writer, o render.Options) error {
		_, err := w.Write(page.Text(page.Layout{Color: o.Color, ASCII: o.ASCII}, s.changes(changes)...))
		return err
	})
}

// changes returns the lines for changes. Symptoms of another hop share one line.
func (s *watchShow) changes(all []compare.WatchChange) []page.Block {
	var blocks []page.Block
	var unreached, reached []string
	stamp := page.Cell{Text: s.stamp(all[0].At.Time) + "  ", Style: page.Faint}
	for i := range all {
		c := &all[i]
		switch {
		case c.Hop == "":
			blocks = append(blocks, append(page.Line{stamp}, s.verdictLine(c)...))
		case c.Now.Status == diag.StatusNotReached:
			unreached = append(unreached, string(c.Hop))
		case c.Now.Status == diag.StatusPass && c.Before != nil && c.Before.Status == diag.StatusNotReached:
			reached = append(reached, string(c.Hop))
		default:
			line := page.Line{stamp, page.Status(c.Now.Status), {Text: "  " + string(c.Hop) + was(c.Before)}}
			if text := strings.TrimSpace(string(c.Now.Signal) + "  " + c.Now.Text); text != "" {
				line = append(line, page.Cell{Text: "  " + text})
			}
			blocks = append(blocks, line)
		}
	}
	for _, rest := range []struct {
		status diag.Status
		words  string
		hops   []string
	}{{diag.StatusNotReached, "", unreached}, {diag.StatusPass, "again: ", reached}} {
		if len(rest.hops) > 0 {
			blocks = append(blocks, page.Line{stamp, page.Status(rest.status),
				{Text: "  " + rest.words + strings.Join(rest.hops, ", ")}})
		}
	}
	return blocks
}

// verdictLine is the verdict and its scope: a pass of some hops is not a pass of the chain.
func (s *watchShow) verdictLine(c *compare.WatchChange) page.Line {
	word := string(c.Now.Status)
	if of := c.Of - s.unbuilt; c.Asked < of || c.Left > 0 {
		word += fmt.Sprintf(" of what is asked (%d of %d hops)", c.Asked, of)
	}
	line := page.Line{page.Marked(c.Now.Status, "verdict: "+word), {Text: was(c.Before)}}
	var parts []string
	if c.Now.Hop != "" {
		parts = append(parts, "blame "+string(c.Now.Hop), string(c.Now.Signal))
	} else if c.Now.Text != "" {
		parts = append(parts, c.Now.Text)
	}
	if c.Now.Owner != "" && c.Now.Status != diag.StatusPass {
		parts = append(parts, "owner "+c.Now.Owner)
	}
	if len(parts) > 0 {
		line = append(line, page.Cell{Text: "  " + strings.Join(parts, "  ")})
	}
	return line
}

// was describes the previous state, after the current one.
func was(s *compare.WatchState) string {
	if s == nil {
		return ""
	}
	text := s.Status.Words()
	if s.Signal != "" {
		text += " " + string(s.Signal)
	}
	return ", was " + text
}

// beat rewrites the line that shows that the watch is running.
func (s *watchShow) beat(now string) {
	if s.live == nil {
		return
	}
	text := s.stamp(time.Now()) + "  " + now
	if s.walks > 0 {
		text += fmt.Sprintf("; walk %d took %.1f s; no change for %s", s.walks, s.took.Seconds(),
			seconds(time.Since(s.changed)))
	}
	width := s.width()
	if width < 2 {
		width = 80
	}
	_, _ = io.WriteString(s.live, "\r\x1b[K"+page.Cut(text, width-1)) // optional output
	s.beating = true
}

// clear removes that line from the screen.
func (s *watchShow) clear() {
	if s.beating {
		_, _ = io.WriteString(s.live, "\r\x1b[K")
		s.beating = false
	}
}

func (s *watchShow) end() { s.clear() }

// lines writes lines for people.
func (s *watchShow) lines(lines ...string) error {
	var b strings.Builder
	for _, l := range lines {
		if l != "" {
			b.WriteString(l + "\n")
		}
	}
	return s.app.Write([]byte(b.String()))
}

// stamp formats the time in every line.
func (s *watchShow) stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
