package gpucmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// judgeOptions choose the evidence, and a second policy.
type judgeOptions struct {
	policyOptions
	events, sample, shadow, name string
	expected                     int
}

func newPolicyExplain(a *cmdutil.App) *cobra.Command {
	o := &judgeOptions{policyOptions: policyOptions{asker: asker{app: a}}}
	cmd := &cobra.Command{
		Use:   "explain POLICY",
		Short: "Judge evidence, and show which rule decided and what each rule came to",
		Long: `The evidence is a sample as gpuaas-gpu-probe prints it, and events as nodes report them, one on each line; or one case
of a file of cases. Its age is not judged. --shadow judges the same evidence with a second policy, on which nothing acts.

Exit codes: 0 HEALTHY, 2 a file is not valid, 3 DEGRADED or UNHEALTHY, 5 UNKNOWN.`,
		Example: `  gpuaasctl gpu policy explain default --sample sample.json --events events.ndjson
  gpuaasctl gpu policy explain mine.yaml --cases mine.cases.yaml --case "fatal XID"
  gpuaasctl gpu policy explain default --case "warning heat" --shadow strict`,
		Args: cmdutil.Args(1, 1), ValidArgsFunction: policyNames,
		RunE: cmdutil.Run(a, o, policyExplain),
	}
	f := cmd.Flags()
	f.StringVar(&o.sample, "sample", "", "`FILE` with a sample")
	f.StringVar(&o.events, "events", "", "`FILE` with events, the oldest first")
	f.StringVar(&o.cases, "cases", "", "`FILE` of cases (default: those of the built-in policy)")
	f.StringVar(&o.name, "case", "", "`NAME` of the case to judge")
	f.StringVar(&o.shadow, "shadow", "", "second `POLICY`, on which nothing acts")
	f.IntVar(&o.expected, "gpus-expected", -1, "`NUMBER` of GPUs that the node should have")
	f.Lookup("gpus-expected").DefValue = ""
	o.flag(cmd)
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func policyExplain(a *cmdutil.App, cmd *cobra.Command, o *judgeOptions, args []string) error {
	ctx := cmd.Context()
	if (o.name != "") == (o.sample != "" || o.events != "") {
		return cmdutil.Usagef("give evidence: --sample and --events, or --case NAME")
	}
	q := policy.Request{Op: policy.OpJudge, Case: o.name}
	var err error
	if q.Policy, err = o.policyFile(ctx, args[0]); err != nil {
		return err
	}
	if o.shadow != "" {
		other, err := o.policyFile(ctx, o.shadow)
		if err != nil {
			return err
		}
		q.Shadow = &other
	}
	for path, into := range map[string]**policy.File{o.sample: &q.Sample, o.events: &q.Events, o.cases: &q.Cases} {
		if *into, err = o.file(ctx, path); err != nil {
			return err
		}
	}
	if o.expected >= 0 {
		q.Expected = &o.expected
	}
	r, err := o.ask(ctx, q)
	if err != nil {
		return err
	}
	doc := PolicyJudgement{Head: diag.NewHead("GPUJudgement"), Judgement: *r.Judgement, Shadow: r.Shadow}
	doc.Differs = r.Shadow != nil && r.Shadow.Health != r.Judgement.Health
	return a.ExitError(codeOfHealth(r.Judgement.Health), a.ShowPage(doc, o.output, judged(&doc)...))
}

func codeOfHealth(h policy.Health) int {
	switch h {
	case policy.Healthy:
		return cmdutil.ExitPass
	case policy.Degraded, policy.Unhealthy:
		return cmdutil.ExitFailed
	}
	return cmdutil.ExitInconclusive
}

// found converts a policy's finding for status; health is its row's.
func found(f *policy.Finding, health policy.Health) reading.GPUFinding {
	s := reading.GPUSubject{What: f.Subject.What, Place: f.Subject.Place}
	if f.Subject.At != nil {
		s.At = diag.At(*f.Subject.At)
	}
	if f.Subject.Since != nil {
		s.Since = diag.At(*f.Subject.Since)
	}
	return reading.GPUFinding{Subject: s, Health: string(health), Rule: f.Rule, Why: f.Why}
}

// decided describes what decided a judgement.
func decided(j *policy.Judgement) string {
	if j.Decided == nil {
		return "nothing was found"
	}
	f := found(j.Decided, j.Health)
	return f.Words()
}

func judged(doc *PolicyJudgement) []page.Block {
	j := &doc.Judgement
	d := page.Doc{Blocks: []page.Block{page.Heading{Text: string(j.Health)}}}
	d.Field("policy", fmt.Sprintf("%s, sha256 %.12s", j.Policy, j.Digest), page.Plain)
	d.Field("because", decided(j), page.Plain)
	if s := doc.Shadow; s != nil {
		d.Field("shadow", fmt.Sprintf("%s would make it %s: %s. Nothing acts on it.", s.Policy, s.Health, decided(s)),
			page.Plain)
	}
	notes(&d, j.Notes)
	var gpus []reading.GPUHealthOf
	for _, g := range j.GPUs {
		gpus = append(gpus, reading.GPUHealthOf{Health: string(g.Health), Rule: g.Rule, Why: g.Why,
			GPUSubject: reading.GPUSubject{Index: g.Index, PCI: g.PCI, UUID: g.UUID}})
	}
	var findings []reading.GPUFinding
	for i := range j.Findings {
		findings = append(findings, found(&j.Findings[i], j.Findings[i].Health))
	}
	for i := range j.Past {
		findings = append(findings, found(&j.Past[i], notJudged))
	}
	tables(&d, gpus, findings)
	if by := j.Decided; by != nil && len(by.Rules) > 0 {
		rows := [][]string{{"rule about " + by.Subject.What, "result", "holds"}}
		for _, said := range by.Rules {
			holds := "no"
			switch {
			case said.Error != "":
				holds = "cannot be evaluated: " + said.Error
			case said.Holds:
				holds = "yes"
			}
			rows = append(rows, []string{said.Rule, string(said.Result), holds})
		}
		d.Add(page.Blank{}, cmdutil.Table(rows))
	}
	return d.Blocks
}
