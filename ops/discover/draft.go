package discover

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/profile"
)

// Draft returns p with what was found, and a comment for each finding. What p has already is not replaced. caFile is
// the file, beside the profile, for a CA that was presented.
func (f Found) Draft(p profile.Profile, caFile string) profile.Draft {
	d := draft{Draft: profile.Draft{Profile: p, Seen: map[string][]string{}}, caFile: caFile}
	d.kind(f)
	d.server("api_base", f.API)
	d.server("terminal_base", f.Terminal)
	d.health(f.API)
	d.node(f.Node)
	return d.Draft
}

// Offered returns the CA that a server presented and nobody has accepted; nil if there is none.
func (f Found) Offered() *CA {
	if ca := f.Presented(); ca != nil && (f.API == nil || f.API.Verified == "") {
		return ca
	}
	return nil
}

// Presented returns the CA that the API presented, or else the terminal gateway; nil if none was needed.
func (f Found) Presented() *CA {
	for _, s := range []*Server{f.API, f.Terminal} {
		if s != nil && s.CA != nil {
			return s.CA
		}
	}
	return nil
}

type draft struct {
	profile.Draft
	caFile string
}

func (d *draft) see(key, format string, args ...any) {
	d.Seen[key] = append(d.Seen[key], fmt.Sprintf(format, args...))
}

// kind sets the kind of platform, if one thing that was found shows it.
func (d *draft) kind(f Found) {
	if d.Kind != "" {
		return
	}
	switch {
	case f.API != nil && f.API.HasNode:
		d.Kind = profile.KindGPUaaS
		d.see("kind", "the API describes the node as the reference platform does")
	case f.Node != nil && len(f.Node.Agents) > 0:
		d.Kind = f.Node.Agents[0].Kind
		d.see("kind", "the node has the unit %s", f.Node.Agents[0].Unit)
	case f.API != nil && f.API.Kind != "":
		d.Kind = f.API.Kind
		d.see("kind", "the API's public pages are those of such a platform")
	case f.Node != nil && f.Node.Error == "":
		d.Kind = profile.KindSSHOnly
		if d.APIBase != "" {
			d.Kind = profile.KindSSHHTTPS
		}
		d.see("kind", "the node has no agent that is known")
	default:
		d.see("kind", "nothing that was seen shows it")
	}
}

func (d *draft) server(key string, s *Server) {
	const ca = "trust.operator_ca"
	switch {
	case s == nil:
	case s.Error != "" && s.Verified == "" && s.Unverified == "":
		d.see(key, "it did not answer: %s", s.Error)
	case s.CA != nil && s.Verified == "":
		d.see(ca, "%s presents the CA %s, until %s,", s.URL, s.CA.Subject, s.CA.Until.UTC().Format(time.DateOnly))
		d.see(ca, "SHA-256 %s.", s.CA.SHA256)
		d.see(ca, "Nobody has accepted it yet. It is in %s: compare the SHA-256 with its owner's,", d.caFile)
		d.see(ca, "then set trust: {operator_ca: %s}.", d.caFile)
	case s.CA != nil:
		d.Trust.OperatorCA = cmp.Or(d.Trust.OperatorCA, d.caFile)
		d.see(ca, "presented by %s and accepted: %s, SHA-256 %s", s.URL, s.CA.Subject, s.CA.SHA256)
	case s.Issuer != "":
		d.see(ca, "%s does not present the CA that signed its certificate, %s: ask its owner for it", s.URL, s.Issuer)
	case s.Unverified != "":
		d.see(key, "its certificate does not verify, which no CA mends: %s", s.Unverified)
	case s.Verified != "":
		d.see(key, "its certificate verifies by %s", s.Verified)
	}
}

// health sets the API's health page, if it was looked for.
func (d *draft) health(s *Server) {
	const key = "mapping.paths.healthz"
	if s == nil || s.Error != "" || (s.Verified == "" && strings.HasPrefix(s.URL, "https:")) {
		return
	}
	if s.Login != "" {
		d.see(key, "unknown pages ask for a login (%s): auth.edge_cookie_file has a browser's cookie for it", s.Login)
	}
	set := func(path string) {
		if d.Mapping.Paths[profile.PathHealthz] == "" {
			d.Mapping.Paths = map[string]string{profile.PathHealthz: path}
		}
	}
	switch {
	case s.Health == "":
		d.see(key, "none of the usual paths is a health page: put yours here")
		set(profile.Absent)
	default:
		d.see(key, "of the usual paths, the first that answered as a health page does%s", because(s.HealthNow))
		set(s.Health)
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return "; now " + why
}

func (d *draft) node(n *Node) {
	if n == nil {
		return
	}
	var key string
	for id, node := range d.Nodes {
		if node.Host == n.Host {
			key = "nodes." + id
		}
	}
	switch {
	case n.HostKey != "":
		d.see(key, "its host key %s is not accepted yet, so it was not logged in to", n.HostKey)
		return
	case n.Error != "":
		d.see(key, "no login: %s", n.Error)
		return
	}
	what := cmp.Or(n.System, "an unnamed system")
	if n.GPU {
		what += ", NVIDIA's driver is loaded"
	}
	d.see(key, "%s; a login works, %s", what, map[string]string{"root": "and is root", "sudo": "and becomes root by sudo",
		"login": "and does not become root"}[n.As])
	if n.As == "login" && d.SSH.Sudo == nil {
		d.SSH.Sudo = new(bool)
		d.see("ssh.sudo", "sudo -n does not work for this login: what only root may read is not measured")
	}
	if len(n.Agents) == 0 && d.Agent.Present == nil && d.Agent.Unit == "" {
		d.Agent.Present = new(bool)
		var names []string
		for _, a := range agents {
			names = append(names, strings.TrimSuffix(a.Unit, ".service"))
		}
		d.see("agent.present", "looked for: %s", strings.Join(names, ", "))
	}
	for _, a := range n.Agents {
		if !a.Active {
			d.see("agent.present", "%s is installed, and is not running", a.Unit)
		}
	}
}
