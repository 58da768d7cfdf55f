package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/trust"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
)

// ReenrollOptions are the reason, and the destination of the bundle.
type ReenrollOptions struct {
	Reason string // for the audit
	Force  bool   // issue it even if signing CA and ingress CA differ; Reason must explain why
	// Save stores the bundle, which contains a token, in a file, and returns its path. If it is nil, the bundle is
	// copied to the node, whose agent is then restarted and waited for.
	Save func(bundle []byte) (file string, err error)
}

// Reenrollment is the result of a re-enrollment. It never contains the token.
type Reenrollment struct {
	diag.Head

	Node          string    `json:"node_id"`
	Profile       string    `json:"environment_profile,omitempty"`
	Reason        string    `json:"reason"`
	CorrelationID string    `json:"correlation_id"`
	ControlPlane  string    `json:"control_plane"` // matches | differs | not measured
	ExpiresAt     diag.Time `json:"token_expires_at,omitzero"`
	File          string    `json:"file,omitempty"`
	Applied       bool      `json:"applied"`
	OnNode        OnNode    `json:"on_node,omitzero"`
	Before        int64     `json:"generation_before,omitempty"`
	After         int64     `json:"generation_after,omitempty"`
	NewCert       bool      `json:"new_certificate"`
	Serial        string    `json:"cert_serial,omitempty"`
	SeenAt        diag.Time `json:"heartbeat_at,omitzero"`
	Error         string    `json:"error,omitempty"`
}

// OnNode is the node's report about an applied bundle, without secrets.
type OnNode struct {
	Changes []string `json:"changes,omitempty"`
	Undo    string   `json:"undo,omitempty"` // folder with the previous files
}

// Reenroll lets the platform issue an audited recovery bundle for the node, and copies it there. The document records
// how far it got, and is nil for an InputError or a NoHostError. An interrupt is context.Canceled.
func (s *Session) Reenroll(ctx context.Context, o ReenrollOptions) (*Reenrollment, error) {
	if s.env.Token.IsZero() {
		return nil, &InputError{errors.New("no operator token: auth.token_file in the profile")}
	}
	if err := s.RequireHost(); o.Save == nil && err != nil {
		return nil, err
	}
	if err := s.canReenroll(o); err != nil {
		return nil, &InputError{err}
	}
	at := s.open()
	defer at.close(ctx)
	d := &Reenrollment{Head: diag.NewHead("NodeReenrollment"), Node: s.of.Node, Reason: o.Reason,
		CorrelationID: s.env.CorrelationID}
	err := s.reenroll(ctx, at, o, d)
	switch {
	// the document has what was done before: a token may have been issued
	case errors.Is(ctx.Err(), context.Canceled):
		d.Error = "interrupted"
		if errors.Is(err, errLost) {
			d.Error += ": " + err.Error()
		}
		return d, context.Canceled
	case err != nil:
		d.Error = err.Error()
	}
	return d, err
}

// canReenroll refuses, before anything is sent, what this platform does not support, or what could not be verified
// afterwards.
func (s *Session) canReenroll(o ReenrollOptions) error {
	m := s.env.Profile.Mapping
	switch {
	case s.env.URL(profile.PathNodeReenroll) == "":
		return errNoBundles
	case o.Save == nil && (s.env.URL(profile.PathNode) == "" || m.Field("node.last_seen_at") == ""):
		return fmt.Errorf(
			"this platform does not report when it last heard a node (mapping.paths.%s, mapping.fields node.last_seen_at), so "+
				"whether a bundle helped cannot be confirmed: write the bundle to a file instead", profile.PathNode)
	}
	return nil
}

func (s *Session) reenroll(ctx context.Context, at places, o ReenrollOptions, d *Reenrollment) error {
	if err := s.checkControlPlane(ctx, at[hop.Operator], o.Force, d); err != nil {
		return err
	}
	var before nodeCert
	if o.Save == nil {
		var err error
		if before, err = s.readCert(ctx, at[hop.Operator]); err != nil {
			return err
		}
		d.Before = before.generation
		if f := login(ctx, at[hop.Node], s.env.Subject.NodeHost); !f.Passed() { // before a token is issued in vain
			return fmt.Errorf("no login on %s: %s: %s; no bundle was issued", s.env.Subject.NodeHost, f.Failure,
				f.Detail)
		}
	}
	b, err := s.issueBundle(ctx, o.Reason, o.Force)
	if errors.Is(err, errLost) {
		err = fmt.Errorf(
			"%w. No client has such a token, and it expires by itself. Whether there is one (latest operation: "+
				"reenroll issued): %s",
			err, s.Command("node", "status"))
	}
	if err != nil {
		return err
	}
	d.Profile, d.ExpiresAt = b.Profile, diag.At(b.ExpiresAt)
	text, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if o.Save != nil {
		if d.File, err = o.Save(append(text, '\n')); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
		return nil
	}
	if err := s.carry(ctx, at[hop.Node], text, b, d); err != nil {
		return err
	}
	d.Applied = true
	return s.awaitNode(ctx, at[hop.Operator], before, d)
}

