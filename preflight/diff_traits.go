package preflight

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// trait is one value of a fact that stays the same from walk to walk while nothing changes: no time, no process id, no
// id of a single run.
type trait struct {
	kind  diag.ChangeKind
	field string // wire path in the fact; its first word is the section
	value string
}

// fieldAddresses is the answer to a look-up, sorted, one space between two addresses.
const fieldAddresses = "dns.addresses"

func (t trait) section() string {
	s, _, _ := strings.Cut(t.field, ".")
	return s
}

// traits lists what of a fact compares. An empty value is no trait.
func traits(f *diag.Fact) []trait {
	var ts traitList
	ts.network(f)
	ts.tls(f.TLS)
	ts.http(f.HTTP)
	ts.login(f.SSH)
	ts.host(f)
	return ts
}

type traitList []trait

func (ts *traitList) add(kind diag.ChangeKind, field, value string) {
	if value != "" {
		*ts = append(*ts, trait{kind, field, value})
	}
}

// network has the answer only of a name that was looked up, and the peer only where no name led there: a pinned or
// literal address is the request's, and among several addresses any may be taken.
func (ts *traitList) network(f *diag.Fact) {
	if d := f.DNS; d != nil && d.Source != "pinned" && d.Source != "literal" {
		ts.add(diag.ChangeDNSAnswer, fieldAddresses, strings.Join(slices.Sorted(slices.Values(d.Addresses)), " "))
		ts.add(diag.ChangeDNSAnswer, "dns.source", d.Source)
		ts.add(diag.ChangeResolver, "dns.server", d.Server)
	}
	if t := f.TCP; t != nil {
		if f.DNS == nil {
			ts.add(diag.ChangeRoute, "tcp.remote", address(t.Remote))
		}
		ts.add(diag.ChangeRoute, "tcp.local", address(t.Local))
	}
}

// address is host:port without the port, which is another one for each connection.
func address(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return hostport
	}
	return host
}

func (ts *traitList) tls(t *diag.TLSFacts) {
	if t == nil {
		return
	}
	ts.add(diag.ChangeTLSVersion, "tls.version", t.Version)
	for i, c := range t.Chain {
		if i == 0 {
			ts.add(diag.ChangeServerIssuer, "tls.chain[0].issuer", c.Issuer)
			ts.add(diag.ChangeServerCert, "tls.chain[0].fingerprint", c.Fingerprint)
			continue
		}
		ts.add(diag.ChangeServerIssuer, fmt.Sprintf("tls.chain[%d].fingerprint", i), c.Fingerprint)
	}
	ts.add(diag.ChangeTrustBundle, "tls.trust_source", t.TrustSource)
	ts.add(diag.ChangeTrustBundle, "tls.trust_roots", roots(t.TrustRoots))
	if t.CertRequested != nil {
		asked := "no client certificate asked for"
		if *t.CertRequested {
			asked = "any CA"
			if len(t.AcceptableCAs) > 0 {
				asked = strings.Join(slices.Sorted(slices.Values(t.AcceptableCAs)), "; ")
			}
		}
		ts.add(diag.ChangeIngressCAs, "tls.acceptable_cas", asked)
	}
	ts.add(diag.ChangeNodeCert, "tls.cert_sent", t.CertSent)
}

// roots is a bundle as one value: how many certificates, and a digest over their fingerprints in any order.
func roots(certs []diag.CertInfo) string {
	if len(certs) == 0 {
		return ""
	}
	prints := make([]string, len(certs))
	for i, c := range certs {
		prints[i] = c.Fingerprint
	}
	slices.Sort(prints)
	sum := sha256.Sum256([]byte(strings.Join(prints, "\n")))
	return fmt.Sprintf("%d certificates, %s", len(certs), hex.EncodeToString(sum[:6]))
}

// fieldKinds are the fields of platform answers that compare.
func fieldKinds() map[string]diag.ChangeKind {
	return map[string]diag.ChangeKind{
		"node.instance_id": diag.ChangeInstance, "node.private_ip": diag.ChangeRoute,
		"node.environment_profile": diag.ChangeEndpoint, "node.agent_api_url": diag.ChangeEndpoint, "node.agent_terminal_url": diag.ChangeEndpoint,
		"node.agent_version": diag.ChangeAgentBuild,
		"node.cert_serial":   diag.ChangeNodeCert, "node.cert_generation": diag.ChangeNodeCert, "node.cert_issuer": diag.ChangeNodeIssuer,
		"trust.signing_ca": diag.ChangePlatformCA, "trust.ingress_ca": diag.ChangePlatformCA,
		"allocation.os_user": diag.ChangeUser, "allocation.app_product_url": diag.ChangeEndpoint,
	}
}

func (ts *traitList) http(h *diag.HTTPFacts) {
	if h == nil {
		return
	}
	ts.add(diag.ChangeServer, "http.server", h.Server)
	kinds := fieldKinds()
	for _, name := range slices.Sorted(maps.Keys(h.Fields)) {
		if kind, ok := kinds[name]; ok {
			ts.add(kind, "http.fields."+name, h.Fields[name])
		}
	}
}

func (ts *traitList) login(s *diag.SSHFacts) {
	if s == nil {
		return
	}
	ts.add(diag.ChangeHostKey, "ssh.host_key_sha256", s.HostKeySHA256)
	ts.add(diag.ChangeServer, "ssh.banner", s.Banner)
	ts.add(diag.ChangeRoute, "ssh.jump", s.Jump)
}

func (ts *traitList) host(f *diag.Fact) {
	if d := f.File; d != nil {
		ts.add(diag.ChangeFile, "file.resolved", d.Resolved)
		ts.add(diag.ChangeFile, "file.mode", d.Mode)
		ts.add(diag.ChangeFile, "file.sha256", d.SHA256)
	}
	if d := f.Cert; d != nil {
		ts.add(diag.ChangeNodeIssuer, "cert.leaf.issuer", d.Leaf.Issuer)
		ts.add(diag.ChangeNodeCert, "cert.leaf.serial", d.Leaf.Serial)
	}
	if d := f.Unit; d != nil {
		ts.add(diag.ChangeUnit, "unit.fragment", d.Fragment)
		ts.add(diag.ChangeUnit, "unit.drop_ins", orNone(strings.Join(d.DropIns, " ")))
	}
	if d := f.Binary; d != nil {
		ts.add(diag.ChangeAgentBuild, "binary.version", d.Version)
		ts.add(diag.ChangeAgentBuild, "binary.sha256", d.SHA256)
		ts.add(diag.ChangeAgentBuild, "binary.running_sha256", d.Running)
	}
	if d := f.User; d != nil {
		ts.add(diag.ChangeUser, "user.name", d.Name)
		ts.add(diag.ChangeUser, "user.shell", d.Shell)
		ts.add(diag.ChangeUser, "user.home", d.Home)
	}
	if d := f.Clock; d != nil {
		ts.add(diag.ChangeBoot, "clock.boot_id", d.BootID)
	}
	if d := f.Env; d != nil {
		for _, name := range slices.Sorted(maps.Keys(d.Values)) {
			ts.add(diag.ChangeEndpoint, "env.values."+name, d.Values[name])
		}
	}
}
