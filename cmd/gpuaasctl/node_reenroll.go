package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/trust"
	"github.com/gpuaas/gpuaasctl/wire"
)

// reenrollOptions is what `node reenroll` is told.
type reenrollOptions struct {
	target                       targetOptions
	reason, out, confirm, output string
	apply, force                 bool
}

func newNodeReenroll(a *app) *cobra.Command {
	o := &reenrollOptions{}
	cmd := &cobra.Command{
		Use:   "reenroll NODE --reason TEXT (--apply --confirm NODE | --out FILE)",
		Short: "Issue an audited recovery bundle for a node, and carry it there",
		Long: `Has the platform issue a recovery bundle: a one-time token, endpoints and CA material together, since they drift
together. With --apply the bundle goes to the node over SSH, the agent is restarted, and the command waits until the
platform accepts its word again; a certificate that is still good is kept. Otherwise the bundle is written to a file
that only its owner can read; whoever reads it can become this node.

It is refused while the platform's signing CA is not the one that its ingress takes: the new certificate would be
rejected like the old one. Repair the control plane first (gpuaasctl diag trust NODE).

Exit codes: 0 done, 2 usage or configuration, 3 refused, or the node did not come back, 130 interrupted.`,
		Example: `  gpuaasctl node reenroll compute-node-01 --profile lab --reason "bundle was stale" --apply --confirm compute-node-01
  gpuaasctl node reenroll compute-node-01 --profile lab --reason "no SSH, by console" --out bundle.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args[0]); err != nil {
				return &usageError{err: err, command: cmd.CommandPath()}
			}
			j, err := a.target(cmd, &o.target, args[0])
			if err != nil {
				return err
			}
			return a.reenroll(cmd.Context(), j, o)
		},
	}
	o.target.flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "why, for the audit: `TEXT`")
	f.BoolVar(&o.apply, "apply", false, "carry the bundle to the node and restart its agent")
	f.StringVar(&o.confirm, "confirm", "", "with --apply: `NODE` once more")
	f.StringVar(&o.out, "out", "", "write the bundle to this new `FILE`, for its owner alone")
	f.BoolVar(&o.force, "force", false, "also while signing CA and ingress CA differ; the reason must say why")
	formatFlag(cmd, &o.output, formatTable, formatTable, formatJSON)
	return cmd
}

func (o *reenrollOptions) check(node string) error {
	switch {
	case strings.TrimSpace(o.reason) == "":
		return errors.New("--reason: an audited bundle needs one")
	case o.apply == (o.out != ""):
		return errors.New("give either --apply --confirm NODE or --out FILE")
	case o.apply && o.confirm != node:
		return fmt.Errorf("--confirm: want %s, the node whose credentials are replaced", node)
	case o.out != "":
		if _, err := os.Lstat(o.out); err == nil {
			return fmt.Errorf("--out: %s is there already", o.out)
		}
		if info, err := os.Stat(filepath.Dir(o.out)); err != nil || !info.IsDir() {
			return fmt.Errorf("--out: %s is no folder", filepath.Dir(o.out))
		}
	}
	return nil
}

// reenrollDoc is what came of it. It never holds the token.
type reenrollDoc struct {
	Node          string    `json:"node_id"`
	Profile       string    `json:"environment_profile,omitempty"`
	Reason        string    `json:"reason"`
	CorrelationID string    `json:"correlation_id"`
	ControlPlane  string    `json:"control_plane"` // matches | differs | not measured
	ExpiresAt     diag.Time `json:"token_expires_at,omitzero"`
	File          string    `json:"file,omitempty"`
	Applied       bool      `json:"applied"`
	OnNode        onNode    `json:"on_node,omitzero"`
	Before        int64     `json:"generation_before,omitempty"`
	After         int64     `json:"generation_after,omitempty"`
	NewCert       bool      `json:"new_certificate"`
	Serial        string    `json:"cert_serial,omitempty"`
	SeenAt        diag.Time `json:"heartbeat_at,omitzero"`
	Error         string    `json:"error,omitempty"`
}

// onNode is what the node says of an applied bundle, without secrets.
type onNode struct {
	Changes []string `json:"changes,omitempty"`
	Undo    string   `json:"undo,omitempty"` // folder that holds what was there before
}

// reenroll checks, issues, carries and waits, and says how far it came.
func (a *app) reenroll(ctx context.Context, j *job, o *reenrollOptions) error {
	if j.Env.Token.IsZero() {
		return usagef("no operator token: auth.token_file in the profile")
	}
	if err := j.needHost(); o.apply && err != nil {
		return err
	}
	if err := j.canReenroll(o); err != nil {
		return &usageError{err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, o.target.deadline)
	defer cancel()
	places := j.vantages()
	defer closeAll(ctx, places)
	d := &reenrollDoc{Node: j.Env.Subject.NodeID, Reason: o.reason, CorrelationID: j.Env.CorrelationID}
	err := j.reenroll(ctx, places, o, d)
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // what was done by then is said all the same: a token may be out
		d.Error = "interrupted"
		if errors.Is(err, errLost) {
			d.Error += ": " + err.Error()
		}
		err = context.Canceled
	case err != nil:
		d.Error = err.Error()
		err = &failedError{err}
	}
	return errors.Join(a.writeReenroll(d, j, o.output), err)
}

// canReenroll refuses, before anything is sent, what this platform cannot do, or what could not be confirmed
// afterwards.
func (j *job) canReenroll(o *reenrollOptions) error {
	m := j.Env.Profile.Mapping
	switch {
	case j.Env.URL(profile.PathNodeReenroll) == "":
		return errNoBundles
	case o.apply && (j.Env.URL(profile.PathNode) == "" || m.Field("node.last_seen_at") == ""):
		return fmt.Errorf("--apply waits until the platform hears the node again, and this platform does not say when it did "+
			"(mapping.paths.%s, mapping.fields node.last_seen_at): use --out", profile.PathNode)
	}
	return nil
}

func (j *job) reenroll(ctx context.Context, places map[string]preflight.Vantage, o *reenrollOptions, d *reenrollDoc) error {
	if err := j.checkControlPlane(ctx, places[preflight.Operator], o.force, d); err != nil {
		return err
	}
	var before nodeCert
	if o.apply {
		var err error
		if before, err = j.readCert(ctx, places[preflight.Operator]); err != nil {
			return err
		}
		d.Before = before.generation
		if f := login(ctx, places[preflight.Node], j.Env.Subject.NodeHost); !f.Passed() { // before a token is issued for nothing
			return fmt.Errorf("no login on %s: %s: %s; no bundle was issued", j.Env.Subject.NodeHost, f.Failure, f.Detail)
		}
	}
	b, err := issueBundle(ctx, &j.Env, o.reason, o.force)
	if errors.Is(err, errLost) {
		err = fmt.Errorf("%w. Nobody holds such a token, and it ends by itself. Whether there is one (latest operation: reenroll issued): %s",
			err, j.again("node", "status"))
	}
	if err != nil {
		return err
	}
	d.Profile, d.ExpiresAt = b.Profile, diag.At(b.ExpiresAt)
	text, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if !o.apply {
		if err := writePrivate(o.out, append(text, '\n')); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
		d.File = o.out
		return nil
	}
	if err := j.carry(ctx, places[preflight.Node], text, b, d); err != nil {
		return err
	}
	d.Applied = true
	return j.awaitNode(ctx, places[preflight.Operator], before, d)
}

// checkControlPlane refuses while what signs is known not to be what the ingress takes.
func (j *job) checkControlPlane(ctx context.Context, place preflight.Vantage, force bool, d *reenrollDoc) error {
	req := j.Env.API(profile.PathTrust, nil, "trust.signing_ca", "trust.ingress_ca", "trust.ingress_trusts_signing_ca")
	d.ControlPlane = "not measured"
	if req.Op == "" {
		return nil
	}
	req.ID, req.TimeoutMS = trust.FactTrustPage, 4000
	f := place.Probe(ctx, []diag.Request{req})[0]
	if !f.Passed() {
		return nil // the platform's own answer to the request for a bundle will say more
	}
	link := trust.Explain(j.Env.Subject, []diag.Fact{f}).ControlPlane()
	switch link.Status {
	case trust.Pass:
		d.ControlPlane = "matches"
	case trust.Fail:
		d.ControlPlane = "differs"
	}
	if link.Status == trust.Fail && !force {
		return fmt.Errorf("never re-enroll alone: %s. Fix the control plane first: %s (or --force, with the reason why)",
			link.Text, j.again("diag", "trust"))
	}
	return nil
}

// nodeCert is what the platform knows of a node's certificate.
type nodeCert struct {
	generation int64
	serial     string
	seen, now  time.Time
}

func (j *job) readCert(ctx context.Context, place preflight.Vantage) (nodeCert, error) {
	req := j.Env.API(profile.PathNode, nil, "node.cert_generation", "node.cert_serial", "node.last_seen_at", "node.now")
	req.ID, req.TimeoutMS = "reenroll/node", 4000
	f := place.Probe(ctx, []diag.Request{req})[0]
	if !f.Passed() || f.HTTP == nil {
		return nodeCert{}, fmt.Errorf("read %s from the platform: %s %s", j.Env.Subject.NodeID, f.Failure, f.Detail)
	}
	c := nodeCert{serial: f.HTTP.Fields["node.cert_serial"]}
	c.generation, _ = strconv.ParseInt(f.HTTP.Fields["node.cert_generation"], 10, 64) // none: it never had one
	c.seen, _ = time.Parse(time.RFC3339Nano, f.HTTP.Fields["node.last_seen_at"])
	c.now, _ = time.Parse(time.RFC3339Nano, f.HTTP.Fields["node.now"])
	return c, nil
}

// login asks how the node was got to; it also has the helper in place.
func login(ctx context.Context, place preflight.Vantage, host string) diag.Fact {
	return place.Probe(ctx, []diag.Request{{ID: "reenroll/ssh", Op: diag.OpSSH, Target: host}})[0]
}

// carryScript gives its input, the bundle, to the helper, and restarts the agent. Arguments: the helper, the agent's unit,
// then the helper's. The bundle is on no command line and in no file of ours.
const carryScript = `h=$1 unit=$2
shift 2
say() { echo "GPUAASCTL-SENTINEL $*"; }
done=$("$h" bundle apply --json "$@" 2>&1) || { say "failed the node does not take the bundle: $(printf '%s' "$done" | tr '\n' ' ' | cut -c1-400)"; exit 0; }
out=$(systemctl restart "$unit" 2>&1) || { say "failed the bundle is in place, and $unit does not restart: $(printf '%s' "$out" | tr '\n' ' ' | cut -c1-400)"; exit 0; }
say "restarted $done"
`

// carry has the node's helper apply the bundle. Whatever comes back is shown without the token.
func (j *job) carry(ctx context.Context, place preflight.Vantage, bundle []byte, b *wire.Bundle, d *reenrollDoc) error {
	node, ok := place.(*vantage.Node)
	if !ok {
		return errors.New("there is no way to the node")
	}
	f, p := login(ctx, place, j.Env.Subject.NodeHost), j.Env.Profile.Agent
	if f.SSH == nil || f.SSH.HelperPath == "" {
		return fmt.Errorf("carry the bundle to %s: no gpuaas-agent helper runs there: %s %s", j.Env.Subject.NodeID, f.Failure, f.Detail)
	}
	helper := f.SSH.HelperPath
	said, err := node.Run(ctx, vantage.Script{Text: carryScript, Args: []string{helper, p.Unit, "--dir", p.Dir, "--env-file", p.EnvFile}, Input: bundle})
	if err == nil {
		word, rest, _ := strings.Cut(said[len(said)-1], " ")
		if word == "restarted" {
			_ = bounded.Unmarshal([]byte(rest), &d.OnNode, bounded.Small()) // an agent of another version says it otherwise; the deed is done
			return nil
		}
		err = errors.New(rest)
	}
	return fmt.Errorf("carry the bundle to %s: %s", j.Env.Subject.NodeID, strings.ReplaceAll(err.Error(), b.Token, diag.Redacted))
}

// nodePoll is how often the platform is asked whether the node came back.
const nodePoll = 500 * time.Millisecond

// awaitNode waits until the platform has accepted the node's word since its agent was restarted. A certificate that is
// still good stays in use: the node then only needed trust and endpoints, and keeps the token for the day when it does
// not.
func (j *job) awaitNode(ctx context.Context, place preflight.Vantage, before nodeCert, d *reenrollDoc) error {
	looked, restarted := false, time.Time{} // by the platform's clock, or by its newest word of the node, where it tells no time
	for {
		if c, err := j.readCert(ctx, place); err == nil {
			if !looked {
				looked, restarted = true, c.now
				if c.now.IsZero() {
					restarted = c.seen
				}
			}
			if c.seen.After(restarted) {
				d.After, d.Serial, d.SeenAt = c.generation, c.serial, diag.At(c.seen)
				d.NewCert = c.serial != before.serial
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the bundle is on %s, and the platform has not heard its agent since the restart: %s", d.Node, j.again("diag", "trust"))
		case <-time.After(nodePoll):
		}
	}
}

// writePrivate writes a new file that only its owner can read, whole or not at all.
func writePrivate(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// writeReenroll writes the document, and what there is to do next.
func (a *app) writeReenroll(d *reenrollDoc, j *job, output string) error {
	if output == formatJSON {
		return a.writeJSON(d)
	}
	var b bytes.Buffer
	rows := [][]string{
		{"node", d.Node}, {"reason", d.Reason}, {"control plane", "signing CA and ingress CA: " + d.ControlPlane}, {"correlation id", d.CorrelationID},
	}
	if !d.ExpiresAt.IsZero() {
		rows = append(rows, []string{"token until", d.ExpiresAt.UTC().Format(time.DateTime) + "Z"})
	}
	if d.SeenAt.IsZero() && d.Applied {
		rows = append(rows, []string{"carried", "yes; not heard yet"})
	}
	if !d.SeenAt.IsZero() {
		with := "with the certificate that it had, which is accepted"
		if d.NewCert {
			with = fmt.Sprintf("with a new certificate, generation %d (was %d)", d.After, d.Before)
		}
		rows = append(rows, []string{"heard", fmt.Sprintf("%s, %s, serial %s", d.SeenAt.UTC().Format(time.DateTime)+"Z", with, d.Serial)})
	}
	for _, c := range d.OnNode.Changes {
		rows = append(rows, []string{"on the node", c})
	}
	if d.OnNode.Undo != "" {
		rows = append(rows, []string{"undo copy", d.OnNode.Undo + " on the node"})
	}
	if d.File != "" {
		rows = append(rows, []string{"bundle", d.File + " (whoever reads it can become this node)"},
			[]string{"next", "carry it to the node (scp keeps its mode with -p)"},
			[]string{"", fmt.Sprintf("there, as root: gpuaas-agent bundle apply <%s && systemctl restart %s", diag.Quote(filepath.Base(d.File)), diag.Quote(j.Env.Profile.Agent.Unit))},
			[]string{"", "then here:      " + j.again("diag", "trust")})
	}
	for _, r := range rows {
		r[1] = render.Clean(r[1])
	}
	b.Write(columns(rows))
	return a.write(b.Bytes())
}