// checkControlPlane refuses if the ingress is known not to accept what the signing CA signs.
func (s *Session) checkControlPlane(ctx context.Context, place hop.Vantage, force bool, d *Reenrollment) error {
	req := s.env.API(profile.PathTrust, nil, "trust.signing_ca", "trust.ingress_ca", "trust.ingress_trusts_signing_ca")
	d.ControlPlane = "not measured"
	if req.Op == "" {
		return nil
	}
	req.ID, req.TimeoutMS = trust.FactTrustPage, 4000
	f := place.Probe(ctx, []diag.Request{req})[0]
	if !f.Passed() {
		return nil // the answer to the request for a bundle has the details
	}
	link := trust.Explain(s.env.Subject, []diag.Fact{f}).ControlPlane()
	switch link.Status {
	case trust.Pass:
		d.ControlPlane = "matches"
	case trust.Fail:
		d.ControlPlane = "differs"
	}
	if link.Status == trust.Fail && !force {
		return fmt.Errorf("never re-enroll alone: %s. Fix the control plane first: %s (or force it, with the reason why)",
			link.Text, s.Command("diag", "trust"))
	}
	return nil
}

// nodeCert is what the platform knows about a node's certificate.
type nodeCert struct {
	generation int64
	serial     string
	seen, now  time.Time
}

func (s *Session) readCert(ctx context.Context, place hop.Vantage) (nodeCert, error) {
	req := s.env.API(profile.PathNode, nil, "node.cert_generation", "node.cert_serial", "node.last_seen_at", "node.now")
	req.ID, req.TimeoutMS = "reenroll/node", 4000
	f := place.Probe(ctx, []diag.Request{req})[0]
	if !f.Passed() || f.HTTP == nil {
		return nodeCert{}, fmt.Errorf("read %s from the platform: %s %s", s.env.Subject.NodeID, f.Failure, f.Detail)
	}
	c := nodeCert{serial: f.HTTP.Fields["node.cert_serial"]}
	c.generation, _ = strconv.ParseInt(f.HTTP.Fields["node.cert_generation"], 10, 64) // "": it never had a certificate
	c.seen, _ = time.Parse(time.RFC3339Nano, f.HTTP.Fields["node.last_seen_at"])
	c.now, _ = time.Parse(time.RFC3339Nano, f.HTTP.Fields["node.now"])
	return c, nil
}

// login measures the login to the node, which also installs the helper.
func login(ctx context.Context, place hop.Vantage, host string) diag.Fact {
	return place.Probe(ctx, []diag.Request{{ID: "reenroll/ssh", Op: diag.OpSSH, Target: host}})[0]
}

// carryScript passes its input, the bundle, to the helper, and restarts the agent. Arguments: the helper, the agent's
// unit, then the helper's. The bundle is on no command line and in no file of ours.
const carryScript = `h=$1 unit=$2
shift 2
say() { echo "GPUAASCTL-SENTINEL $*"; }
done=$("$h" bundle apply --json "$@" 2>&1) || { say "failed the node does not take the bundle: $(printf '%s' "$done" | tr '\n' ' ' | cut -c1-400)"; exit 0; }
out=$(systemctl restart "$unit" 2>&1) || { say "failed the bundle is in place, and $unit does not restart: $(printf '%s' "$out" | tr '\n' ' ' | cut -c1-400)"; exit 0; }
say "restarted $done"
`

// carry lets the node's helper apply the bundle. It removes the token from whatever is returned.
func (s *Session) carry(ctx context.Context, place hop.Vantage, bundle []byte, b *wire.Bundle,
	d *Reenrollment) error {
	node, ok := place.(*vantage.Node)
	if !ok {
		return errors.New("there is no connection to the node")
	}
	f, p := login(ctx, place, s.env.Subject.NodeHost), s.env.Profile.Agent
	if f.SSH == nil || f.SSH.HelperPath == "" {
		return fmt.Errorf("carry the bundle to %s: no gpuaas-agent helper runs there: %s %s", s.env.Subject.NodeID,
			f.Failure, f.Detail)
	}
	helper := f.SSH.HelperPath
	said, err := node.Run(ctx, vantage.Script{
		Text: carryScript, Args: []string{helper, p.Unit, "--dir", p.Dir, "--env-file", p.EnvFile}, Input: bundle,
	})
	if err == nil {
		word, rest, _ := strings.Cut(said[len(said)-1], " ")
		if word == "restarted" {
			// The answer of an agent of another version may not parse; the bundle has been applied.
			_ = bounded.Unmarshal([]byte(rest), &d.OnNode, bounded.Small())
			return nil
		}
		err = errors.New(rest)
	}
	return fmt.Errorf("carry the bundle to %s: %s", s.env.Subject.NodeID,
		strings.ReplaceAll(err.Error(), b.Token, diag.Redacted))
}

// nodePoll is how often the platform is queried for the node's return.
const nodePoll = 500 * time.Millisecond

// awaitNode waits until the platform has accepted a heartbeat that the node sent after its agent was restarted. A
// certificate that is still valid stays in use: the node then needed only trust and endpoints, and keeps the token for
// later.
func (s *Session) awaitNode(ctx context.Context, place hop.Vantage, before nodeCert, d *Reenrollment) error {
	// by the platform's clock, or by the node's last heartbeat if the platform sends no time
	looked, restarted := false, time.Time{}
	for {
		if c, err := s.readCert(ctx, place); err == nil {
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
		if !sleep.For(ctx, nodePoll) {
			return fmt.Errorf("the bundle is on %s, and the platform has not heard its agent since the restart: %s",
				d.Node, s.Command("diag", "trust"))
		}
	}
}
