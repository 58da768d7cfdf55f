package preflightcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/compare"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// compareWalk walks both sides concurrently, each within the deadline, and shows the differences.
func (o *preflightOptions) compareWalk(a *cmdutil.App, cmd *cobra.Command, s *ops.Session, walk ops.WalkOptions) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Deadline)
	defer cancel()
	there, err := o.elsewhere(ctx, a, s.Subject().NodeID, walk)
	if err != nil {
		return err
	}
	var here, other *diag.Report
	var both sync.WaitGroup
	both.Go(func() { here = s.Walk(ctx, walk, nil) })
	both.Go(func() { other = there() })
	both.Wait()
	return o.showCompared(a, here, other)
}

// compareRecorded compares a recorded report.
func (o *preflightOptions) compareRecorded(a *cmdutil.App, cmd *cobra.Command, path string) error {
	here, err := recorded(cmd.Context(), a, path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Deadline)
	defer cancel()
	there, err := o.elsewhere(ctx, a, here.Subject.NodeID, ops.WalkOptions{Terminal: o.session})
	if err != nil {
		return err
	}
	return o.showCompared(a, here, there())
}

// recorded returns a report, judged by today's rules.
func recorded(ctx context.Context, a *cmdutil.App, path string) (*diag.Report, error) {
	r, err := cmdutil.Read(ctx, a, path, a.Rejudge)
	if err != nil {
		return nil, err
	}
	if why := verdict.Reduced(r); why != "" {
		return nil, cmdutil.Usagef("%s cannot be compared: %s", path, why)
	}
	return r, nil
}

// elsewhere makes the other walk, or reads its report. The other profile comes from its file only: this walk's flags
// and variables do not override it. The node is the given one, else the one with the same id, else the profile's only
// node.
func (o *preflightOptions) elsewhere(ctx context.Context, a *cmdutil.App, node string,
	walk ops.WalkOptions) (func() *diag.Report, error) {
	if formats := []string{cmdutil.FormatTable, cmdutil.FormatJSON, cmdutil.FormatMarkdown}; !slices.Contains(formats,
		o.output) {
		return nil, cmdutil.BadFormat(o.output, formats...)
	}
	words := strings.SplitN(o.compare, ",", 3)
	if isReportFile(o.compare) {
		r, err := recorded(ctx, a, o.compare)
		return func() *diag.Report { return r }, err
	}
	p, _, err := profile.Load(words[0], profile.Sources{Dir: profile.Dir(a.Env)})
	if err != nil || words[0] == "" {
		return nil, cmdutil.Usagef("--compare: %w", cmp.Or(err, errors.New(a.NoProfile())))
	}
	words = append(words, "", "")
	known := slices.Sorted(maps.Keys(p.Nodes))
	switch {
	case words[1] != "":
	case slices.Contains(known, node):
		words[1] = node
	case len(known) == 1:
		words[1] = known[0]
	default:
		return nil, cmdutil.Usagef("--compare %s: which node is meant there? Give %s,NODE (it has %s)", words[0], words[0],
			cmp.Or(strings.Join(known, ", "), "none"))
	}
	t := ops.Target{Node: words[1], Allocation: words[2], As: "preflight"}
	if err := cmdutil.CheckIDs(t); err != nil {
		return nil, cmdutil.Usagef("--compare: %w", err)
	}
	site, err := a.Site(ctx, p, words[0], o.Libexec, true)
	if err != nil {
		return nil, err
	}
	s := site.About(t)
	if err := s.RequireHost(); err != nil {
		return nil, cmdutil.Usagef("--compare: %w", a.WithHint(err))
	}
	walk.Memory, walk.Baseline, walk.Command = nil, ops.Baseline{}, ""
	return func() *diag.Report { return s.Walk(ctx, walk, nil) }, nil
}

// showCompared writes the comparison, and this side's report for --out. The exit code is this side's.
func (o *preflightOptions) showCompared(a *cmdutil.App, here, there *diag.Report) error {
	e := compare.CompareElsewhere(here, there)
	err := a.ShowPage(e, o.output, elsewherePage(e)...)
	if o.report != "" {
		err = errors.Join(err, cmdutil.WriteReport(o.report, here))
	}
	if err != nil {
		return err
	}
	return cmdutil.Judged(here, o.failOn)
}

// isReportFile reports whether --compare names a recorded report: no profile's name ends in .json.
func isReportFile(compare string) bool {
	profile, _, _ := strings.Cut(compare, ",")
	return strings.HasSuffix(profile, ".json")
}

// elsewherePage is a comparison for people: its first line is the answer.
func elsewherePage(e *compare.EnvironmentDiff) []page.Block {
	side := func(s compare.WalkedSide) string {
		text := cmp.Or(s.NodeID, "no node") + ", profile " + cmp.Or(s.Profile, "none") + ": " + string(s.Outcome)
		if s.Blame != "" {
			text += ", blame " + string(s.Blame)
		}
		return text
	}
	answer := "No hop passes there and fails here."
	switch {
	case len(e.Hops) == 0 && len(e.NotMeasured) > 0:
		answer = "Not known: what fails here was not measured there."
	case len(e.Hops) > 0:
		answer = "First hop that passes there and fails here: " + string(e.Hops[0].Hop)
	}
	blocks := []page.Block{
		page.Heading{Text: answer, Level: 2},
		page.Fields{{Label: "here", Text: side(e.Here)}, {Label: "there", Text: side(e.There)}},
	}
	for _, h := range e.Hops {
		what := string(h.Signal)
		if h.Text != "" {
			what += ": " + h.Text
		}
		blocks = append(blocks, page.Blank{}, page.Heading{Text: string(h.Hop), Level: 3}, page.Para{Text: what, Indent: 2})
		if len(h.Inputs) == 0 {
			why := "The same was asked, and no input differs."
			if h.Fact == "" {
				why = "Nothing of the same was asked there."
			}
			blocks = append(blocks, page.Para{Text: why, Indent: 2})
			continue
		}
		table := page.Table{Columns: page.Titles("differs", "here", "there")}
		for _, in := range h.Inputs {
			table.Rows = append(table.Rows, page.Cells(in.Name, in.Here, in.There))
		}
		blocks = append(blocks, table)
	}
	for _, rest := range []struct {
		what string
		hops []diag.HopID
	}{{"Follows from another hop here: ", e.Symptoms}, {"Fails here, and fails or warns there, too: ", e.Unknown},
		{"Fails here, and was not measured there: ", e.NotMeasured}} {
		if len(rest.hops) > 0 {
			blocks = append(blocks, page.Blank{}, page.Para{Text: rest.what + strings.Trim(fmt.Sprint(rest.hops), "[]")})
		}
	}
	return blocks
}
