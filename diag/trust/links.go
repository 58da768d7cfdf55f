package trust

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Longer than 300 lines: the links of the trust table, one function each, in the table's order.

// Ids of the links, in the order in which they are judged: the endpoint, the server's certificate and the bundle that
// verifies it, the node's own certificate and the CAs that accept it, and last the profile's pins.
const (
	linkEndpoint   = "agent_url"
	linkSameLeaf   = "leaf_same_from_both_sides"
	linkPlatform   = "leaf_as_platform_says"
	linkValid      = "leaf_valid_now"
	linkBundle     = "leaf_issuer_in_node_bundle"
	linkTerminal   = "terminal_leaf_in_node_bundle"
	linkNodeCA     = "node_bundle_as_profile"
	linkRecovery   = "leaf_issuer_in_recovery_bundle"
	linkCredential = "node_cert_holds"
	linkSigning    = "node_cert_by_signing_ca"
	linkIngress    = "signing_ca_in_ingress_ca"
	linkAccepted   = "node_cert_accepted_by_ingress"
	linkStream     = "node_cert_accepted_by_terminal"
	linkPinSigning = "pin_signing_ca"
	linkPinIngress = "pin_ingress_ca"
	linkPinLeaf    = "pin_node_api_leaf"
)

// links compares neighbours.
func (s *inputs) links() []Link {
	rows := []struct {
		id, title string
		judge     func(*inputs) Link
	}{
		{linkEndpoint, "agent's API URL -> profile's", (*inputs).endpointLink},
		{linkSameLeaf, "node API leaf, node -> operator", (*inputs).sameLeafLink},
		{linkPlatform, "node API leaf -> platform's own", (*inputs).platformLink},
		{linkValid, "node API leaf -> its dates and name", (*inputs).validLink},
		{linkBundle, "node API leaf -> issuer -> node's bundle", (*inputs).bundleLink},
		{linkTerminal, "terminal leaf -> issuer -> node's bundle", (*inputs).terminalLink},
		{linkNodeCA, "node's bundle -> profile's trust.node_ca", (*inputs).nodeCALink},
		{linkRecovery, "node API leaf -> issuer -> recovery bundle", (*inputs).recoveryLink},
		{linkCredential, "node cert -> its key, node and dates", (*inputs).credentialLink},
		{linkSigning, "node cert -> signing CA", (*inputs).signingLink},
		{linkIngress, "signing CA -> ingress CA", (*inputs).ingressLink},
		{linkAccepted, "node cert -> the ingress's answer", (*inputs).acceptedLink},
		{linkStream, "node cert -> the terminal's answer", (*inputs).streamLink},
		{linkPinSigning, "signing CA -> profile's pin", func(s *inputs) Link {
			return s.pinLink("signing_ca_fingerprint", s.signing)
		}},
		{linkPinIngress, "ingress CA -> profile's pin", (*inputs).pinIngressLink},
		{linkPinLeaf, "node API leaf -> profile's pin", (*inputs).pinLeafLink},
	}
	links := make([]Link, len(rows))
	for i, r := range rows {
		links[i] = r.judge(s)
		links[i].ID, links[i].Title = r.id, r.title
	}
	return links
}

func pass(format string, args ...any) Link {
	return Link{Status: Pass, Text: fmt.Sprintf(format, args...)}
}
func unknown(format string, args ...any) Link {
	return Link{Status: Unknown, Text: fmt.Sprintf(format, args...)}
}
func notSet(format string, args ...any) Link {
	return Link{Status: NotSet, Text: fmt.Sprintf(format, args...)}
}
func fail(c Cause, format string, args ...any) Link {
	return Link{Status: Fail, Cause: c, Text: fmt.Sprintf(format, args...)}
}

// by sets the facts that support a link.
func (l Link) by(facts ...*diag.Fact) Link {
	for _, f := range facts {
		if f != nil && !slices.Contains(l.Evidence, f.ID) {
			l.Evidence = append(l.Evidence, f.ID)
		}
	}
	return l
}

