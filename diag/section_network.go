package diag

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Longer than 300 lines: the sections of a request, from its look-up to its handshake.

// DNSFacts is one look-up.
type DNSFacts struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses,omitempty"`
	// pinned | literal | hosts_managed | hosts_manual | nss | dns | getent
	Source     string `json:"source,omitempty"`
	Server     string `json:"server,omitempty"`      // host:port of the DNS server that answered or was asked
	SourceLine string `json:"source_line,omitempty"` // hosts file line, as path:number
	RCode      string `json:"rcode,omitempty"`
	// the fully qualified name that has the addresses, if the search list of resolv.conf made it of Name
	Completed string `json:"completed,omitempty"`
	// the kind of records (A, AAAA) that the server left unanswered until the look-up ended, while it gave the other
	Unanswered string `json:"unanswered,omitempty"`
	// the server's answer over UDP was truncated, and the query over TCP failed
	Truncated  bool   `json:"truncated,omitempty"`
	Unset      bool   `json:"unset,omitempty"` // resolv.conf names no server or is missing, so this machine was asked
	DurationMS Millis `json:"duration_ms,omitempty"`

	// Servers is the answer of each of the host's name servers, queried separately: with each look-up if they take turns,
	// else with the first look-up of a name.
	Servers []DNSAnswer `json:"servers,omitempty"`
	// the host's name servers take turns (options rotate), so any of them may answer a program of the host
	Rotates bool `json:"rotates,omitempty"`
	// where a resolver on the host itself failed: the answer of each server that it asks
	Behind     []DNSAnswer `json:"behind,omitempty"`
	BehindFile string      `json:"behind_file,omitempty"` // the file on the host that names these servers
}

// DNSAnswer is one name server's answer for the addresses of a name. Without a code and a failure, the server had not
// answered when the look-up ended.
type DNSAnswer struct {
	Server     string   `json:"server"` // host:port
	Name       string   `json:"name"`   // fully qualified
	RCode      string   `json:"rcode,omitempty"`
	Addresses  []string `json:"addresses,omitempty"`
	Aliases    []string `json:"aliases,omitempty"`   // the CNAMEs in order; the last one has the addresses
	TTL        *int64   `json:"ttl_s,omitempty"`     // how long the answer may be cached: the minimum of its records
	Extended   []string `json:"extended,omitempty"`  // extended DNS errors (RFC 8914), as "18 Prohibited: text"
	Truncated  bool     `json:"truncated,omitempty"` // as in DNSFacts
	Failure    Failure  `json:"failure,omitempty"`
	DurationMS Millis   `json:"duration_ms,omitempty"`
}

// Denies reports whether the server's answer is final and has no address: a resolver does not ask another server then.
func (a *DNSAnswer) Denies() bool {
	return a.Failure == OK && len(a.Addresses) == 0 && (a.RCode == "NXDOMAIN" || a.RCode == "NOERROR")
}

// cutShort is the text for an answer that was truncated.
func cutShort(truncated bool) string {
	if truncated {
		return "truncated over UDP, and TCP failed"
	}
	return ""
}

// words returns one server's answer as a line.
func (a *DNSAnswer) words() Line {
	ttl := ""
	if a.TTL != nil {
		ttl = fmt.Sprintf("for %d s", *a.TTL)
	}
	return line("  server", a.Server, cmp.Or(a.RCode, string(a.Failure), "no answer by then"),
		strings.Join(a.Addresses, " "), pair("by way of ", strings.Join(a.Aliases, ", ")), ttl,
		strings.Join(a.Extended, "; "), cutShort(a.Truncated), took(a.DurationMS))
}

// unnamed is the text for a host without name servers.
func unnamed(unset bool) string {
	if unset {
		return "for lack of one in resolv.conf"
	}
	return ""
}

