package vantage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
)

// algorithms are those that a login offers.
type algorithms struct {
	kex, ciphers, macs []string
	hostKeys           []string // in order of preference
	hostKeysFixed      bool     // their order does not depend on the keys that are known
	publicKeys         []string // for signatures, without certificates'
	certificates       []string // of hosts: what an authority may have signed with
	minRSA             int      // bits
}

// keyExchanges prefers the cheap and common one; the hybrid one is for servers that require it.
func keyExchanges() []string {
	return []string{
		ssh.KeyExchangeCurve25519, ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeECDHP256, ssh.KeyExchangeECDHP384,
		ssh.KeyExchangeECDHP521, ssh.KeyExchangeDH14SHA256, ssh.KeyExchangeDH16SHA512, ssh.KeyExchangeDHGEXSHA256,
	}
}

// keyTypes returns the key types, in order of preference, that we accept from a host without a known key. RSA with
// SHA-1 is not among them.
func keyTypes() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
}

// certificateTypes are those of keyTypes as certificates.
func certificateTypes() []string {
	return []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
	}
}

// signatures are the signature algorithms of users' keys and of authorities.
func signatures() []string {
	return append(keyTypes(), ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256)
}

// algorithmsOf returns the algorithms by ssh_config. Insecure ones are used only if it asks for them.
func algorithmsOf(c *openssh.Config) (a algorithms, err error) {
	can, weak := ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()
	for _, list := range []struct {
		name  string
		to    *[]string
		usual []string
		can   []string
	}{
		{"kexalgorithms", &a.kex, keyExchanges(), slices.Concat(keyExchanges(), weak.KeyExchanges)},
		{"ciphers", &a.ciphers, can.Ciphers, slices.Concat(can.Ciphers, weak.Ciphers)},
		{"macs", &a.macs, can.MACs, slices.Concat(can.MACs, weak.MACs)},
		{"hostkeyalgorithms", &a.hostKeys, slices.Concat(certificateTypes(), keyTypes()),
			slices.Concat(certificateTypes(), keyTypes(), weak.HostKeys)},
		{"pubkeyacceptedalgorithms", &a.publicKeys, slices.Concat(certificateTypes(), signatures(),
			[]string{skCertED25519, skCertECDSA}),
			slices.Concat(certificateTypes(), signatures(), weak.HostKeys, []string{skCertED25519, skCertECDSA})},
		{"casignaturealgorithms", &a.certificates, signatures(), append(signatures(), ssh.KeyAlgoRSA)},
	} {
		if *list.to, err = openssh.Algorithms(c.Get(list.name), list.usual, list.can); err != nil {
			return a, err
		}
	}
	text := c.Get("hostkeyalgorithms").First()
	a.hostKeysFixed = text != "" && text[0] != '+' && text[0] != '-'
	a.minRSA = 1024
	if v := c.Get("requiredrsasize"); v != nil {
		n, err := strconv.Atoi(v.First())
		if err != nil {
			return a, fmt.Errorf("%s: %w", v, err)
		}
		a.minRSA = max(n, a.minRSA)
	}
	return a, nil
}

// Certificates of FIDO keys, which the library does not name with the others.
const (
	skCertED25519 = ssh.CertAlgoSKED25519v01
	skCertECDSA   = ssh.CertAlgoSKECDSA256v01
)

// isCertificate reports whether an algorithm is a certificate's.
func isCertificate(algorithm string) bool {
	return strings.Contains(algorithm, "-cert-v01@openssh.com")
}

// baseType returns the type of the key that an algorithm uses: that of a certificate's key, and ssh-rsa for all of
// RSA's.
func baseType(algorithm string) string {
	plain := strings.Replace(algorithm, "-cert-v01@openssh.com", "", 1)
	switch {
	case plain == ssh.KeyAlgoRSASHA256, plain == ssh.KeyAlgoRSASHA512:
		return ssh.KeyAlgoRSA
	case isCertificate(algorithm) && strings.HasPrefix(plain, "sk-"):
		return plain + "@openssh.com"
	}
	return plain
}

// named joins algorithms without the words by which both sides announce extensions.
func named(algorithms []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(algorithms), func(a string) bool {
		return strings.HasPrefix(a, "kex-strict-") || strings.HasPrefix(a, "ext-info-")
	}), ", ")
}

// offersKept bounds a server's offer in a message, in bytes: OpenSSH's longest has some six hundred.
const offersKept = 2048

// offers describes a negotiation that failed, with both offers in full, and what would help.
func offers(t *target, algo *ssh.AlgorithmNegotiationError) string {
	text := fmt.Sprintf("no common algorithm for %s: %s has only %s; this login offers %s", algo.What, t.address(),
		clip(scrub.Text(named(algo.RequestedAlgorithms)), offersKept), named(algo.SupportedAlgorithms))
	var all []string
	var word string
	weak, can := ssh.InsecureAlgorithms(), ssh.SupportedAlgorithms()
	switch {
	case strings.Contains(algo.What, "key exchange"):
		all, word = slices.Concat(can.KeyExchanges, weak.KeyExchanges), "KexAlgorithms"
	case strings.Contains(algo.What, "host key"):
		all, word = slices.Concat(can.HostKeys, weak.HostKeys), "HostKeyAlgorithms"
	case strings.Contains(algo.What, "cipher"):
		all, word = slices.Concat(can.Ciphers, weak.Ciphers), "Ciphers"
	default:
		all, word = slices.Concat(can.MACs, weak.MACs), "MACs"
	}
	i := slices.IndexFunc(algo.RequestedAlgorithms, func(a string) bool { return slices.Contains(all, a) })
	if i < 0 {
		return text + "; this program has none of the server's, whatever ssh_config says: OpenSSH's own client may, " +
			"as a ProxyCommand to a host beside it, or the server may be given one of ours"
	}
	if v := t.value(strings.ToLower(word)); v != nil {
		return text + "; ssh_config leaves them out: " + v.String()
	}
	return text + "; ssh_config may allow what the server has: " + word + " +" + algo.RequestedAlgorithms[i]
}
