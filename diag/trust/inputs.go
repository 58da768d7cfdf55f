package trust

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// The names of vantages in facts.
const (
	operator = "operator"
	node     = "node"
)

// Facts of a walk that this package uses, by their ids.
const (
	// FactTrustPage is the platform's own statement of its CAs: what it signs with, and what its ingress trusts.
	FactTrustPage = string(diag.HopControlPlaneAccess) + "/auth"
	factReadModel = string(diag.HopNodeHeartbeat) + "/read_model"
	factLogin     = string(diag.HopNodeOpsAccess) + "/ssh"
	factReach     = string(diag.HopNodeRuntimeAPI) + "/reach"
	factIdentity  = string(diag.HopNodeRecoveryStatus) + "/identity"
	factProfile   = string(diag.HopNodeRecoveryStatus) + "/profile"
	factTaskWait  = string(diag.HopNodeRecoveryStatus) + "/task_wait"
	factStream    = string(diag.HopNodeTerminalReachability) + "/stream"
	fromOperator  = "~from-operator"
)

// mostRoots is the maximum number of a bundle's certificates in a fact: if a fact has this many, a certificate that it
// lacks may still be in the bundle.
const mostRoots = 16

// inputs are the facts by their meaning.
type inputs struct {
	subject diag.Subject
	facts   map[string]*diag.Fact

	api, apiOperator           *diag.Fact // handshakes with the node API, from the node and from the operator
	terminal, terminalOperator *diag.Fact // handshakes with the terminal listener, likewise
	bundle, recovery, profile  roots
	signing, ingress           string // CA fingerprints by the platform
	trusted                    *bool  // whether the ingress accepts what the signing CA signs, according to the platform
	cert                       *diag.CertFacts
	issuer                     string // fingerprint of the CA that issued cert
}

// roots is the content of a bundle.
type roots struct {
	path  string
	certs []diag.CertInfo
	known bool
	why   *diag.Fact // the fact of a bundle that was probed but could not be read
}

func newScene(subject diag.Subject, facts []diag.Fact) *inputs {
	s := &inputs{subject: subject, facts: map[string]*diag.Fact{}}
	for i := range facts {
		if f := &facts[i]; isEvidence(f) {
			s.facts[f.ID] = f
		}
	}
	s.api = s.first(hasTLS, factNodeAPI, factReach, factTaskWait)
	s.apiOperator = s.first(hasTLS, factOperatorAPI, factReach+fromOperator)
	s.terminal = s.first(hasTLS, factNodeTerminal, factStream)
	s.terminalOperator = s.first(hasTLS, factOperatorTerminal, factStream+fromOperator)
	s.bundle = s.bundleOf(bundleOfAgent(subject), factBundle, factNodeAPI, factReach, factTaskWait,
		factNodeTerminal, factStream)
	s.recovery = s.bundleOf(s.env(s.names().RecoveryBundle), factRecoveryBundle, factRecoveryAPI)
	s.profile = s.bundleOf("inline", factProfileBundle, factOperatorAPI, factOperatorTerminal, factReach+fromOperator,
		factStream+fromOperator)
	s.signing = diag.Fingerprint(s.field(FactTrustPage, "trust.signing_ca"))
	s.ingress = diag.Fingerprint(s.field(FactTrustPage, "trust.ingress_ca"))
	s.trusted = s.ingressTrusts()
	if f := s.facts[factIdentity]; f != nil {
		s.cert = f.Cert
	}
	s.issuer = s.certIssuer()
	return s
}

// isEvidence reports whether f is evidence: it was not cut short, and did not fail before its request reached the node.
func isEvidence(f *diag.Fact) bool {
	return f.Failure != diag.Cancelled && !f.Empty() && (f.Phase != "ssh" || f.Request.Op == diag.OpSSH)
}

func hasTLS(f *diag.Fact) bool { return f.TLS != nil && len(f.TLS.Chain) > 0 }

// first returns the first of the facts that exists and is wanted; else the first one that failed, so that the reason
// for the missing measurement can be reported; else nil.
func (s *inputs) first(wanted func(*diag.Fact) bool, ids ...string) *diag.Fact {
	var failed *diag.Fact
	for _, id := range ids {
		f := s.facts[id]
		switch {
		case f == nil:
		case wanted(f):
			return f
		case failed == nil && !f.Passed():
			failed = f
		}
	}
	return failed
}

// bundleOf returns the content of the bundle at path: from the file's fact, or from a handshake that verified with it.
func (s *inputs) bundleOf(path string, file string, handshakes ...string) roots {
	r := roots{path: path}
	if f := s.facts[file]; f != nil {
		r.path = f.Request.Cert
		if f.Cert != nil {
			r.certs, r.known = append([]diag.CertInfo{f.Cert.Leaf}, f.Cert.Chain...), true
			return r
		}
		r.why = f
	}
	for _, id := range handshakes {
		f := s.facts[id]
		if f == nil || f.TLS == nil || f.TLS.TrustSource != path || path == "" {
			continue
		}
		if len(f.TLS.TrustRoots) > 0 {
			r.certs, r.known = f.TLS.TrustRoots, true
			return r
		}
		if f.Phase == "trust" && r.why == nil {
			r.why = f
		}
	}
	return r
}