func (s *inputs) endpointLink() Link {
	have, want := s.env(s.names().API), s.subject.Expected["node_runtime_api_url"]
	env := cmp.Or(s.facts[factEnv], s.facts[factProfile])
	asked := s.api
	switch {
	case asked != nil && asked.TLS != nil && asked.TLS.CertRequested != nil && !*asked.TLS.CertRequested &&
		endpoint(have) != endpoint(want) && want != "":
		return fail(CauseEndpoint, "the agent uses %s, which asks for no certificate: a public edge; the profile says %s",
			have, want).by(env, asked)
	case want == "":
		return notSet("the profile gives no node_runtime_api_url")
	case have == "":
		return unknown("the running agent's %s is not known%s", s.names().API, because(env))
	case endpoint(have) != endpoint(want):
		return fail(CauseEndpoint, "the agent uses %s, the profile says %s", have, want).by(env)
	}
	return pass("%s", have).by(env)
}

func (s *inputs) sameLeafLink() Link {
	a, b := leaf(s.api), leaf(s.apiOperator)
	switch {
	case a == nil:
		return unknown("the node saw no certificate%s", because(s.api))
	case b == nil:
		return unknown("the operator saw no certificate%s", because(s.apiOperator))
	case a.Fingerprint == b.Fingerprint:
		return pass("both see %s", diag.Digits(a.Fingerprint)).by(s.api, s.apiOperator)
	case endpoint(target(s.api)) != endpoint(target(s.apiOperator)):
		return fail(CauseEndpoint, "the node asks %s and sees %s, the operator asks %s and sees %s", target(s.api),
			diag.Digits(a.Fingerprint), target(s.apiOperator), diag.Digits(b.Fingerprint)).by(s.api, s.apiOperator)
	}
	return fail(CauseEnvironment, "the node gets %s (%s) at %s, the operator %s (%s) at %s: one name, two listeners",
		diag.Digits(a.Fingerprint), a.Subject, remote(s.api), diag.Digits(b.Fingerprint), b.Subject, remote(s.apiOperator)).
		by(s.api, s.apiOperator)
}

// shown returns the node API's leaf as seen from the node, else from the operator.
func (s *inputs) shown() (*diag.CertInfo, *diag.Fact) {
	if l := leaf(s.api); l != nil {
		return l, s.api
	}
	return leaf(s.apiOperator), s.apiOperator
}

func (s *inputs) platformLink() Link {
	l, f := s.shown()
	says := s.field(FactTrustPage, "trust.node_api_server")
	page := s.facts[FactTrustPage]
	switch {
	case says == "":
		return unknown("the platform does not say which certificate its node API shows%s", because(page))
	case l == nil:
		return unknown("the node API's certificate was not seen%s", because(f))
	case l.Fingerprint == says:
		return pass("the platform says %s, too", diag.Digits(says)).by(f, page)
	}
	return fail(s.serverCause(), "the listener shows %s, the platform's file is %s", diag.Digits(l.Fingerprint),
		diag.Digits(says)).
		by(f, page)
}

func (s *inputs) validLink() Link {
	l, f := s.shown()
	switch {
	case l == nil:
		return unknown("the node API's certificate was not seen%s", because(f))
	}
	if wrong := invalid(l, f); wrong != "" {
		return fail(s.serverCause(), "%s", wrong).by(f)
	}
	return pass("until %s", day(l.NotAfter)).by(f)
}

