package reading

import (
	"fmt"
	"path"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// Flaw describes why the certificate of f's server did not verify, beyond the failure; "" if nothing more is known.
func Flaw(f *diag.Fact) string {
	leaf := ServedLeaf(f)
	if leaf == nil || f.TLS.Verified {
		return ""
	}
	switch f.TLS.Flaw {
	case diag.FlawSelfSigned:
		return "it signed itself: another server's default certificate, or one whose owner trusts it by name"
	case diag.FlawNoIssuer:
		last := lastPresented(f.TLS)
		text := fmt.Sprintf("the server sends its certificate without the intermediate that signed it: nothing that it "+
			"presents, and nothing in %s, is %s", trustOf(f.TLS), last.Issuer)
		if last.IssuerURL != "" {
			text += " (" + path.Base(last.IssuerURL) + ")"
		} else {
			text += "; unless that is a root which is missing there"
		}
		return text
	case diag.FlawOtherKey:
		return fmt.Sprintf("%s has a certificate of %s that did not sign it: that CA has a new key, or another one has its "+
			"name", trustOf(f.TLS), lastPresented(f.TLS).Issuer)
	case diag.FlawWeak:
		return "it, or what signed it, is signed with SHA-1 or MD5, which no client accepts any more"
	case diag.FlawNotForServer:
		return fmt.Sprintf("this certificate may not be used by servers: its extended key usage is %s", hop.Clip(leaf.Usages))
	case diag.FlawNoCA:
		return "what signed it may not sign certificates: it is no CA"
	case diag.FlawNotAllowed:
		return "a CA of its chain may not sign for its names, or not so deep a chain (constraints)"
	case diag.FlawNameInCN:
		return "it has the name in its subject (CN) alone, which clients ignore: it needs a subject alternative name"
	case diag.FlawNoIPName:
		return "it was asked for by address, and has no subject alternative name with that address"
	}
	return ""
}

// lastPresented is the presented certificate whose issuer was not presented.
func lastPresented(t *diag.TLSFacts) *diag.CertInfo {
	last := &t.Chain[0]
	for range t.Chain {
		i := slices.IndexFunc(t.Chain, func(c diag.CertInfo) bool { return c.Subject == last.Issuer })
		if i < 0 || &t.Chain[i] == last {
			break
		}
		last = &t.Chain[i]
	}
	return last
}

// trustOf names the roots that a server was verified with.
func trustOf(t *diag.TLSFacts) string {
	switch t.TrustSource {
	case "", "system":
		return "the roots of this system"
	case "inline":
		return "the profile's bundle"
	}
	return t.TrustSource
}

// NotForClients describes a client certificate whose extended key usage keeps every server from accepting it; "" for
// another one.
func NotForClients(cert *diag.CertInfo) string {
	if len(cert.Usages) == 0 || slices.Contains(cert.Usages, "client") || slices.Contains(cert.Usages, "any") {
		return ""
	}
	return fmt.Sprintf("this certificate may not be used by clients (EKU): its extended key usage is %s",
		hop.Clip(cert.Usages))
}