// Words returns the look-up, and each name server's answer.
func (d *DNSFacts) Words() []Line {
	lines := []Line{line("dns", d.Name, strings.Join(d.Addresses, " "), pair("from ", d.Source), pair("server ", d.Server),
		pair("for ", d.Completed), pair("without an answer for ", d.Unanswered), unnamed(d.Unset), d.SourceLine, d.RCode,
		cutShort(d.Truncated), took(d.DurationMS))}
	for i := range d.Servers {
		lines = append(lines, d.Servers[i].words())
	}
	if len(d.Behind) > 0 {
		lines = append(lines, line("  behind it, by "+d.BehindFile))
	}
	for i := range d.Behind {
		lines = append(lines, d.Behind[i].words())
	}
	return lines
}

// PropertyAddresses names the property with the answer to a look-up: sorted addresses, separated by a space.
const PropertyAddresses = "dns.addresses"

// Properties returns the answer only for a name that was looked up: a pinned or literal address comes from the request.
func (d *DNSFacts) Properties(*Fact) []Property {
	if d.Source == "pinned" || d.Source == "literal" {
		return nil
	}
	return []Property{
		{ChangeDNSAnswer, PropertyAddresses, strings.Join(slices.Sorted(slices.Values(d.Addresses)), " ")},
		{ChangeDNSAnswer, "dns.source", d.Source},
		{ChangeResolver, "dns.server", d.Server},
		{ChangeDNSAnswer, "dns.completed", d.Completed},
	}
}

// TCPFacts is one connection attempt (the last address tried, where several failed).
type TCPFacts struct {
	Remote string `json:"remote"`
	Local  string `json:"local,omitempty"`
	// connection of an earlier request: dns, tcp and tls were not measured again
	Reused bool `json:"reused,omitempty"`
	// opened for this request before it could be sent, so its phases are not part of the request's duration
	Ahead      bool   `json:"ahead,omitempty"`
	DurationMS Millis `json:"duration_ms,omitempty"`
	// Resent is how many segments the kernel had retransmitted on this connection by the end of the request, including
	// the SYN, minus spurious retransmissions. Absent if the kernel does not report it.
	Resent *int64 `json:"resent,omitempty"`
	// bytes arrived that follow missing ones, which had not arrived by the end of the request: packets of the answer are
	// lost on the way back
	Gap bool `json:"gap,omitempty"`
	// the first bytes of an answer to this request arrived
	AnswerBegan bool `json:"answer_began,omitempty"`

	// the machine whose ICMP error "administratively prohibited" ended the attempt, other than this one
	ProhibitedBy string `json:"prohibited_by,omitempty"`
	// this machine refused the attempt: the kernel reports no ICMP error of another one
	RefusedHere bool `json:"refused_here,omitempty"`

	// who listens at Remote, if that is this machine and the probe may read it
	Listener *Listener `json:"listener,omitempty"`

	// Attempts are the addresses that were dialled, in order, at most MaxAttempts; empty if the name has only one
	// address.
	Attempts []TCPAttempt `json:"attempts,omitempty"`
}

// lacks is the text for an answer with a gap.
func lacks(gap bool) string {
	if gap {
		return "part of the answer did not arrive"
	}
	return ""
}

// Words returns the connection, and the addresses that were dialled.
func (t *TCPFacts) Words() []Line {
	again := ""
	if t.Resent != nil && *t.Resent > 0 {
		again = fmt.Sprintf("%d segments sent again", *t.Resent)
	}
	lines := []Line{line("tcp", t.Remote, pair("from ", t.Local), took(t.DurationMS), again,
		pair("prohibited by ", t.ProhibitedBy), lacks(t.Gap), pair("held by ", t.Listener.String()))}
	for _, a := range t.Attempts {
		outcome := string(a.Failure)
		switch {
		case a.Connected:
			outcome = "connected"
		case outcome == "":
			outcome = "no answer by then"
		}
		lines = append(lines, line("  tried", a.Remote, pair("after ", took(a.AfterMS)), outcome, took(a.DurationMS)))
	}
	return lines
}