// invalid returns why a leaf is invalid regardless of its issuer: its name, or its dates by the clock of the prober.
func invalid(l *diag.CertInfo, f *diag.Fact) string {
	switch {
	case f.Failure == diag.TLSNameMismatch:
		return fmt.Sprintf("it is for %s, not for %s", strings.Join(l.DNSNames, ", "), f.TLS.ServerName)
	case !f.At.IsZero() && f.At.After(l.NotAfter.Time):
		return "it ended at " + day(l.NotAfter)
	case !f.At.IsZero() && f.At.Before(l.NotBefore.Time):
		return "it begins at " + day(l.NotBefore) + ", by the clock that looked"
	}
	if f.TLS == nil || f.TLS.Misdated == nil {
		return ""
	}
	if m := f.TLS.Misdated; m.Fingerprint != l.Fingerprint && presents(f.TLS, m) {
		return fmt.Sprintf("%s, which signed it and is presented with it, is valid from %s to %s", CommonName(m.Subject),
			day(m.NotBefore), day(m.NotAfter))
	}
	return ""
}

// presents reports whether a certificate is one of those that the server sent.
func presents(t *diag.TLSFacts, cert *diag.CertInfo) bool {
	return slices.ContainsFunc(t.Chain, func(c diag.CertInfo) bool { return c.Fingerprint == cert.Fingerprint })
}

func (s *inputs) bundleLink() Link { return s.judgedBy(s.api, s.bundle, s.serverCause) }

func (s *inputs) terminalLink() Link { return s.judgedBy(s.terminal, s.bundle, s.terminalCause) }

// judgedBy compares the chain that f received with a bundle on the node.
func (s *inputs) judgedBy(f *diag.Fact, b roots, moved func() Cause) Link {
	l := leaf(f)
	switch {
	case b.broken() && s.uninstalled():
		return unknown("%s: %s: %s", b.path, b.why.Failure, notInstalled).by(b.why)
	case b.broken():
		return fail(moved(), "%s: %s", b.path, b.why.Failure).by(b.why)
	case l == nil:
		return unknown("the node saw no certificate%s", because(f))
	case f.TLS.TrustSource == b.path && f.TLS.Misdated != nil && !presents(f.TLS, f.TLS.Misdated):
		root := f.TLS.Misdated
		return fail(cmp.Or(moved(), CauseBundle), "%s in %s is valid from %s to %s", CommonName(root.Subject), b.path,
			day(root.NotBefore), day(root.NotAfter)).by(f)
	case f.TLS.TrustSource == b.path && f.TLS.Verified, f.TLS.TrustSource == b.path && dates(f.Failure):
		return pass("%s is in %s", CommonName(l.Issuer), b.path).by(f)
	case f.TLS.TrustSource == b.path && f.Failure == diag.TLSNameMismatch:
		return pass("%s is in %s", CommonName(l.Issuer), b.path).by(f)
	case f.TLS.TrustSource == b.path:
		return fail(moved(), "issued by %s, which is not in %s%s", CommonName(l.Issuer), b.path, s.holding(b)).by(f)
	}
	return unknown("it was not judged by %s", b.path).by(f)
}

// holding describes the certificates that a bundle has instead.
func (s *inputs) holding(b roots) string {
	if len(b.certs) == 0 {
		return ""
	}
	names := make([]string, 0, 3)
	for _, c := range b.certs[:min(3, len(b.certs))] {
		names = append(names, CommonName(c.Subject)+" "+diag.Digits(c.Fingerprint))
	}
	if len(b.certs) > 3 {
		names = append(names, "...")
	}
	return " (it holds " + strings.Join(names, ", ") + ")"
}

