package trust

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// rows returns the table: everything that a link compares, in the order of the links.
func (s *inputs) rows() []Row {
	rows := []Row{
		s.leafRow("node_api_leaf", "node API leaf", node, s.api),
		s.leafRow("node_api_leaf", "node API leaf", operator, s.apiOperator),
		s.wordRow("node_api_leaf", "node API leaf", "trust.node_api_server"),
		s.issuerRow(),
	}
	rows = append(rows, s.bundleRows("node_bundle", "node's bundle", node, s.bundle)...)
	rows = append(rows, s.bundleRows("recovery_bundle", "recovery bundle", node, s.recovery)...)
	rows = append(rows, s.bundleRows("profile_bundle", "trust.node_ca", "profile", s.profile)...)
	rows = append(rows, s.certRow(), s.certIssuerRow(),
		s.wordRow("signing_ca", "signing CA", "trust.signing_ca"),
		s.wordRow("ingress_ca", "ingress CA", "trust.ingress_ca"))
	rows = append(rows, s.acceptableRows("ingress_list", "ingress asks for", s.facts[factTaskWait], s.api)...)
	rows = append(rows,
		s.leafRow("terminal_leaf", "terminal leaf", node, s.terminal),
		s.leafRow("terminal_leaf", "terminal leaf", operator, s.terminalOperator),
		s.wordRow("terminal_leaf", "terminal leaf", "trust.terminal_server"))
	rows = append(rows, s.acceptableRows("terminal_list", "terminal asks for", s.facts[factStream], s.terminal)...)
	for _, p := range [...]struct{ id, title, key string }{
		{"pin_signing_ca", "pin: signing CA", "signing_ca_fingerprint"},
		{"pin_ingress_ca", "pin: ingress CA", "ingress_ca_fingerprint"},
		{"pin_node_api_leaf", "pin: node API leaf", "node_api_server_fingerprint"},
	} {
		r := Row{ID: p.id, Title: p.title, From: "profile", Where: "trust." + p.key, Fingerprint: s.pin(p.key)}
		if r.Fingerprint == "" {
			r.Missing = "not set"
		}
		rows = append(rows, r)
	}
	return rows
}

// of returns r with the values of a certificate.
func (r Row) of(c *diag.CertInfo) Row {
	r.Fingerprint, r.Subject, r.Issuer, r.Serial = c.Fingerprint, c.Subject, c.Issuer, c.Serial
	r.NotBefore, r.NotAfter = c.NotBefore, c.NotAfter
	return r
}

// missed explains why a fact has no certificate.
func missed(f *diag.Fact) string {
	switch {
	case f == nil:
		return "not measured"
	case f.Failure == diag.OK && f.HTTP != nil:
		return fmt.Sprintf("HTTP %d", f.HTTP.Status)
	case f.Phase != "":
		return fmt.Sprintf("%s in %s", f.Failure, f.Phase)
	case f.Failure != diag.OK:
		return string(f.Failure)
	}
	return "not said"
}

func (s *inputs) leafRow(id, title, from string, f *diag.Fact) Row {
	r := Row{ID: id, Title: title, From: from}
	if f != nil {
		r.Where = endpoint(target(f))
		if f.TCP != nil {
			r.Where += " at " + f.TCP.Remote
		}
	}
	l := leaf(f)
	if l == nil {
		r.Missing = missed(f)
		return r
	}
	return r.of(l)
}

// wordRow returns a row for a fingerprint that the platform reports.
func (s *inputs) wordRow(id, title, field string) Row {
	r := Row{ID: id, Title: title, From: "platform", Fingerprint: s.field(FactTrustPage, field)}
	if r.Fingerprint == "" {
		r.Missing = missed(s.facts[FactTrustPage])
		return r
	}
	for _, c := range s.seen() { // the full certificate may be in another fact
		if c.Fingerprint == r.Fingerprint {
			return r.of(&c)
		}
	}
	return r
}

// seen returns every certificate in the facts.
func (s *inputs) seen() []diag.CertInfo {
	var all []diag.CertInfo
	for _, f := range [...]*diag.Fact{s.api, s.apiOperator, s.terminal, s.terminalOperator} {
		if f != nil && hasTLS(f) {
			all = append(all, f.TLS.Chain...)
		}
	}
	for _, r := range [...]roots{s.bundle, s.recovery, s.profile} {
		all = append(all, r.certs...)
	}
	if s.cert != nil {
		all = append(all, s.cert.Chain...)
	}
	return all
}

