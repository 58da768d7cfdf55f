package scrub

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

func TestScrub(t *testing.T) {
	jwt := "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhbGxvYy0wMSJ9.c2lnbmF0dXJl"
	for in, want := range map[string]string{
		"offered gpuaas.terminal.v1, bearer." + canary: "offered gpuaas.terminal.v1, bearer." +
			diag.Redacted,
		"Authorization: Bearer " + canary: "Authorization: " + diag.Redacted,
		"got Bearer " + canary + " twice": "got bearer " + diag.Redacted + " twice",
		"Set-Cookie: sid=" + canary + "; Path=/\nnext": "Set-Cookie: " + diag.Redacted +
			"\nnext",
		`Get "https://api.test/x?token=` + canary + `&y=1": EOF`: `Get "https://api.test/x?` +
			diag.Redacted + `": EOF`,
		"https://user:" + canary + "@api.test/x": "https://api.test/x",
		`{"token":"` + canary + `","id":"a"}`: `{"token":"` + diag.Redacted +
			`","id":"a"}`,
		"GPUAAS_ENROLLMENT_TOKEN=" + canary: "GPUAAS_ENROLLMENT_TOKEN=" +
			diag.Redacted,
		"key -----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY----- end": "key " + diag.Redacted + " end",
		"half a key -----BEGIN PRIVATE KEY-----\nabc":                               "half a key " + diag.Redacted,
		"session " + jwt + " is over":                                               "session " + diag.Redacted + " is over",
		"digest 0123456789abcdef0123456789abcdef":                                   "digest " + diag.Redacted,
		"key Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==":                                      "key " + diag.Redacted,
		"Authorization:\r\n Basic " + canary:                                        "Authorization:\r\n " + diag.Redacted,
		"BEARER\t\n" + canary + " x":                                                "bearer\t\n" + diag.Redacted + " x",
		// Text that people need is kept.
		"dial tcp 10.231.77.11:443: connect: connection refused": "dial tcp 10.231.77.11:443: " +
			"connect: connection refused",
		"/internal/v1/nodes/compute-node-01/tasks/wait": "/internal/v1/nodes/compute-node-01/tasks/wait",
		"session 0190b6c1-1f2e-7c3a-9d4b-5e6f7a8b9c0d not " +
			"found": "session 0190b6c1-1f2e-7c3a-9d4b-5e6f7a8b9c0d not found",
		"x509: certificate is valid for alloc-01.apps.gpuaas.test, not api.gpuaas.test": "x509: certificate is valid for " +
			"alloc-01.apps.gpuaas.test, not api.gpuaas.test",
		"is it there? yes":      "is it there? yes",
		"the token has expired": "the token has expired",
		"open /etc/gpuaas/generations/current/cert.pem: no such file or " +
			"directory": "open /etc/gpuaas/generations/current/cert.pem: no such file or directory",
	} {
		got := Text(in)
		if got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
		if again := Text(got); again != got {
			t.Errorf("not stable: %q becomes %q", got, again)
		}
	}
}

func TestCleanKnowsItsSecrets(t *testing.T) {
	req := diag.Request{Token: diag.NewSecret("plainword"), Cookie: diag.NewSecret("abc")}
	if got := Clean(req, "said plainword, abc and kept one", diag.NewSecret("kept one")); got != "said "+diag.Redacted+
		", abc and "+diag.Redacted {
		t.Errorf("got %q", got)
	}
}

// FuzzScrub: whatever surrounds it, a secret in one of these forms is removed.
func FuzzScrub(f *testing.F) {
	f.Add("connect to ", " failed")
	f.Add("Authorization", "?x=1")
	f.Add("-----BEGIN PRIVATE KEY-----", "\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, "7f3a9c2e") {
			t.Skip()
		}
		for _, shape := range []string{
			"bearer." + canary, "Bearer " + canary, "https://h.test/p?token=" + canary,
			"-----BEGIN PRIVATE KEY-----\n" + canary + "\n-----END PRIVATE KEY-----",
			"eyJhbGciOiJFZERTQSJ9." + strings.ReplaceAll(canary, "-", "") + ".x",
		} {
			in := before + " " + shape + " " + after
			if got := Text(in); strings.Contains(got, "7f3a9c2e") {
				t.Errorf("%q comes through as %q", in, got)
			}
		}
	})
}
