package probe

import (
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// redactions take out what may be a secret, most specific first, and keep what is useful to read. Each is linear in the
// text, whatever the text is. They are code and not regular expressions because the node agent links no regexp: that
// package and the tables that it brings weigh more than all of the agent's own code, also in memory. The tests hold
// the expressions, and that both say the same.
var redactions = [...]redaction{privateKey, header, bearer, assigned, userinfo, query, jwt, token}

// redactionNames are their names, for those who say what was taken out.
var redactionNames = [...]string{"private_key", "header", "bearer", "assigned", "userinfo", "query", "jwt", "token"}

// redaction looks at or behind s[from:] for the first thing to take out: with stands for s[start:end] then. A start
// below zero says that there is nothing more.
type redaction func(s string, from int) (start, end int, with string)

// apply returns s without what r takes out, and how often that was.
func (r redaction) apply(s string) (string, int) {
	var out strings.Builder
	from, n := 0, 0
	for ; ; n++ {
		start, end, with := r(s, from)
		if start < 0 {
			break
		}
		out.WriteString(s[from:start])
		out.WriteString(with)
		from = end
	}
	if n == 0 {
		return s, 0
	}
	out.WriteString(s[from:])
	if out.String() == s { // taken out before
		return s, 0
	}
	return out.String(), n
}

// class is a set of bytes.
type class func(c byte) bool

func space(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' && c != '\v' }
func alphanum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
func word(c byte) bool       { return alphanum(c) || c == '_' }
func nameByte(c byte) bool   { return word(c) || c == '-' }
func runByte(c byte) bool    { return nameByte(c) || c == '+' || c == '/' }
func pemByte(c byte) bool    { return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || c == ' ' }
func schemeByte(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == '+' }
func lineByte(c byte) bool   { return c != '\r' && c != '\n' }
func urlByte(c byte) bool    { return !space(c) && c != '"' && c != '\'' && c != '<' && c != '>' }
func bearerByte(c byte) bool {
	return !space(c) && c != ',' && c != ';' && c != '"' && c != '\'' && c != '[' && c != ']'
}
func valueByte(c byte) bool { return bearerByte(c) && c != '&' }

// span is the end of the bytes in s[i:] that are all in the class.
func span(s string, i int, in class) int {
	for i < len(s) && in(s[i]) {
		i++
	}
	return i
}

// at reports whether a byte of the class stands at i.
func at(s string, i int, in class) bool { return i >= 0 && i < len(s) && in(s[i]) }

// hasFold reports whether s[i:] begins with want, a lower case word, in any case.
func hasFold(s string, i int, want string) bool {
	return len(s)-i >= len(want) && strings.EqualFold(s[i:i+len(want)], want) && ascii(s[i:i+len(want)])
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// privateKey is a PEM block of a private key, also one that was cut off.
func privateKey(s string, from int) (int, int, string) {
	start, end := pemLine(s, from, "-----BEGIN ")
	if start < 0 {
		return -1, 0, ""
	}
	if _, last := pemLine(s, end, "-----END "); last > 0 {
		return start, last, diag.Redacted
	}
	return start, len(s), diag.Redacted
}

// pemLine finds the line that begins or ends a private key.
func pemLine(s string, from int, mark string) (start, end int) {
	for {
		i := strings.Index(s[from:], mark)
		if i < 0 {
			return -1, 0
		}
		start = from + i
		label := span(s, start+len(mark), pemByte)
		if strings.HasSuffix(s[start+len(mark):label], "PRIVATE KEY") && strings.HasPrefix(s[label:], "-----") {
			return start, label + len("-----")
		}
		from = start + 1
	}
}

// header is the value of an Authorization, Cookie or Set-Cookie header, or of a field of that name: the whole line.
func header(s string, from int) (int, int, string) {
	for i := from; i < len(s); i++ {
		if at(s, i-1, word) {
			continue
		}
		for _, name := range [...]string{"authorization", "cookie"} {
			if !hasFold(s, i, name) {
				continue
			}
			colon := separator(s, i+len(name))
			if colon < 0 {
				continue
			}
			value := span(s, colon, space)
			for value > colon && !at(s, value, lineByte) {
				value-- // nothing but blanks: one of them is the value
			}
			if end := span(s, value, lineByte); end > value {
				return value, end, diag.Redacted
			}
		}
	}
	return -1, 0, ""
}

// separator is the end of a colon or equals sign that follows a name at i, quoted or not; -1 when there is none.
func separator(s string, i int) int {
	if i < len(s) && s[i] == '"' {
		i++
	}
	i = span(s, i, space)
	if i == len(s) || s[i] != ':' && s[i] != '=' {
		return -1
	}
	return i + 1
}

// bearer is what follows the word, as a header or as a subprotocol.
func bearer(s string, from int) (int, int, string) {
	const name = "bearer"
	for i := from; i < len(s); i++ {
		if at(s, i-1, word) || !hasFold(s, i, name) {
			continue
		}
		value := span(s, i+len(name), space)
		if value == i+len(name) {
			if value == len(s) || s[value] != '.' {
				continue
			}
			value++
		}
		if end := span(s, value, bearerByte); end > value {
			return i, end, name + s[i+len(name):value] + diag.Redacted
		}
	}
	return -1, 0, ""
}

// assigned is what is assigned to a name that ends in one of secretWords: token=..., "api_key": "...".
func assigned(s string, from int) (int, int, string) {
	for from < len(s) {
		name := from
		for name < len(s) && !nameByte(s[name]) {
			name++
		}
		end := span(s, name, nameByte)
		from = max(end, from+1)
		if !secretEnding(s[name:end]) {
			continue
		}
		value := separator(s, end)
		if value < 0 {
			continue
		}
		value = span(s, value, space)
		if value < len(s) && s[value] == '"' {
			value++
		}
		if last := span(s, value, valueByte); last > value {
			return value, last, diag.Redacted
		}
	}
	return -1, 0, ""
}

// secretWords are the last words of names whose values nobody should read.
var secretWords = [...]string{"token", "secret", "password", "passwd", "apikey", "api_key", "api-key"}

// secretEnding reports whether the name's last word, or last words, are one of secretWords: words are put together by
// one - or _ each.
func secretEnding(name string) bool {
	for _, w := range secretWords {
		i := len(name) - len(w)
		if i < 0 || !hasFold(name, i, w) {
			continue
		}
		for i > 0 && name[i-1] == '_' { // a name may not begin inside of a word, and an underscore is in one
			j := i - 1
			for j > 0 && alphanum(name[j-1]) {
				j--
			}
			if j == i-1 {
				break
			}
			i = j
		}
		if i == 0 || name[i-1] == '-' {
			return true
		}
	}
	return false
}

// userinfo is the login in a URL.
func userinfo(s string, from int) (int, int, string) {
	for i := from; ; {
		mark := strings.Index(s[i:], "://")
		if mark < 0 {
			return -1, 0, ""
		}
		mark += i
		i = mark + len("://")
		end := i
		for end < len(s) && urlLogin(s[end]) {
			end++
		}
		if end > i && end < len(s) && s[end] == '@' && hasScheme(s[from:mark], at(s, from-1, word)) {
			return i, end + 1, ""
		}
	}
}

func urlLogin(c byte) bool { return !space(c) && c != '/' && c != '@' && c != '"' && c != '\'' }

// hasScheme reports whether s ends in a URL's scheme; inWord, whether s begins inside of a word.
func hasScheme(s string, inWord bool) bool {
	for i := len(s) - 1; i >= 0 && schemeByte(s[i]); i-- {
		if 'a' <= s[i] && s[i] <= 'z' && (i > 0 && !word(s[i-1]) || i == 0 && !inWord) {
			return true
		}
	}
	return false
}

// query is a URL's query, or what looks like one.
func query(s string, from int) (int, int, string) {
	for i := from + 1; i < len(s); i++ {
		if s[i] != '?' || !urlByte(s[i-1]) || s[i-1] == '?' {
			continue
		}
		for j := i + 1; j < len(s) && urlByte(s[j]) && s[j] != '?'; j++ {
			if s[j] == '=' || s[j] == '&' || s[j] == '%' {
				return i + 1, span(s, j, urlByte), diag.Redacted
			}
		}
	}
	return -1, 0, ""
}

// jwt is a JSON web token.
func jwt(s string, from int) (int, int, string) {
	for i := from; i < len(s); i++ {
		if at(s, i-1, word) || !strings.HasPrefix(s[i:], "eyJ") {
			continue
		}
		head := span(s, i, nameByte)
		body := head
		if head < len(s) && s[head] == '.' {
			body = span(s, head+1, nameByte)
		}
		if head == i+len("eyJ") || body <= head+1 {
			i = head - 1 // no other start in this run has a better end
			continue
		}
		for body < len(s) && s[body] == '.' {
			body = span(s, body+1, nameByte)
		}
		return i, body, diag.Redacted
	}
	return -1, 0, ""
}

// token is a long run of characters that tokens are made of; opaque decides.
func token(s string, from int) (int, int, string) {
	const long = 24
	for i := from; i < len(s); i++ {
		end := span(s, i, runByte)
		if end-i < long {
			i = end
			continue
		}
		for range 2 {
			if end < len(s) && s[end] == '=' {
				end++
			}
		}
		if opaque(s[i:end]) {
			return i, end, diag.Redacted
		}
		i = end - 1
	}
	return -1, 0, ""
}
