package nodecmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
)

// reenrollOptions are the options of `node reenroll`.
type reenrollOptions struct {
	target                       cmdutil.TargetOptions
	reason, out, confirm, output string
	apply, force                 bool
}

func newNodeReenroll(a *cmdutil.App) *cobra.Command {
	o := &reenrollOptions{}
	cmd := &cobra.Command{
		Use:   "reenroll [NODE] --reason TEXT (--apply --confirm NODE | --out FILE)",
		Short: "Issue an audited recovery bundle and install it on the node",
		Long: `Asks the platform to issue a recovery bundle: a one-time token, endpoints and CA material in one document, because
they change together. With --apply the bundle is copied to the node over SSH, the agent is restarted, and the command
waits for the node's next heartbeat; a certificate that is still accepted is kept. With --out the bundle is written to a
file that only its owner can read: anyone who can read it can impersonate this node.

The command refuses while the ingress does not accept certificates of the platform's signing CA: the new certificate
would be rejected like the old one. Repair the control plane first (gpuaasctl diag trust NODE).

Exit codes: 0 done, 2 usage or configuration, 3 refused, or no heartbeat of the node was accepted in time, 130
interrupted.`,
		Example: `  gpuaasctl node reenroll compute-node-01 --profile lab --reason "bundle was stale" --apply --confirm compute-node-01
  gpuaasctl node reenroll compute-node-01 --profile lab --reason "no SSH, by console" --out bundle.json`,
		Args: cmdutil.Args(0, 1),
		RunE: cmdutil.Run(a, o, reenroll),
	}
	o.target.Flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "why, for the audit: `TEXT`")
	f.BoolVar(&o.apply, "apply", false, "copy the bundle to the node and restart its agent")
	f.StringVar(&o.confirm, "confirm", "", "with --apply: `NODE` once more")
	cmdutil.OutFlag(cmd, &o.out, "write the bundle to this new `FILE`, readable by its owner only")
	f.BoolVar(&o.force, "force", false, "also while signing CA and ingress CA differ; the reason must explain it")
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func (o *reenrollOptions) check() error {
	switch {
	case strings.TrimSpace(o.reason) == "":
		return errors.New("--reason: an audited bundle needs one")
	case o.apply == (o.out != ""):
		return errors.New("give either --apply --confirm NODE or --out FILE")
	case o.out != "":
		return cmdutil.CheckNewFile("--out", o.out)
	}
	return nil
}

// reenroll runs the re-enrollment, and reports how far it got.
func reenroll(a *cmdutil.App, cmd *cobra.Command, o *reenrollOptions, args []string) error {
	if err := o.check(); err != nil {
		return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	s, err := a.Target(cmd, &o.target, args, ops.Target{})
	if err != nil {
		return err
	}
	if node := s.Subject().NodeID; o.apply && o.confirm != node {
		return &cmdutil.UsageError{Err: fmt.Errorf("--confirm: want %s, the node whose credentials are replaced", node),
			Command: cmd.CommandPath()}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.target.Deadline)
	defer cancel()
	how := ops.ReenrollOptions{Reason: o.reason, Force: o.force}
	if !o.apply {
		how.Save = func(bundle []byte) (string, error) { return o.out, cmdutil.WriteNewFile(o.out, bundle) }
	}
	d, err := s.Reenroll(ctx, how)
	if d == nil {
		return err
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		err = &cmdutil.FailedError{Err: err}
	}
	return errors.Join(writeReenroll(a, d, s, o.output), err)
}

// writeReenroll writes the document, and the next steps.
func writeReenroll(a *cmdutil.App, d *ops.Reenrollment, s *ops.Session, output string) error {
	rows := page.Fields{
		{Label: "node", Text: d.Node}, {Label: "reason", Text: d.Reason},
		{Label: "control plane", Text: "signing CA and ingress CA: " + d.ControlPlane},
		{Label: "correlation id", Text: d.CorrelationID},
	}
	if !d.ExpiresAt.IsZero() {
		rows = append(rows, page.Field{Label: "token until", Text: d.ExpiresAt.UTC().Format(time.DateTime) + "Z"})
	}
	if d.SeenAt.IsZero() && d.Applied {
		rows = append(rows, page.Field{Label: "carried", Text: "yes; no heartbeat since the restart"})
	}
	if !d.SeenAt.IsZero() {
		with := "with the certificate that it had, which is accepted"
		if d.NewCert {
			with = fmt.Sprintf("with a new certificate, generation %d (was %d)", d.After, d.Before)
		}
		rows = append(rows, page.Field{Label: "heard",
			Text: fmt.Sprintf("%s, %s, serial %s", d.SeenAt.UTC().Format(time.DateTime)+"Z", with, d.Serial)})
	}
	for _, c := range d.OnNode.Changes {
		rows = append(rows, page.Field{Label: "on the node", Text: c})
	}
	if d.OnNode.Undo != "" {
		rows = append(rows, page.Field{Label: "undo copy", Text: d.OnNode.Undo + " on the node"})
	}
	if d.File != "" {
		rows = append(rows, page.Field{Label: "bundle", Text: d.File + " (anyone who reads it can become this node)"},
			page.Field{Label: "next", Text: "carry it to the node (scp keeps its mode with -p)"},
			page.Field{Label: "", Text: fmt.Sprintf("there, as root: gpuaas-agent bundle apply <%s && systemctl restart %s",
				diag.Quote(filepath.Base(d.File)), diag.Quote(s.Site().Profile.Agent.Unit))},
			page.Field{Label: "", Text: "then here:      " + s.Command("diag", "trust")})
	}
	return a.ShowPage(d, output, rows)
}