func (s *inputs) nodeCALink() Link {
	switch {
	case !s.profile.known && s.profile.why == nil && len(s.pin("node_ca")) == 0:
		return notSet("the profile gives no trust.node_ca that could be read")
	case !s.profile.known:
		return unknown("trust.node_ca was not read%s", because(s.profile.why))
	case !s.bundle.known:
		return unknown("the node's bundle was not read%s", because(s.bundle.why))
	}
	lacks := ""
	for _, c := range s.profile.certs {
		switch has := s.bundle.holds(c.Fingerprint); {
		case has == nil:
			return unknown("%s holds %d certificates or more, too many to be sure of", s.bundle.path, mostRoots)
		case !*has && lacks == "":
			lacks = CommonName(c.Subject) + " " + diag.Digits(c.Fingerprint)
		}
	}
	if lacks != "" {
		return fail(s.bundleCause(), "the node's bundle lacks %s", lacks).by(s.facts[factBundle], s.facts[factProfileBundle])
	}
	text := fmt.Sprintf("all %d of the profile are in it", len(s.profile.certs))
	if more := len(s.bundle.certs) - len(s.profile.certs); more > 0 {
		text += fmt.Sprintf(", and %d more that the profile does not name", more)
	}
	return pass("%s", text).by(s.facts[factBundle], s.facts[factProfileBundle])
}

func (s *inputs) recoveryLink() Link {
	path := s.env(s.names().RecoveryBundle)
	if path == "" {
		if s.facts[factEnv] == nil {
			return unknown("whether a recovery bundle is set was not read")
		}
		return notSet("%s is not set: a node whose bundle is stale cannot enroll by itself", s.names().RecoveryBundle)
	}
	l := s.judgedBy(s.facts[factRecoveryAPI], s.recovery, func() Cause { return CauseRecovery })
	if l.Status == Fail && s.serverCause() == CauseEdge {
		l.Cause = CauseEdge // the bundles are then not the cause
	}
	if path == bundleOfAgent(s.subject) {
		l.Text += "; it is the runtime bundle itself, so both go stale together"
	}
	return l
}

func (s *inputs) credentialLink() Link {
	f := s.facts[factIdentity]
	switch {
	case f == nil:
		return unknown("the node's certificate was not looked at")
	case barred(f):
		return unknown("this login may not read the node's certificate").by(f)
	case unseen(f):
		return unknown("the node's certificate could not be looked at: %s", f.Failure).by(f)
	case s.uninstalled():
		return unknown("%s: %s", f.Failure, notInstalled).by(f)
	case !f.Passed() && f.Detail != "":
		return fail(CauseCredential, "%s: %s", f.Failure, f.Detail).by(f)
	case !f.Passed():
		return fail(CauseCredential, "%s", f.Failure).by(f)
	case f.Cert.NodeBound != nil && !*f.Cert.NodeBound:
		return fail(CauseCredential, "it is bound to %s, not to %s", f.Cert.BoundTo, s.subject.NodeID).by(f)
	}
	return pass("serial %.16s, until %s", f.Cert.Leaf.Serial, day(f.Cert.Leaf.NotAfter)).by(f)
}

func (s *inputs) signingLink() Link {
	f, page := s.facts[factIdentity], s.facts[FactTrustPage]
	switch {
	case s.signing == "":
		return unknown("the platform does not say which CA signs%s", because(page))
	case s.cert == nil:
		return unknown("the node's certificate is not known")
	case s.issuer == "":
		return unknown("which CA issued it is known by name only (%s)", CommonName(s.cert.Leaf.Issuer)).by(f)
	case s.issuer == s.signing:
		return pass("issued by %s", diag.Digits(s.signing)).by(f, page)
	case s.trusted != nil && *s.trusted && s.letIn():
		// A CA is replaced with old and new side by side: such a node gets a new certificate later.
		return pass("issued by %s, which the ingress takes as well; %s signs now", diag.Digits(s.issuer),
			diag.Digits(s.signing)).
			by(f, page, s.facts[factTaskWait])
	}
	return fail(s.caCause(), "issued by %s (%s), and %s signs now", diag.Digits(s.issuer), CommonName(s.cert.Leaf.Issuer),
		diag.Digits(s.signing)).by(f, page)
}

func (s *inputs) ingressLink() Link {
	page := s.facts[FactTrustPage]
	switch {
	case s.trusted == nil:
		return unknown("the platform does not say both%s", because(page))
	case *s.trusted:
		return pass("the ingress takes what %s signs", diag.Digits(s.signing)).by(page)
	}
	return fail(s.caCause(), "%s signs node certificates, and the ingress takes those of %s", diag.Digits(s.signing),
		diag.Digits(s.ingress)).by(page)
}

