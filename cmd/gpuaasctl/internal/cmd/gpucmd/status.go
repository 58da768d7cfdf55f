package gpucmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Status is the output of status -o json, and of check -o json: what a gate reads before the node gets work.
type Status struct {
	diag.Head // GPUAdmission

	reading.GPUAdmission

	// KernelLog is what a check read of the kernel log, Sample what it read of the GPUs.
	KernelLog *diag.KernelLogFacts `json:"kernel_log,omitempty"`
	Sample    *report.Sample       `json:"sample,omitempty"`
}

// statusOptions select the node.
type statusOptions struct {
	cmdutil.TargetOptions
	output string
}

func newStatus(a *cmdutil.App) *cobra.Command {
	o := &statusOptions{}
	cmd := &cobra.Command{
		Use:   "status [NODE]",
		Short: "Show the health of a node's GPUs under a policy, and why",
		Long: `Shows the health of a node's GPUs as the platform judges it: by which policy, what decided it, each GPU, and when each
GPU was last read. The node itself is not contacted. If the profile lets gpuaasctl judge (gpu.policy), the node is asked
for its agent's GPU state, and the policy is evaluated here. As JSON it is the document that a gate reads
before the node gets work; only HEALTHY, by a policy in the mode enforce, is clear evidence.

Exit codes: 0 HEALTHY, 2 usage or configuration, or the platform knows no such node or judges no GPUs, 3 DEGRADED or
UNHEALTHY, 5 UNKNOWN, or nothing could be read, 130 interrupted.`,
		Example: `  gpuaasctl gpu status compute-node-01 --profile lab
  gpuaasctl gpu status compute-node-01 --profile lab -o json`,
		Args: cmdutil.Args(0, 1),
		RunE: cmdutil.Run(a, o, status),
	}
	o.Flags(a, cmd)
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func status(a *cmdutil.App, cmd *cobra.Command, o *statusOptions, args []string) error {
	s, err := a.Target(cmd, &o.TargetOptions, args, ops.Target{})
	if err != nil {
		return err
	}
	if p := s.Site(); p.Profile.GPU.Policy == "" && (p.Profile.APIBase == "" || p.Secrets.Token.IsZero()) {
		return cmdutil.Usagef("the platform's judgement needs api_base and auth.token_file in the profile %s", p.Chosen)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Deadline)
	defer cancel()
	g, err := s.GPUs(ctx)
	switch {
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	case errors.As(err, new(*ops.NotJudgedError)):
		return &cmdutil.UsageError{Err: err}
	case errors.As(err, new(*ops.UnreadError)):
		cmdutil.PrintError(a.Stderr, err)
		return &cmdutil.VerdictError{Code: cmdutil.ExitInconclusive}
	case err != nil:
		return a.WithHint(err)
	}
	doc := Status{Head: diag.NewHead("GPUAdmission"), GPUAdmission: *g}
	return a.ExitError(codeOfHealth(policy.Health(g.Health)), a.ShowPage(doc, o.output, statusPage(&doc)...))
}

func statusPage(doc *Status) []page.Block {
	g := &doc.GPUAdmission
	by := fmt.Sprintf("%s, sha256 %.12s", g.Policy.Name, g.Policy.SHA256)
	if g.Policy.Mode != "" {
		by += ", mode " + g.Policy.Mode
	}
	d := page.Doc{Blocks: []page.Block{page.Heading{Text: g.Health}}}
	d.Field("node", g.Node, page.Plain)
	d.Field("status", statusWords(g), page.Plain)
	d.Field("policy", by, page.Plain)
	d.Field("judged by", g.JudgedBy, page.Plain)
	if g.Decided != nil {
		d.Field("because", g.Decided.Words(), page.Plain)
	}
	d.Field("gpus", countWords(g), page.Plain)
	if doc.Sample != nil && doc.Sample.Library.State == report.Loaded {
		d.Field("driver", driverWords(&doc.Sample.Library), page.Plain)
	}
	d.Field("sampled", when(g.Sampled, g.Now), page.Plain)
	d.Field("judged", when(g.Judged, g.Now), page.Plain)
	logField(&d, doc.KernelLog)
	notes(&d, append(refused(g), g.Notes...))
	if n := g.Decided.XID(); n != "" {
		d.Field("explain", "gpuaasctl gpu xid explain "+n, page.Plain)
	}
	// the table of GPUs has the healthy ones, and what decided each
	shown := slices.DeleteFunc(slices.Clone(g.Findings), func(f reading.GPUFinding) bool {
		return f.Health == reading.GPUHealthy || saidOfItsGPU(g, &f)
	})
	for _, f := range g.Past {
		f.Health = notJudged
		shown = append(shown, f)
	}
	tables(&d, g.GPUs, shown)
	if doc.Sample != nil {
		devices(&d, doc.Sample)
	}
	return d.Blocks
}

// notJudged is shown in place of the health of an error that is over.
const notJudged = "not judged"

func notes(d *page.Doc, all []string) {
	label := "note"
	for _, note := range all {
		d.Field(label, note, page.Plain)
		label = ""
	}
}

// tables adds the tables of a judgement: the health of each GPU, and the findings.
func tables(d *page.Doc, gpus []reading.GPUHealthOf, findings []reading.GPUFinding) {
	rows := [][]string{{"gpu", "health", "pci", "uuid", "rule", "why"}}
	for _, one := range gpus {
		index := ""
		if one.Index != nil {
			index = strconv.Itoa(*one.Index)
		}
		if one.Health == reading.GPUHealthy && one.Rule == "" {
			one.Why = "" // "no rule matches" is implied by healthy
		}
		rows = append(rows, []string{index, one.Health, one.PCI, one.UUID, one.Rule, one.Why})
	}
	if len(gpus) > 0 {
		d.Add(page.Blank{}, cmdutil.Table(rows))
	}
	rows = [][]string{{"health", "about", "when", "rule", "why"}}
	timed := slices.ContainsFunc(findings, func(f reading.GPUFinding) bool { return !f.Subject.At.IsZero() })
	for _, f := range findings {
		rows = append(rows, []string{f.Health, about(&f.Subject), times(&f.Subject), f.Rule, f.Why})
	}
	for i := range rows {
		if !timed {
			rows[i] = slices.Delete(rows[i], 2, 3)
		}
	}
	if len(findings) > 0 {
		d.Add(page.Blank{}, cmdutil.Table(rows))
	}
}

// about describes what a finding is about, with the part of the hardware.
func about(s *reading.GPUSubject) string {
	if s.Place == "" {
		return s.What
	}
	return s.What + ", at " + s.Place
}

// times describes when an error was reported, the first time and the last.
func times(s *reading.GPUSubject) string {
	last := s.At.UTC().Format(time.RFC3339)
	switch {
	case s.At.IsZero():
		return ""
	case s.Since.IsZero():
		return last
	}
	return s.Since.UTC().Format(time.RFC3339) + " to " + last
}

// statusWords describes whether the node gets new work.
func statusWords(g *reading.GPUAdmission) string {
	if g.Before == "" {
		return g.Status
	}
	return fmt.Sprintf("%s; %s again after a fully HEALTHY report", g.Status, g.Before)
}

// countWords describes how many GPUs were reported, how many there should be, and which are not healthy. A GPU that
// has fallen off the bus is still reported, by its last name.
func countWords(g *reading.GPUAdmission) string {
	words := strconv.Itoa(len(g.GPUs)) + " reported"
	if g.Expected != nil {
		words += fmt.Sprintf(", %d expected", *g.Expected)
	}
	if n := g.Unreported(); n > 0 {
		words += fmt.Sprintf(", %d not reported", n)
	}
	if names := g.NotHealthy(); len(names) > 0 {
		words += "; not healthy: " + hop.Clip(names)
	}
	return words
}

// saidOfItsGPU reports whether a finding says of a GPU only what the GPU's own row says.
func saidOfItsGPU(g *reading.GPUAdmission, f *reading.GPUFinding) bool {
	return slices.ContainsFunc(g.GPUs, func(of reading.GPUHealthOf) bool {
		return of.Same(&f.Subject) && of.Health == f.Health && of.Rule == f.Rule &&
			(of.Why == f.Why || of.Why == f.Subject.What+": "+f.Why)
	})
}

// when formats a time, and how long ago it was by the clock that wrote it.
func when(at, now diag.Time) string {
	switch {
	case at.IsZero():
		return "never"
	case now.IsZero():
		return at.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s (%s ago)", at.UTC().Format(time.RFC3339), diag.Age(now.Sub(at.Time)))
}

// refused lists the mistakes in a changed policy file that was not loaded.
func refused(g *reading.GPUAdmission) (notes []string) {
	for _, mistake := range g.Policy.Refused {
		notes = append(notes, "the policy's file is refused as it is now: "+mistake)
	}
	return notes
}
