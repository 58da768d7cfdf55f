package step

import (
	"strings"
	"testing"
)

func TestAgainst(t *testing.T) {
	exec := Exec{Argv: []string{"/bin/x"}}
	long := strings.Repeat("ü ", 200)
	for name, tc := range map[string]struct {
		check   Check
		code    int
		printed string
		want    string // part of it; "" = it holds
	}{
		"holds":                 {Check{Exec: exec}, 0, "whatever", ""},
		"wanted code":           {Check{Exec: Exec{Argv: exec.Argv, Exits: []int{28}}}, 28, "", ""},
		"code":                  {Check{Exec: exec}, 7, "no\nroute", "/bin/x: exit code 7: no route"},
		"code, and silence":     {Check{Exec: exec}, 7, "\n", "/bin/x: exit code 7"},
		"0 is not wanted":       {Check{Exec: Exec{Argv: exec.Argv, Exits: []int{28}}}, 0, "", "exit code 0"},
		"lacks what it has":     {Check{Exec: exec, Has: "frozen"}, 0, "running", `does not say "frozen" but "running"`},
		"says what it must not": {Check{Exec: exec, Lacks: "running"}, 0, "it is running", `says "running"`},
		"much":                  {Check{Exec: exec, Has: "x"}, 0, long, `..."`},
	} {
		got := tc.check.Against(tc.code, tc.printed)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) || len(got) > 300 {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestAgainstTellsNoSecret: a tool's output is quoted without keys and tokens, even truncated or multi-line ones.
func TestAgainstTellsNoSecret(t *testing.T) {
	const canary = "c4n4ry"
	for _, printed := range []string{
		"-----BEGIN PRIVATE KEY-----\n" + canary + "\n" + strings.Repeat("x", 500) + "\n-----END PRIVATE KEY-----\n",
		"a\n-----BEGIN EC PRIVATE KEY-----\n" + canary, "Authorization: Bearer " + canary,
		"GPUAAS_ENROLLMENT_TOKEN=" + canary, `{"password": "` + canary + `"}`, "requirepass secret: " + canary,
		"eyJ" + canary + ".x.y",
	} {
		for _, c := range []Check{{Has: "y"}, {}} {
			if got := c.Against(1, "seen "+printed); strings.Contains(got, canary) || !strings.Contains(got, "seen") {
				t.Errorf("%q", got)
			}
		}
	}
}