// Properties returns the peer only if no name was looked up: of several addresses of a name any may be used.
func (t *TCPFacts) Properties(f *Fact) []Property {
	var properties []Property
	if f.DNS == nil {
		properties = append(properties, Property{ChangeRoute, "tcp.remote", address(t.Remote)})
	}
	return append(properties, Property{ChangeRoute, "tcp.local", address(t.Local)})
}

// address returns host:port without the port, which differs in every connection.
func address(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return hostport
	}
	return host
}

// MaxAttempts bounds TCPFacts.Attempts.
const MaxAttempts = 8

// TCPAttempt is a connection attempt to one address of a name. An attempt that neither connected nor failed was still
// open when another one connected.
type TCPAttempt struct {
	Remote     string  `json:"remote"`
	Connected  bool    `json:"connected,omitempty"`
	Failure    Failure `json:"failure,omitempty"`
	AfterMS    Millis  `json:"after_ms,omitempty"`    // start of the attempt, after the first one
	DurationMS Millis  `json:"duration_ms,omitempty"` // until its result, or until another address connected
}

// CertInfo describes one certificate.
type CertInfo struct {
	Subject     string   `json:"subject"`
	Issuer      string   `json:"issuer"`
	Serial      string   `json:"serial"`
	DNSNames    []string `json:"dns_names,omitempty"`
	NotBefore   Time     `json:"not_before"`
	NotAfter    Time     `json:"not_after"`
	Fingerprint string   `json:"fingerprint"` // sha256 of the DER, lower-case hex
	// what its extended key usage limits it to: server, client, any, other; absent if it has none, which limits nothing
	Usages    []string `json:"usages,omitempty"`
	IssuerURL string   `json:"issuer_url,omitempty"` // where it says that its issuer's certificate is (AIA)
}

// TLSFacts is one handshake. Chain is recorded even if the verification failed.
type TLSFacts struct {
	Version     string     `json:"version,omitempty"` // e.g. "TLS 1.3"
	ServerName  string     `json:"server_name,omitempty"`
	Chain       []CertInfo `json:"chain,omitempty"`
	Verified    bool       `json:"verified"`
	TrustSource string     `json:"trust_source,omitempty"` // path of the bundle, "system" or "inline"
	TrustRoots  []CertInfo `json:"trust_roots,omitempty"`  // the certificates in that bundle, at most 16
	// TrustUnread is how many certificates of that bundle no parser reads: the line that begins one has more on it, such
	// as a byte order mark, or what follows is not PEM.
	TrustUnread   int      `json:"trust_unread,omitempty"`
	CertRequested *bool    `json:"cert_requested,omitempty"`
	AcceptableCAs []string `json:"acceptable_cas,omitempty"` // subject names; empty if the server lists none
	CertSent      string   `json:"cert_sent,omitempty"`      // serial of the client certificate that was in fact sent
	DurationMS    Millis   `json:"duration_ms,omitempty"`

	// Misdated is the certificate whose dates failed the verification: the server's own, a CA between it and the root, or
	// the root in the bundle. Absent for any other failure.
	Misdated *CertInfo `json:"misdated,omitempty"`
	// Flaw is why the server's certificate did not verify, beyond the failure; absent if nothing more is known.
	Flaw CertFlaw `json:"flaw,omitempty"`
}

// CertFlaw is what is wrong with a server's certificate, or its chain, beyond the failure of its verification.
type CertFlaw string

// The closed list.
const (
	FlawSelfSigned   CertFlaw = "self_signed"          // it signed itself, and is not among the roots
	FlawNoIssuer     CertFlaw = "issuer_not_presented" // no certificate of its issuer's name was presented, or is a root
	FlawOtherKey     CertFlaw = "issuer_has_other_key" // a root has its issuer's name, and did not sign it
	FlawWeak         CertFlaw = "weak_signature"       // SHA-1 or MD5, which no client accepts any more
	FlawNotForServer CertFlaw = "not_for_servers"      // its extended key usage lacks servers
	FlawNoCA         CertFlaw = "signed_by_no_ca"      // what signed it may not sign certificates
	FlawNotAllowed   CertFlaw = "name_not_allowed"     // a CA of its chain may not sign for its names, or so deep
	FlawNameInCN     CertFlaw = "name_in_cn_only"      // it has no alternative names, and the name is in its subject alone
	FlawNoIPName     CertFlaw = "no_ip_name"           // it was asked for an address, and has no such alternative name
)