// broken reports whether the bundle was read and is unusable. A bundle that could not be read may still be good.
func (r roots) broken() bool { return !r.known && r.why != nil && !unseen(r.why) }

// barred reports whether the login lacks the permission to read what f requests.
func barred(f *diag.Fact) bool { return f.Failure == diag.NotPermitted || f.Errno == "EACCES" }

// unseen reports whether f failed before it measured anything, so that it is not evidence.
func unseen(f *diag.Fact) bool {
	return barred(f) || f.Failure == diag.Unsupported || f.Failure == diag.Unknown || f.Failure == diag.Timeout
}

// holds reports whether the bundle has that certificate; nil if the list may be incomplete.
func (r roots) holds(fingerprint string) *bool {
	has := slices.ContainsFunc(r.certs, func(c diag.CertInfo) bool { return c.Fingerprint == fingerprint })
	if !has && len(r.certs) >= mostRoots {
		return nil
	}
	return &has
}

// named returns the bundle's certificate with that subject, or nil.
func (r roots) named(subject string) *diag.CertInfo {
	for i := range r.certs {
		if r.certs[i].Subject == subject {
			return &r.certs[i]
		}
	}
	return nil
}

func (s *inputs) field(id, name string) string {
	if f := s.facts[id]; f != nil && f.HTTP != nil {
		return f.HTTP.Fields[name]
	}
	return ""
}

// names returns how the agent's settings are named.
func (s *inputs) names() diag.AgentNames { return diag.AgentNamesIn(s.subject.Expected) }

// env returns a setting of the running agent, "" if unknown.
func (s *inputs) env(name string) string {
	if strings.Contains(name, "://") { // the profile states it
		return name
	}
	for _, id := range [...]string{factEnv, factProfile} {
		if f := s.facts[id]; f != nil && f.Env != nil && f.Env.Values[name] != "" {
			return f.Env.Values[name]
		}
	}
	return ""
}

// ingressTrusts returns the platform's own answer, or compares its fingerprints.
func (s *inputs) ingressTrusts() *bool {
	yes, no := true, false
	switch word := s.field(FactTrustPage, "trust.ingress_trusts_signing_ca"); {
	case word == "true":
		return &yes
	case word == "false":
		return &no
	case s.signing == "" || s.ingress == "":
		return nil
	case s.signing == s.ingress:
		return &yes
	}
	return &no
}

// certIssuer returns the fingerprint of the CA that issued the node's certificate: from the platform's data for its
// serial, else from the certificate that follows it in its file.
func (s *inputs) certIssuer() string {
	if s.cert == nil {
		return ""
	}
	if s.field(factReadModel, "node.cert_serial") == s.cert.Leaf.Serial {
		if v := diag.Fingerprint(s.field(factReadModel, "node.cert_issuer_fingerprint")); v != "" {
			return v
		}
	}
	for _, c := range s.cert.Chain {
		if c.Subject == s.cert.Leaf.Issuer {
			return c.Fingerprint
		}
	}
	return ""
}

// leaf returns the server certificate of f, nil if the handshake did not get that far.
func leaf(f *diag.Fact) *diag.CertInfo {
	if f == nil || !hasTLS(f) {
		return nil
	}
	return &f.TLS.Chain[0]
}

// pin returns a fingerprint that the profile pins.
func (s *inputs) pin(name string) string { return diag.Fingerprint(s.subject.Expected[name]) }

// target returns the target of f after expansion.
func target(f *diag.Fact) string {
	return cmp.Or(f.Target, f.Request.Target)
}

// endpoint returns the host:port of a URL or address in lower case, or "".
func endpoint(raw string) string {
	if !strings.Contains(raw, "://") {
		raw = "https://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := cmp.Or(u.Port(), "443")
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// notInstalled is the reason if a missing file is no evidence.
const notInstalled = "the agent has no file here, and the platform has not confirmed that it knows this node: " +
	"no agent is installed, or the profile names other files"

// uninstalled reports whether neither the agent's certificate nor its bundle exists on a node that the platform does
// not confirm: then the profile may be about another agent, and re-enrolling the node is no repair.
func (s *inputs) uninstalled() bool {
	identity, known := s.facts[factIdentity], s.facts[factReadModel]
	return identity != nil && identity.Failure == diag.FileMissing && s.bundle.why != nil &&
		s.bundle.why.Failure == diag.FileMissing && !s.bundle.known && (known == nil || !known.Passed())
}
