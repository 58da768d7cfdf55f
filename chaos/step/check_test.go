package step

import (
	"strings"
	"testing"
)

func TestAgainst(t *testing.T) {
	exec := Exec{Argv: []string{"/bin/x"}}
	long, full := strings.Repeat("ü ", 200), strings.Repeat("y", maxBrief)
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
		"has what it must":      {Check{Exec: exec, Has: "frozen"}, 0, "it is frozen", ""},
		"lacks what it must":    {Check{Exec: exec, Lacks: "frozen"}, 0, "it runs", ""},
		"says what it must not": {Check{Exec: exec, Lacks: "running"}, 0, "it is running", `says "running"`},
		"much":                  {Check{Exec: exec, Has: "x"}, 0, long, `..."`},
		"as much as is quoted":  {Check{Exec: exec, Has: "x"}, 0, full, `"` + full + `"`},
		"one byte more":         {Check{Exec: exec, Has: "x"}, 0, full + "y", `"` + full + `..."`},
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

// TestCheckLine: a plan says what is run, and what it must give if that is more than exit code 0.
func TestCheckLine(t *testing.T) {
	exec := Exec{Argv: []string{"/bin/x", "a b", "", "c"}}
	for want, c := range map[string]Check{
		`/bin/x "a b" "" c`:                          {Exec: exec},
		`/bin/x "a b" "" c -> prints "y"`:            {Exec: exec, Has: "y"},
		`/bin/x "a b" "" c -> does not print "n"`:    {Exec: exec, Lacks: "n"},
		`/bin/x -> exit code 7`:                      {Exec: Exec{Argv: []string{"/bin/x"}, Exits: []int{7}}},
		`/bin/x -> exit code 0 or 28, prints "y"`:    {Exec: Exec{Argv: []string{"/bin/x"}, Exits: []int{0, 28}}, Has: "y"},
		`/bin/x -> prints "y", does not print "n"`:   {Exec: Exec{Argv: []string{"/bin/x"}}, Has: "y", Lacks: "n"},
		`/bin/x "$a" "x;y" "a'b" -> prints "frozen"`: {Exec: Exec{Argv: []string{"/bin/x", "$a", "x;y", "a'b"}}, Has: "frozen"},
	} {
		if got := c.Line(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestMainPID: every place of the main process's pid is replaced, and the check itself stays as it is.
func TestMainPID(t *testing.T) {
	e := Exec{Argv: []string{"/bin/x", "/proc/{main-pid}/environ", "{main-pid}{main-pid}"}, Exits: []int{1}}
	if got := e.WithMainPID(42); strings.Join(got.Argv, " ") != "/bin/x /proc/42/environ 4242" || !got.Succeeded(1) ||
		!strings.Contains(e.Argv[1], MainPID) {
		t.Errorf("%q, of %q", got.Argv, e.Argv)
	}
}
