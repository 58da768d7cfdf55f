package probe

import (
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Scrub returns s without what looks like a secret: private keys, credentials in headers, query strings, and long
// runs that no human wrote. It is for the words of errors and messages; a value that is known to be secret is a
// diag.Secret and never gets here.
func Scrub(s string) string { return ScrubCounting(s, nil) }

// ScrubCounting is Scrub that adds to counts what each rule took out; counts may be nil.
func ScrubCounting(s string, counts map[string]int) string {
	for i, r := range redactions {
		var n int
		if s, n = r.apply(s); n > 0 && counts != nil {
			counts[redactionNames[i]] += n
		}
	}
	return s
}

// opaque tells a token from a path, a host name or a UUID: it mixes upper case, lower case and digits, or it is one
// long piece with digits in it.
func opaque(run string) bool {
	var upper, lower, digit bool
	longest, piece := 0, 0
	for _, c := range run {
		switch {
		case c >= 'A' && c <= 'Z':
			upper = true
		case c >= 'a' && c <= 'z':
			lower = true
		case c >= '0' && c <= '9':
			digit = true
		}
		if piece++; c == '/' || c == '-' || c == '_' {
			piece = 0
		}
		longest = max(longest, piece)
	}
	return upper && lower && digit || digit && longest >= 32
}

// clean is Scrub that also knows this request's own secrets, whatever they look like.
func clean(req diag.Request, s string, more ...diag.Secret) string {
	return Scrub(withoutSecrets(s, append(more, secretsOf(req)...)...))
}

// secretsOf lists the secrets that a request carries, a query's values one by one as well.
func secretsOf(req diag.Request) []diag.Secret {
	secrets := []diag.Secret{req.Token, req.Cookie, req.Query}
	values, err := url.ParseQuery(req.Query.Reveal())
	if err != nil {
		return secrets
	}
	for _, list := range values {
		for _, v := range list {
			secrets = append(secrets, diag.NewSecret(v))
		}
	}
	return secrets
}

// withoutSecrets takes known values out of s. Very short ones stay: they would tear words apart, and protect nothing.
func withoutSecrets(s string, secrets ...diag.Secret) string {
	for _, secret := range secrets {
		if v := secret.Reveal(); len(v) >= 6 {
			s = strings.ReplaceAll(s, v, diag.Redacted)
		}
	}
	return s
}
