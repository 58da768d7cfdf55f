package gpucmd

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// checkOptions select the machine and the policy.
type checkOptions struct {
	cmdutil.TargetOptions
	here           bool
	policy, output string
	expected       int
}

// defaultPolicy is the built-in policy that a check judges by, unless another one is chosen.
const defaultPolicy = "default"

// Variables of the environment that say how the GPUs of this machine are read; an agent has the same.
const (
	envLibrary   = "GPUAAS_NVML_LIBRARY"
	envKernelLog = "GPUAAS_GPU_KERNEL_LOG"
)

func newCheck(a *cmdutil.App) *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check [NODE]",
		Short: "Check the GPUs of this machine, or of a node over SSH, without an agent",
		Long: `Takes a sample of every GPU, reads what the kernel log still has of this boot, and judges both by a policy. It needs no
agent and no platform. Without NODE it checks this machine, where that has NVIDIA's driver (--here: in any case). On a
NODE it runs gpuaas-gpu-probe and gpuaas-agent over SSH, as root where the login may be root, with a known host key;
both are removed before they begin to run, and nothing is left there. The kernel log, and some of the driver's values,
need root: what could not be read makes the health UNKNOWN, and the page says what it was.

Exit codes: 0 HEALTHY, 2 usage or configuration, 3 DEGRADED or UNHEALTHY, 5 UNKNOWN, or the machine has no GPU or could
not be asked, 130 interrupted.`,
		Example: `  gpuaasctl gpu check
  gpuaasctl gpu check compute-node-01 --profile lab --gpus-expected 2
  gpuaasctl gpu check n7 --node-host 192.0.2.7 --policy strict -o json`,
		Args: cmdutil.Args(0, 1),
		RunE: cmdutil.Run(a, o, check),
	}
	o.Flags(a, cmd)
	f := cmd.Flags()
	f.Lookup("libexec").Usage = "`FOLDER` of gpuaas-gpu-probe, gpuaas-gpu-policy and gpuaas-agent (default: beside this " +
		"program)"
	f.BoolVar(&o.here, "here", false, "check this machine, even if no driver is seen")
	f.StringVar(&o.policy, "policy", "", "`POLICY` to judge by: a built-in one or a file (default: the profile's, else "+
		defaultPolicy+")")
	f.IntVar(&o.expected, "gpus-expected", -1, "`NUMBER` of GPUs that the machine should have")
	f.Lookup("gpus-expected").DefValue = ""
	_ = cmd.RegisterFlagCompletionFunc("policy", policyNames)
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func check(a *cmdutil.App, cmd *cobra.Command, o *checkOptions, args []string) error {
	if err := cmdutil.CheckNotEmpty(cmd, "policy", "node-id", "node-host"); err != nil {
		return err
	}
	named := len(args) > 0 || o.NodeID != "" || o.NodeHost != "" || a.Env(cmdutil.EnvNode) != ""
	switch {
	case o.here && (len(args) > 0 || o.NodeID != "" || o.NodeHost != ""):
		return cmdutil.Usagef("--here is this machine: give it or NODE")
	case !o.here && !named && !ops.HasDriver(a.Env(envLibrary)):
		return cmdutil.Usagef("this machine has no NVIDIA driver (no /proc/driver/nvidia/version, no /sys/module/nvidia): " +
			"give the NODE to check over SSH, or --here to check this machine all the same")
	case cmd.Flags().Changed("gpus-expected") && o.expected < 0:
		return cmdutil.Usagef("--gpus-expected: want a number of GPUs, not %d", o.expected)
	}
	var c *ops.GPUCheck
	var err error
	by := asker{app: a, libexec: o.Libexec}
	if named && !o.here {
		c, err = o.node(a, cmd, args)
	} else {
		c, err = o.machine(a, cmd)
	}
	switch {
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, new(*ops.UnreadError)):
		return a.NotMeasured(err)
	case err != nil:
		return a.WithHint(err)
	}
	return by.admit(cmd.Context(), c, o)
}

// machine checks this machine, and takes the policy of a profile that is named if none is given. The one profile of an
// operator is not about this machine unless it is named.
func (o *checkOptions) machine(a *cmdutil.App, cmd *cobra.Command) (*ops.GPUCheck, error) {
	if err := cmdutil.CheckDeadline(o.Deadline); err != nil {
		return nil, &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	if cmd.Flags().Changed("profile") || a.Env(profile.EnvProfile) != "" {
		p, _, err := o.Profile.Load(a, cmd)
		if err != nil {
			return nil, err
		}
		o.policy = cmp.Or(o.policy, p.GPU.Policy)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Deadline)
	defer cancel()
	c, err := a.SiteWith(profile.Profile{}, "", o.Libexec, ops.Secrets{}).CheckHere(ctx, a.Env(envKernelLog))
	if errors.Is(err, context.DeadlineExceeded) && cmd.Context().Err() == nil {
		return nil, &ops.UnreadError{Err: errors.New("the check of this machine's GPUs did not end within the deadline")}
	}
	return c, err
}

// node checks a node, and takes the profile's policy if none is given.
func (o *checkOptions) node(a *cmdutil.App, cmd *cobra.Command, args []string) (*ops.GPUCheck, error) {
	o.Nobody = true // no token is needed
	s, err := a.Target(cmd, &o.TargetOptions, args, ops.Target{})
	if err != nil {
		return nil, err
	}
	o.policy = cmp.Or(o.policy, s.Site().Profile.GPU.Policy)
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Deadline)
	defer cancel()
	return s.CheckGPUs(ctx)
}

// admit judges a check, and shows the result.
func (k *asker) admit(ctx context.Context, c *ops.GPUCheck, o *checkOptions) error {
	by, err := k.policyFile(ctx, cmp.Or(o.policy, defaultPolicy))
	if err != nil {
		return err
	}
	var expected *int
	if o.expected >= 0 {
		expected = &o.expected
	}
	q, err := c.Request(by, expected)
	if err != nil {
		return err
	}
	r, err := k.ask(ctx, q)
	if err != nil {
		return err
	}
	j, err := r.Judged()
	if err != nil {
		return err
	}
	g, err := c.Judge(j)
	if err != nil {
		return err
	}
	g.Expected = expected
	if l := c.KernelLog; l != nil && deniedLog(l.Blind) {
		g.Notes = append(g.Notes, "only root may read the kernel log there: check as root")
	}
	doc := Status{Head: diag.NewHead("GPUAdmission"), GPUAdmission: *g, KernelLog: c.KernelLog, Sample: c.Sample}
	return k.app.ExitError(codeOfHealth(policy.Health(g.Health)), k.app.ShowPage(doc, o.output, statusPage(&doc)...))
}

// deniedLog reports whether the kernel log was not read for lack of rights.
func deniedLog(why string) bool {
	return strings.Contains(why, "not permitted") || strings.Contains(why, "permission denied")
}
