package openssh

import (
	"fmt"
	"slices"
	"strings"
)

// known are the algorithms that OpenSSH knows by name, up to version 10: it refuses a list with any other.
var known = map[string][]string{
	"kexalgorithms": strings.Fields(`diffie-hellman-group1-sha1 diffie-hellman-group14-sha1
		diffie-hellman-group14-sha256 diffie-hellman-group16-sha512 diffie-hellman-group18-sha512
		diffie-hellman-group-exchange-sha1 diffie-hellman-group-exchange-sha256 ecdh-sha2-nistp256 ecdh-sha2-nistp384
		ecdh-sha2-nistp521 curve25519-sha256 curve25519-sha256@libssh.org sntrup761x25519-sha512
		sntrup761x25519-sha512@openssh.com mlkem768x25519-sha256`),
	"ciphers": strings.Fields(`3des-cbc aes128-cbc aes192-cbc aes256-cbc aes128-ctr aes192-ctr aes256-ctr
		rijndael-cbc@lysator.liu.se aes128-gcm@openssh.com aes256-gcm@openssh.com chacha20-poly1305@openssh.com`),
	"macs": strings.Fields(`hmac-sha1 hmac-sha1-96 hmac-sha2-256 hmac-sha2-512 hmac-md5 hmac-md5-96
		umac-64@openssh.com umac-128@openssh.com hmac-sha1-etm@openssh.com hmac-sha1-96-etm@openssh.com
		hmac-sha2-256-etm@openssh.com hmac-sha2-512-etm@openssh.com hmac-md5-etm@openssh.com hmac-md5-96-etm@openssh.com
		umac-64-etm@openssh.com umac-128-etm@openssh.com`),
	"casignaturealgorithms":    keyNames(false),
	"hostkeyalgorithms":        keyNames(true),
	"pubkeyacceptedalgorithms": keyNames(true),
}

// keyNames are the names of signature algorithms, with those of certificates.
func keyNames(certificates bool) []string {
	names := strings.Fields(`ssh-ed25519 ecdsa-sha2-nistp256 ecdsa-sha2-nistp384 ecdsa-sha2-nistp521
		sk-ssh-ed25519@openssh.com sk-ecdsa-sha2-nistp256@openssh.com webauthn-sk-ecdsa-sha2-nistp256@openssh.com
		rsa-sha2-512 rsa-sha2-256 ssh-rsa ssh-dss`)
	if certificates {
		for _, n := range slices.Clone(names) {
			names = append(names, strings.TrimSuffix(n, "@openssh.com")+"-cert-v01@openssh.com")
		}
	}
	return names
}

// checkAlgorithms refuses a list of algorithms that OpenSSH refuses.
func checkAlgorithms(name, value string) error {
	names, is := known[name]
	if !is {
		return nil
	}
	value, removes := strings.CutPrefix(value, "-")
	if removes {
		return nil
	}
	for a := range strings.SplitSeq(strings.TrimLeft(value, "+^"), ",") {
		patterns := strings.ContainsAny(a, "*?") && strings.HasPrefix(name, "hostkey")
		patterns = patterns || (strings.ContainsAny(a, "*?") && strings.HasPrefix(name, "pubkey"))
		if !slices.Contains(names, a) && !patterns {
			return fmt.Errorf("bad algorithm %q", a)
		}
	}
	return nil
}

// Algorithms returns the algorithms to use, by a list of ssh_config (nil: usual): of those that are implemented, in
// order. A list may add to the usual ones (+), remove some (-), or put some first (^); it may name with wildcards.
func Algorithms(v *Value, usual, implemented []string) ([]string, error) {
	text := v.First()
	if text == "" {
		return usual, nil
	}
	sign, names := byte(0), text
	if strings.IndexByte("+-^", text[0]) >= 0 {
		sign, names = text[0], text[1:]
	}
	var named []string
	for pattern := range strings.SplitSeq(names, ",") {
		pattern = strings.TrimSuffix(pattern, "@libssh.org")
		for _, a := range implemented {
			if glob(a, pattern) && !slices.Contains(named, a) {
				named = append(named, a)
			}
		}
	}
	var out []string
	switch sign {
	case '+':
		out = slices.Concat(usual, named)
	case '^':
		out = slices.Concat(named, usual)
	case '-':
		out = slices.DeleteFunc(slices.Clone(usual), func(a string) bool { return slices.Contains(named, a) })
	default:
		out = named
	}
	var once []string
	for _, a := range out {
		if !slices.Contains(once, a) {
			once = append(once, a)
		}
	}
	if len(once) == 0 {
		return nil, fmt.Errorf("%s: this program has none of these algorithms; it has %s", v,
			strings.Join(implemented, ", "))
	}
	return once, nil
}
