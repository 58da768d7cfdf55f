package chaos

import (
	"path"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// certParams are the parameters of cert.
type certParams struct {
	As    string `yaml:"as" json:"as" jsonschema:"enum=expired,enum=not-yet-valid,enum=wrong-node,enum=wrong-ca,enum=renewed" jsonschema_description:"what is wrong with it; renewed: nothing, it is only another one"`
	Token string `yaml:"token,omitempty" json:"token,omitempty" jsonschema:"enum=none,enum=current,enum=keep" jsonschema_description:"the agent's enrollment token: none (default), a current one that lets it recover, or as it is"`
}

// certKind gives the node's agent another certificate and key. The plain paths are links into a generation, so the
// overlay covers that generation's files; an agent that makes a new generation escapes it.
func certKind() Kind {
	return kind(Kind{
		Name: "cert", Title: "give the agent another certificate", Tier: step.TierBoot, On: []Role{RoleNode, RolePeer},
		needs: []Need{NeedAgent},
		About: "A certificate and key by the environment's own signing CA (profile: chaos.ca_cert, chaos.ca_key), or by a " +
			"stranger. With a token that lets the agent recover, the files are parked in earnest (T3): new credentials are " +
			"what the drill is about.",
	}, func(p *certParams) []problem {
		return append(word("as", p.As, "expired", "not-yet-valid", "wrong-node", "wrong-ca", "renewed"),
			optional("token", p.Token, "none", "current", "keep")...)
	}, func(p *certParams, c *Case) Questions {
		q := Questions{Tools: []string{"openssl"}, Units: []string{c.Profile.Agent.Unit},
			Files: []string{c.certFile(), c.keyFile(), c.Profile.Agent.EnvFile}, Mints: []Mint{p.mint(c.Machine.ID)}}
		if p.Token == "current" {
			q.Mints = append(q.Mints, Mint{What: MintToken, Node: c.Machine.ID})
		}
		return q
	}, makeCert)
}

func (c *Case) certFile() string { return path.Join(c.Profile.Agent.Dir, "cert.pem") }
func (c *Case) keyFile() string  { return path.Join(c.Profile.Agent.Dir, "key.pem") }

// mint returns the Mint for the parameters. Dates are far enough from now that clock skew does not matter.
func (p *certParams) mint(node string) Mint {
	m := Mint{What: MintCert, Node: node, From: Duration(-time.Hour), Until: Duration(24 * time.Hour), By: BySigning}
	switch p.As {
	case "expired":
		m.From, m.Until = Duration(-48*time.Hour), Duration(-time.Hour)
	case "not-yet-valid":
		m.From = Duration(12 * time.Hour)
	case "wrong-node":
		m.Node = "somebody-else"
	case "wrong-ca":
		m.By = ByStranger
	}
	return m
}

// DrillUnit is the organizational unit in every certificate that is minted for a drill.
const DrillUnit = "gpuaasctl drill"

const tokenKey = "GPUAAS_ENROLLMENT_TOKEN"

func makeCert(p *certParams, c *Case) (Made, *step.Refusal) {
	minted := c.minted(p.mint(c.Machine.ID))
	unit := c.Profile.Agent.Unit
	made := Made{Title: "the agent's certificate is " + p.As,
		Scope: step.Scope{Files: []string{c.Profile.Agent.Dir}, Units: []string{unit}}}
	var no *step.Refusal
	switch {
	case p.Token == "current":
		made.Changes, no = c.parkCredential(minted, c.minted(Mint{What: MintToken, Node: c.Machine.ID}))
	case p.As == "renewed": // while the agent runs on
		for _, v := range [...]overlay{{path: c.keyFile(), text: minted.Key, secret: true},
			{path: c.certFile(), text: minted.Text}} {
			var change step.Change
			if change, no = c.bind(unit, v); no != nil {
				break
			}
			made.Changes = append(made.Changes, change)
		}
	default:
		o := unitOverlay{unit: unit, overlays: []overlay{{path: c.certFile(), text: minted.Text},
			{path: c.keyFile(), text: minted.Key, secret: true}}}
		if p.Token != "keep" { // the agent reads its token from the file as well as from its environment
			o.unset = []string{tokenKey}
			o.overlays = append(o.overlays,
				overlay{path: c.Profile.Agent.EnvFile,
					text: "# no token while a drill runs: the process has the other variables from before\n"})
		}
		made.Changes, no = c.dropIn(o)
	}
	if no != nil {
		return Made{}, no
	}
	if c.tool("openssl") != "" {
		check := step.Check{Name: "the agent reads a certificate that is " + p.As, Unit: unit, Within: verifyWithin}
		argv := []string{c.tool("openssl"), "x509", "-noout", "-in", c.certFile()}
		switch p.As {
		case "expired":
			check.Exec = step.Exec{Argv: append(argv, "-checkend", "0"), Exits: []int{1}}
		case "not-yet-valid", "renewed":
			check.Exec, check.Has = step.Exec{Argv: append(argv, "-subject")}, DrillUnit
		case "wrong-node":
			check.Exec, check.Has = step.Exec{Argv: append(argv, "-subject")}, "somebody-else"
		case "wrong-ca":
			check.Exec, check.Has = step.Exec{Argv: append(argv, "-issuer")}, StrangerName
		}
		if p.Token != "current" { // an agent that may recover can be faster than a probe
			made.Verify = []step.Check{check}
		}
	}
	return made, nil
}

// parkCredential replaces the links by plain files, and gives the agent a token: the agent is expected to obtain
// new credentials, and those stay in place.
func (c *Case) parkCredential(minted, token Material) ([]step.Change, *step.Refusal) {
	cert, no := c.needFile(c.certFile())
	if no != nil {
		return nil, no
	}
	key, no := c.needFile(c.keyFile())
	if no != nil {
		return nil, no
	}
	env := c.runPath("env")
	changes := []step.Change{
		{File: &step.File{Path: c.certFile(), Text: minted.Text, Mode: cert.Mode, UID: &cert.UID, GID: &cert.GID,
			Yields: true}},
		{File: &step.File{Path: c.keyFile(), Text: minted.Key, Mode: key.Mode, UID: &key.UID, GID: &key.GID,
			Yields: true, Secret: true}},
		{File: &step.File{Path: env, Text: tokenKey + "=" + token.Text + "\n", Mode: 0o600, Secret: true}},
	}
	if _, no := c.needUnit(c.Profile.Agent.Unit); no != nil {
		return nil, no
	}
	return append(changes, step.Change{Unit: &step.Unit{
		Unit: c.Profile.Agent.Unit, DropIn: "[Service]\nEnvironmentFile=" + env + "\n", State: step.Restarted}}), nil
}