// letIn reports whether the ingress accepted the node with its current certificate.
func (s *inputs) letIn() bool {
	f := s.facts[factTaskWait]
	return f != nil && f.Passed()
}

// acceptedLink compares the node's certificate with the ingress's answer, and with the CA names that it lists. Names
// alone prove nothing: a CA with a new key may keep its name.
func (s *inputs) acceptedLink() Link {
	wait := s.facts[factTaskWait]
	listed := acceptable(wait)
	if len(listed) == 0 {
		listed = acceptable(s.api)
	}
	lists := ""
	if len(listed) > 0 && s.cert != nil && !slices.Contains(listed, s.cert.Leaf.Issuer) {
		lists = fmt.Sprintf("; it lists %s, not %s", clip(listed), CommonName(s.cert.Leaf.Issuer))
	}
	switch {
	case s.letIn():
		return pass("a task wait is let in").by(wait)
	case refused(wait):
		return fail(s.acceptCause(lists != ""), "refused: %s%s", answer(wait), lists).by(wait, s.api)
	case lists != "":
		return fail(s.acceptCause(true), "the ingress%s", strings.TrimPrefix(lists, "; it")).by(s.api)
	case wait != nil && !wait.Passed():
		return unknown("the certificate was neither let in nor refused: %s", answer(wait)).by(wait)
	}
	return unknown("no task wait was made")
}

func (s *inputs) streamLink() Link {
	f := s.facts[factStream]
	switch {
	case f == nil:
		return unknown("the terminal listener was not asked")
	case f.Passed(), code(f) == "session_not_found":
		return pass("the listener lets this node in").by(f)
	case refused(f):
		cause := CauseTerminal
		if l := s.acceptedLink(); l.Status == Fail {
			cause = l.Cause
		}
		return fail(cause, "refused: %s", answer(f)).by(f)
	}
	return unknown("the certificate was neither let in nor refused: %s", answer(f)).by(f)
}

// pinLink compares a value that the platform reports with the profile's pin.
func (s *inputs) pinLink(key, have string) Link {
	want, page := s.pin(key), s.facts[FactTrustPage]
	switch {
	case want == "":
		return notSet("the profile has no trust.%s", key)
	case have == "":
		return unknown("the platform does not say it%s", because(page))
	case have == want:
		return pass("%s", diag.Digits(want)).by(page)
	}
	cause := s.caCause()
	if cause == "" || cause == CauseCredential {
		cause = CausePins
	}
	return fail(cause, "the platform has %s, the profile pins %s", diag.Digits(have), diag.Digits(want)).by(page)
}

// pinIngressLink accepts an ingress that trusts more than the pinned CA: while a CA is replaced, old and new are side
// by side, and the platform reports only the first.
func (s *inputs) pinIngressLink() Link {
	want := s.pin("ingress_ca_fingerprint")
	if want != "" && want == s.signing && s.trusted != nil && *s.trusted {
		return pass("%s is among them", diag.Digits(want)).by(s.facts[FactTrustPage])
	}
	return s.pinLink("ingress_ca_fingerprint", s.ingress)
}

func (s *inputs) pinLeafLink() Link {
	want := s.pin("node_api_server_fingerprint")
	l, f := s.shown()
	switch {
	case want == "":
		return notSet("the profile has no trust.node_api_server_fingerprint")
	case l == nil:
		return unknown("the node API's certificate was not seen%s", because(f))
	case l.Fingerprint == want:
		return pass("%s", diag.Digits(want)).by(f)
	}
	cause := s.serverCause()
	if cause == "" || cause == CauseBundle {
		cause = CauseEdgePin
	}
	return fail(cause, "the listener shows %s, the profile pins %s", diag.Digits(l.Fingerprint), diag.Digits(want)).by(f)
}