// issuerRow returns the CA that issued the node API's leaf: sent by the server, or found by name in a bundle that
// verifies it.
func (s *inputs) issuerRow() Row {
	r := Row{ID: "node_api_issuer", Title: "its issuer", From: node}
	l, f := s.shown()
	if l == nil {
		r.Missing = missed(f)
		return r
	}
	if f == s.apiOperator {
		r.From = operator
	}
	if len(f.TLS.Chain) > 1 && f.TLS.Chain[1].Subject == l.Issuer {
		r.Where = "sent along"
		return r.of(&f.TLS.Chain[1])
	}
	for _, b := range [...]struct {
		roots
		from  string
		holds *bool
	}{{s.bundle, node, verifies(s.api)}, {s.profile, "profile", verifies(s.apiOperator)}} {
		if c := b.named(l.Issuer); c != nil && b.holds != nil && *b.holds {
			r.From, r.Where = b.from, b.path
			return r.of(c)
		}
	}
	r.Subject, r.Note = l.Issuer, "known by name only"
	return r
}

func (s *inputs) bundleRows(id, title, from string, b roots) []Row {
	r := Row{ID: id, Title: title, From: from, Where: b.path}
	switch {
	case !b.known && b.why != nil:
		r.Missing = missed(b.why)
	case !b.known && b.path == "":
		r.Missing = "not set, or not read"
	case !b.known:
		r.Missing = "not measured"
	}
	if !b.known {
		return []Row{r}
	}
	rows := make([]Row, len(b.certs))
	for i := range b.certs {
		rows[i] = r.of(&b.certs[i])
		if len(b.certs) > 1 {
			rows[i].Title = fmt.Sprintf("%s %d/%d", title, i+1, len(b.certs))
		}
	}
	if len(b.certs) >= mostRoots {
		rows[len(rows)-1].Note = "perhaps more follow"
	}
	return rows
}

func (s *inputs) certRow() Row {
	r := Row{ID: "node_certificate", Title: "node's certificate", From: node, Where: certOfAgent(s.subject)}
	if s.cert == nil {
		r.Missing = missed(s.facts[factIdentity])
		return r
	}
	r = r.of(&s.cert.Leaf)
	r.Note = "serial " + r.Serial
	if s.cert.BoundTo != "" {
		r.Note += ", bound to " + s.cert.BoundTo
	}
	switch issued := s.field(factReadModel, "node.cert_serial"); {
	case issued == "":
	case issued != r.Serial:
		r.Note += ", not the one that the platform issued last (" + issued + ")"
	case s.field(factReadModel, "node.cert_generation") != "":
		r.Note += ", generation " + s.field(factReadModel, "node.cert_generation")
	}
	return r
}

func (s *inputs) certIssuerRow() Row {
	r := Row{ID: "node_certificate_issuer", Title: "its issuer", From: node}
	if s.cert == nil {
		r.Missing = missed(s.facts[factIdentity])
		return r
	}
	r.Fingerprint, r.Subject = s.issuer, s.cert.Leaf.Issuer
	for i, c := range s.cert.Chain {
		if c.Fingerprint == s.issuer {
			r.Where = "sent along"
			return r.of(&s.cert.Chain[i])
		}
	}
	r.From = "platform"
	if s.issuer == "" {
		r.From, r.Note = node, "known by name only"
	}
	return r
}

// acceptableRows returns the CA names that a listener requests certificates of. They are names only: a regenerated CA
// may have the old name.
func (s *inputs) acceptableRows(id, title string, facts ...*diag.Fact) []Row {
	for _, f := range facts {
		names := slices.Clone(acceptable(f))
		if len(names) == 0 {
			continue
		}
		rows := make([]Row, len(names))
		for i, n := range names {
			rows[i] = Row{ID: id, Title: title, From: node, Where: endpoint(target(f)), Subject: n, Note: "name only"}
		}
		return rows
	}
	why := "not measured"
	for _, f := range facts {
		switch {
		case f == nil || f.TLS == nil || f.TLS.CertRequested == nil:
		case !*f.TLS.CertRequested:
			why = "it asks for no certificate"
		default:
			why = "it lists none"
		}
	}
	return []Row{{ID: id, Title: title, From: node, Missing: why}}
}