// CertFlaws has every word once.
var CertFlaws = [...]CertFlaw{FlawSelfSigned, FlawNoIssuer, FlawOtherKey, FlawWeak, FlawNotForServer, FlawNoCA,
	FlawNotAllowed, FlawNameInCN, FlawNoIPName}

// Words returns the handshake, the server's chain, and its request for a client certificate.
func (t *TLSFacts) Words() []Line {
	verified := "not verified"
	if t.Verified {
		verified = "verified"
	}
	lines := []Line{line("tls", t.Version, verified, pair("for ", t.ServerName), pair("against ", t.TrustSource),
		took(t.DurationMS))}
	for _, c := range t.Chain {
		lines = append(lines, line("  cert", c.Subject, pair("issued by ", c.Issuer), pair("serial ", c.Serial),
			c.until()))
	}
	if t.TrustUnread > 0 {
		lines = append(lines, line("  trust", fmt.Sprintf("%d certificates of the bundle cannot be read", t.TrustUnread)))
	}
	if c := t.Misdated; c != nil {
		lines = append(lines, line("  dates of", c.Subject, pair("serial ", c.Serial),
			"from "+c.NotBefore.UTC().Format(TimeLayout), c.until()))
	}
	if t.CertRequested != nil {
		asked := "client certificate not asked for"
		if *t.CertRequested {
			asked = "client certificate asked for"
		}
		lines = append(lines, line("  mtls", asked, pair("sent ", t.CertSent),
			pair("takes ", strings.Join(t.AcceptableCAs, "; "))))
	}
	return lines
}

func (c *CertInfo) until() string { return "until " + c.NotAfter.UTC().Format(TimeLayout) }

// Properties returns which server was trusted, through which roots, and which client CAs the listener accepts.
func (t *TLSFacts) Properties(*Fact) []Property {
	properties := []Property{{ChangeTLSVersion, "tls.version", t.Version}}
	for i, c := range t.Chain {
		if i == 0 {
			properties = append(properties, Property{ChangeServerIssuer, "tls.chain[0].issuer", c.Issuer},
				Property{ChangeServerCert, "tls.chain[0].fingerprint", c.Fingerprint})
			continue
		}
		field := fmt.Sprintf("tls.chain[%d].fingerprint", i)
		properties = append(properties, Property{ChangeServerIssuer, field, c.Fingerprint})
	}
	properties = append(properties, Property{ChangeTrustBundle, "tls.trust_source", t.TrustSource},
		Property{ChangeTrustBundle, "tls.trust_roots", roots(t.TrustRoots)})
	if t.CertRequested != nil {
		asked := "no client certificate asked for"
		if *t.CertRequested {
			asked = "any CA"
			if len(t.AcceptableCAs) > 0 {
				asked = strings.Join(slices.Sorted(slices.Values(t.AcceptableCAs)), "; ")
			}
		}
		properties = append(properties, Property{ChangeIngressCAs, "tls.acceptable_cas", asked})
	}
	return append(properties, Property{ChangeNodeCert, "tls.cert_sent", t.CertSent})
}

// roots sums up a bundle as one value: the number of certificates, and a digest over their fingerprints in any order.
func roots(certs []CertInfo) string {
	if len(certs) == 0 {
		return ""
	}
	prints := make([]string, len(certs))
	for i, c := range certs {
		prints[i] = c.Fingerprint
	}
	slices.Sort(prints)
	return fmt.Sprintf("%d certificates, %.6x", len(certs), sha256.Sum256([]byte(strings.Join(prints, "\n"))))
}
