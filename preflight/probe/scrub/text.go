// Package scrub removes secrets from text that was read from a machine or a server, before it becomes part of a fact.
package scrub

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
)

// redaction is one kind of text that may be a secret.
type redaction struct {
	name  string
	marks []string       // in lower case; a text without any of them cannot match, and is skipped at almost no cost
	find  *regexp.Regexp // Go's expressions take time linear in the text, whatever it is
	with  string         // replaces a match; ${1} is the part that is kept
	only  func(match string) bool
	// except reports whether the text after ${1} is the system's error about a file of that name: /etc/passwd: Permission
	// denied.
	except func(rest string) bool
}

const (
	keyBegin = `-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`
	keyEnd   = `-----END [A-Z0-9 ]*PRIVATE KEY-----`
)

// redactions are applied in order, the most specific first. They are compiled when the first text is scrubbed, because
// a probe is started for every walk. (?i) takes U+017F for an s and U+212A for a k, so no mark has an s.
var redactions = sync.OnceValue(func() []redaction {
	one := func(name, marks, find, with string, only func(string) bool) redaction {
		return redaction{name, strings.Split(marks, " "), regexp.MustCompile(find), with, only, nil}
	}
	of := func(except func(string) bool, r redaction) redaction {
		r.except = except
		return r
	}
	return []redaction{
		// A private key in PEM, even a truncated one.
		one("private_key", "private", `(?s)`+keyBegin+`.*?(?:(`+keyEnd+`)|$)`, diag.Redacted, nil),
		// A header with one of these names, or a field: the whole line.
		of(isFileError, one("header", "authorization cookie",
			`(?i)(\b(?:authorization|cookie)"?\s*[:=]\s*)[^\r\n]+`, "${1}"+diag.Redacted, nil)),
		// A header's value without its name, or a WebSocket subprotocol.
		one("bearer", "bearer", `(?i)\bbearer(\.|\s+)[^\s,;"'\[\]]+`, "bearer${1}"+diag.Redacted, nil),
		// token=..., "api_key": "...", NODE_SECRET=...
		of(beginsFileError, one("assigned", "token ecret word wd api",
			`(?i)(\b(?:[a-z0-9]+[_-])*(?:token|secret|password|passwd|api[_-]?key)"?`+
				`\s*[:=]\s*"?)[^\s,;"'&\[\]]+`, "${1}"+diag.Redacted, nil)),
		// The login in a URL.
		one("userinfo", "://", `(\b[a-z][a-z0-9+]*://)[^\s/@"']+@`, "${1}", nil),
		// A URL's query, or what looks like one.
		one("query", "?", `([^\s"'<>?]\?)[^\s"'<>?]*[=&%][^\s"'<>]*`, "${1}"+diag.Redacted, nil),
		// A JSON web token.
		one("jwt", "eyj", `\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)*`, diag.Redacted, nil),
		// A run of the characters that tokens consist of.
		one("token", "", `[A-Za-z0-9+/_-]+={0,2}`, diag.Redacted, opaque),
	}
})

// apply returns s without the matches of r, and their number.
func (r *redaction) apply(s string) (string, int) {
	lower := strings.ToLower(s)
	if !slices.ContainsFunc(r.marks, func(m string) bool { return strings.Contains(lower, m) }) {
		return s, 0
	}
	var out []byte
	from, n := 0, 0
	for _, m := range r.find.FindAllStringSubmatchIndex(s, -1) {
		if (r.only != nil && !r.only(s[m[0]:m[1]])) || (r.except != nil && r.except(s[m[3]:])) {
			continue
		}
		out = append(out, s[from:m[0]]...)
		out = r.find.ExpandString(out, r.with, s, m)
		from, n = m[1], n+1
	}
	if out = append(out, s[from:]...); n == 0 || string(out) == s { // or it was scrubbed before
		return s, 0
	}
	return string(out), n
}

// fileErrors are the system's errors about files, in lower case.
var fileErrors = [...]string{
	"permission denied", "operation not permitted", "no such file or directory", "not a directory", "is a directory",
	"read-only file system", "no space left on device", "input/output error", "too many open files", "file exists",
}

// beginsFileError reports whether s begins with one of fileErrors, as whole words.
func beginsFileError(s string) bool {
	for _, e := range fileErrors {
		if len(s) < len(e) || !strings.EqualFold(s[:len(e)], e) {
			continue
		}
		if rest := s[len(e):]; rest == "" || strings.IndexByte(wordEnds, rest[0]) >= 0 {
			return true
		}
	}
	return false
}

// isFileError reports whether the rest of the line s is one of fileErrors and nothing else.
func isFileError(s string) bool {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = s[:i]
	}
	s = strings.TrimRight(s, wordEnds)
	return slices.ContainsFunc(fileErrors[:], func(e string) bool { return strings.EqualFold(s, e) })
}

// wordEnds may follow an error in a sentence.
const wordEnds = " \t\r\n,;.:)]}\"'"

// shortestToken is the length from which a run of characters may be a token.
const shortestToken = 24

// opaque reports whether run is a token rather than a path, a host name or a UUID: it mixes upper case, lower case and
// digits, or is one long run with digits.
func opaque(run string) bool {
	if len(strings.TrimRight(run, "=")) < shortestToken {
		return false
	}
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
	return (upper && lower && digit) || (digit && longest >= 32)
}

// Text returns s without what looks like a secret: private keys, credentials in headers, query strings, and long
// random-looking runs. It is for texts of errors and messages; a value that is known to be secret is a diag.Secret and
// never gets here.
func Text(s string) string { return Counting(s, nil) }

// Counting is Scrub, and adds to counts the number of redactions of each rule; counts may be nil.
func Counting(s string, counts map[string]int) string {
	if s == "" {
		return s
	}
	for _, r := range redactions() {
		var n int
		if s, n = r.apply(s); n > 0 && counts != nil {
			counts[r.name] += n
		}
	}
	return s
}

// Clean is Text that also removes this request's own secrets, whatever they look like.
func Clean(req diag.Request, s string, more ...diag.Secret) string {
	return Text(Without(s, append(more, SecretsOf(req)...)...))
}

// SecretsOf lists the secrets of a request, including each value of a query.
func SecretsOf(req diag.Request) []diag.Secret {
	secrets := req.Secrets()
	values, _ := url.ParseQuery(req.Query.Reveal()) // what can be parsed of it
	for _, list := range values {
		for _, v := range list {
			secrets = append(secrets, diag.NewSecret(v))
		}
	}
	return secrets
}

// Without removes known values from s, in each form that a server may repeat.
func Without(s string, secrets ...diag.Secret) string {
	var known diag.Secrets
	known.Add(secrets...)
	return known.Remove(s)
}
