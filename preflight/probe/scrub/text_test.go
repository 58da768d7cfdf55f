package scrub

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// canary is a secret that must not stay in a text.
const canary = "Canary-7f3a9c2e5b8d4f60"

// shards are the pieces of the generated texts: the redactions' own marks, complete and broken, and surrounding text.
var shards = []string{
	"-----BEGIN EC PRIVATE KEY-----", "-----END EC PRIVATE KEY-----", "-----BEGIN ", "EC PRIVATE KEY", "PRIVATE KEY",
	"-----", "-----END ", "RSA", "CERTIFICATE", "proxy-", "Authorization", "authorization", "Set-Cookie", "cookie",
	"COOKIE", "Bearer", "bearer", "token", "Token", "secret", "password", "passwd", "api", "key", "api_key", "API-KEY",
	"_", "-", "x", "a1", "Z", ".", ":", "=", "\"", "'", " ", "  ", "\t", "\n", "\r\n", "\f", "\v", ",", ";", "[", "]", "&",
	"%", "?", "<", ">", "/", "@",
	"://", "https://", "git+ssh://", "http", "+", "user:pw", "eyJ", "eyJhbGci", "eyJhbGci.", "eyJhbGci.e30.", "é", "\xff",
	"abcdefghijklmnopqrstuvwx", "ABCDEFabcdef0123456789xyz", "0123456789abcdef0123456789abcdef", "==", "===", "node_id",
	"task-", "\u017f", "\u212a"}

// secretShapes each contain a secret that one redaction has to find.
var secretShapes = []string{
	"bearer." + canary, "Bearer " + canary, "https://h.test/p?token=" + canary, "bearer.." + canary,
	"Proxy-Authorization: Basic " + canary, `"authorization" : "Basic ` + canary + `"`, "Cookie\t=\t" + canary,
	"Set-Cookie: a=b; sid=" + canary + "; Path=/", "\xffAuthorization: " + canary,
	"X-Api-Key: " + canary, "API_KEY=" + canary, "db-password: " + canary, `{"client_secret" : "` + canary + `"}`,
	"PASSWD=" + canary, "NODE_A_TOKEN=" + canary, "to\u212aen=" + canary, "pa\u017f\u017fword: " + canary,
	"https://a:" + canary + "@h.test/", "git+ssh://" + canary + "@h.test", "/p?x=" + canary, "h.test/p?" + canary + "&a",
	"/p?a%20" + canary, "-----BEGIN PRIVATE KEY-----\n" + canary + "\n-----END PRIVATE KEY-----",
	"-----BEGIN OPENSSH PRIVATE KEY-----\n" + canary + "\n-----END",
	"-----BEGIN ENCRYPTED PRIVATE KEY-----" + canary + "-----END RSA PRIVATE KEY-----", "eyJhbGciOiJFZERTQSJ9." + canary,
	"eyJ" + canary + ".e30", "eyJhbGci.e30." + canary, canary + "X", "A/" + canary + "=="}

// TestNoShapeComesThrough: a secret in one of these forms is redacted whatever surrounds it, in a text and in a line of
// a log.
func TestNoShapeComesThrough(t *testing.T) {
	r, rounds := rand.New(rand.NewPCG(3, 4)), 150
	if testing.Short() { // the race detector's run is shorter: the code is the same
		rounds = 10
	}
	for _, shape := range secretShapes {
		if got := Text(shape); strings.Contains(got, canary) {
			t.Errorf("%q becomes %q", shape, got)
		}
		for range rounds {
			in := shardText(r) + " ; " + shape + " ; " + shardText(r)
			if got := Text(in); strings.Contains(got, canary) {
				t.Errorf("%q becomes %q", in, got)
			}
			if got := Line(in, nil); strings.Contains(got, canary) {
				t.Errorf("line %q becomes %q", in, got)
			}
		}
	}
}

