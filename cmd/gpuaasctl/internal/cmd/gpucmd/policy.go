package gpucmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// PolicyCheck is the output of validate -o json.
type PolicyCheck struct {
	diag.Head                  // GPUPolicy
	File      string           `json:"file"`
	Valid     bool             `json:"valid"`
	Mistakes  []policy.Mistake `json:"mistakes,omitempty"`
	Policy    *policy.Policy   `json:"policy,omitempty"`
}

// PolicyTest is the output of test -o json.
type PolicyTest struct {
	diag.Head                 // GPUPolicyTest
	Policy    string          `json:"policy"`
	Digest    string          `json:"policy_sha256"`
	Cases     []policy.Tested `json:"cases"`
	Failed    int             `json:"failed"`
}

// PolicyJudgement is the output of explain -o json.
type PolicyJudgement struct {
	diag.Head                   // GPUJudgement
	Judgement policy.Judgement  `json:"judgement"`
	Shadow    *policy.Judgement `json:"shadow,omitempty"`
	Differs   bool              `json:"shadow_differs,omitempty"`
}

func newPolicy(a *cmdutil.App) *cobra.Command {
	return cmdutil.Parent("policy", "Check, test and explain GPU policies",
		`A policy decides what events and samples of GPUs come to: HEALTHY, DEGRADED, UNHEALTHY, or UNKNOWN. Built in are
default, strict and permissive; a file has rules with conditions in CEL. Nothing here touches a node.

POLICY is the name of a built-in policy or a file; "-" is stdin. The program gpuaas-gpu-policy does the judging.`,
		newPolicyValidate(a), newPolicyTest(a), newPolicyExplain(a), newPolicyShow(a))
}

// policyOptions are the options of the commands about a policy; each declares some of them.
type policyOptions struct {
	asker
	output, cases string
	ownCases      bool
}

func policyNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return policy.Builtins(), cobra.ShellCompDirectiveDefault
}

func newPolicyValidate(a *cmdutil.App) *cobra.Command {
	o := &policyOptions{asker: asker{app: a}}
	cmd := &cobra.Command{
		Use:   "validate POLICY",
		Short: "Check a policy: its YAML, its CEL, and the fields of its rules",
		Long: `Checks a policy without evidence. Each mistake is named with file and line: a field that does not exist, a condition
that is not CEL, is not true or false, uses an unknown field or compares a field with a word that it cannot have, or
may take too long; a result that is not a health; two rules with one name; no rules.

Exit codes: 0 valid, 2 not valid, or the file cannot be read.`,
		Example: `  gpuaasctl gpu policy validate mine.yaml
  gpuaasctl gpu policy validate default -o json`,
		Args: cmdutil.Args(1, 1), ValidArgsFunction: policyNames,
		RunE: cmdutil.Run(a, o, policyValidate),
	}
	o.flag(cmd)
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func policyValidate(a *cmdutil.App, cmd *cobra.Command, o *policyOptions, args []string) error {
	f, err := o.policyFile(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	r, err := o.ask(cmd.Context(), policy.Request{Op: policy.OpCheck, Policy: f})
	doc := PolicyCheck{Head: diag.NewHead("GPUPolicy"), File: args[0], Valid: err == nil, Mistakes: r.Mistakes,
		Policy: r.Policy}
	if err != nil {
		if len(r.Mistakes) > 0 && o.output == cmdutil.FormatJSON {
			return errors.Join(a.ShowPage(doc, o.output), err)
		}
		return err
	}
	rows := [][]string{{"rule", "result", "description"}}
	for _, rule := range r.Policy.Rules {
		rows = append(rows, []string{rule.Name, string(rule.Result), rule.Description})
	}
	return a.ShowPage(doc, o.output, cmdutil.Table(rows), page.Blank{}, page.Para{
		Text: fmt.Sprintf("%s is valid: %d rules, sha256 %.12s", args[0], len(r.Policy.Rules), r.Policy.Digest)})
}

func newPolicyShow(a *cmdutil.App) *cobra.Command {
	o := &policyOptions{asker: asker{app: a}}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print the file of a built-in policy, to begin an own one with",
		Example: `  gpuaasctl gpu policy show default >mine.yaml
  gpuaasctl gpu policy show default --cases >mine.cases.yaml`,
		Args: cmdutil.Args(1, 1), ValidArgsFunction: policyNames,
		RunE: cmdutil.Run(a, o, policyShow),
	}
	cmd.Flags().BoolVar(&o.ownCases, "cases", false, "print the cases that test it")
	o.flag(cmd)
	return cmd
}

func policyShow(a *cmdutil.App, cmd *cobra.Command, o *policyOptions, args []string) error {
	q := policy.Request{Op: policy.OpShow, Policy: policy.File{Path: args[0]}}
	if o.ownCases {
		q.Case = "*"
	}
	r, err := o.ask(cmd.Context(), q)
	if err != nil {
		return err
	}
	return a.Write(r.Text)
}

func newPolicyTest(a *cmdutil.App) *cobra.Command {
	o := &policyOptions{asker: asker{app: a}}
	cmd := &cobra.Command{
		Use:   "test POLICY",
		Short: "Judge cases with a policy, and compare with what they expect",
		Long: `A file of cases has events and samples with the health, and the rule, that the policy must give. Without --cases a
built-in policy is tested with its own; "gpu policy show default --cases" prints those.

Exit codes: 0 every case is as expected, 2 a file is not valid, 3 a case is not as expected.`,
		Example: `  gpuaasctl gpu policy test mine.yaml --cases mine.cases.yaml
  gpuaasctl gpu policy test default`,
		Args: cmdutil.Args(1, 1), ValidArgsFunction: policyNames,
		RunE: cmdutil.Run(a, o, policyTest),
	}
	cmd.Flags().StringVar(&o.cases, "cases", "", "`FILE` of cases")
	o.flag(cmd)
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func policyTest(a *cmdutil.App, cmd *cobra.Command, o *policyOptions, args []string) error {
	f, err := o.policyFile(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	q := policy.Request{Op: policy.OpTest, Policy: f}
	if q.Cases, err = o.file(cmd.Context(), o.cases); err != nil {
		return err
	}
	if q.Cases == nil && f.Text != nil {
		return cmdutil.Usagef("give --cases FILE: a policy in a file has no built-in cases")
	}
	r, err := o.ask(cmd.Context(), q)
	if err != nil {
		return err
	}
	doc := PolicyTest{Head: diag.NewHead("GPUPolicyTest"), Policy: args[0], Digest: r.Policy.Digest, Cases: r.Tested}
	rows := [][]string{{"", "case", "health", "by", "expected"}}
	for _, t := range r.Tested {
		mark, want := "ok", ""
		if !t.OK {
			doc.Failed++
			mark, want = "FAILED", strings.TrimSpace(string(t.Want)+" "+t.WantRule)
		}
		rows = append(rows, []string{mark, t.Case, string(t.Got), t.GotRule, want})
	}
	code := cmdutil.ExitPass
	if doc.Failed > 0 {
		code = cmdutil.ExitFailed
	}
	return a.ExitError(code, a.ShowPage(doc, o.output, cmdutil.Table(rows), page.Blank{}, page.Para{
		Text: fmt.Sprintf("%d of %d cases as expected", len(r.Tested)-doc.Failed, len(r.Tested))}))
}