// TestFileErrorsAreNoSecrets: the system's error about a file whose name looks like a field is kept, and only it.
func TestFileErrorsAreNoSecrets(t *testing.T) {
	for _, in := range []string{
		"bash: /etc/passwd: Permission denied", "open /etc/gpuaas/token: permission denied",
		"open /root/.gpuaas/cookie: no such file or directory", `"open /run/api_key: is a directory", retrying`,
		"cat: /etc/passwd: Permission denied\ncat: /srv/cookie: Permission denied\n",
	} {
		if got := Text(in); got != in {
			t.Errorf("%q becomes %q", in, got)
		}
	}
	for _, in := range []string{
		"cookie: permission denied; sid=" + canary, "password: permission denied" + canary,
		"secret: permission denied, password: " + canary,
		"cookie: permission denied\nauthorization: " + canary, "cookie: permission denied " + canary,
	} {
		if got := Text(in); strings.Contains(got, canary) {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

func shardText(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(12) {
		b.WriteString(shards[r.IntN(len(shards))])
	}
	return b.String()
}

// TestEachRedactionFinds: the shards combine to matches of every redaction.
func TestEachRedactionFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := map[string]int{}
	for range 10_000 {
		Counting(shardText(r), found)
	}
	for _, rule := range redactions() {
		if found[rule.name] < 20 {
			t.Errorf("%s found something %d times: the other tests of it prove little", rule.name, found[rule.name])
		}
	}
}

// FuzzMarks: a text that an expression matches has one of its marks, and so is never skipped.
func FuzzMarks(f *testing.F) {
	f.Add("x_token=abc; Cookie: a=b\nhttps://u:p@h/?a=b")
	for _, shape := range secretShapes {
		f.Add(shape)
	}
	f.Fuzz(func(t *testing.T, s string) {
		lower := strings.ToLower(s)
		for _, rule := range redactions() {
			marked := slices.ContainsFunc(rule.marks, func(m string) bool { return strings.Contains(lower, m) })
			if !marked && rule.find.MatchString(s) {
				t.Errorf("%s matches %q, which has none of %q", rule.name, s, rule.marks)
			}
		}
	})
}

// TestKeysByLines: a key that is logged line by line is redacted completely, even if another begins in the line that
// ends the first.
func TestKeysByLines(t *testing.T) {
	left, counts := 0, map[string]int{}
	for _, c := range []struct {
		line string
		left int
	}{
		{"-----BEGIN PRIVATE KEY----- a -----END PRIVATE KEY----- " + "-----BEGIN RSA PRIVATE KEY-----", keyLines},
		{canary, keyLines - 1},
		{"x -----END RSA PRIVATE KEY-----", 0},
		{"-----BEGIN EC PRIVATE KEY----- " + canary + " -----END EC PRIVATE KEY-----", 0},
		{"-----BEGIN CERTIFICATE-----", 0},
	} {
		var got string
		if got, left = scrubLine(c.line, left, counts); left != c.left || strings.Contains(got, canary) {
			t.Errorf("%q becomes %q, and %d lines of a key may follow, want %d", c.line, got, left, c.left)
		}
	}
}

// TestRedactionsAreLinear: an answer designed to be slow to scrub is not.
func TestRedactionsAreLinear(t *testing.T) {
	for i, piece := range []string{"a-", "a_", "a-token", "_token", "eyJ-", "eyJa-", "-----BEGIN ",
		"-----BEGIN PRIVATE KEY",
		"a://", "a+://", "x?", "?a", "cookie ", "bearer ", "token \"", "=a",
		"token=\"", "cookie:\n", "-----BEGIN PRIVATE KEY-----\n", "task-1 ", "node_id=", "node_id=a/"} {
		if testing.Short() && i%6 != 0 { // the race detector's run is shorter: the code is the same
			continue
		}
		s := strings.Repeat(piece, 1<<18/len(piece))
		began := time.Now()
		Text(s)
		hideIDs(s)
		if took := time.Since(began); took > time.Minute { // about 0.5 s, but hours if it were not linear
			t.Errorf("%q, %d bytes of it: %s", piece, len(s), took)
		}
	}
}
