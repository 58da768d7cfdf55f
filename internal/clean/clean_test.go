package clean_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// TestWriter: our own colours pass, everything else that a terminal interprets is shown as an escape.
func TestWriter(t *testing.T) {
	for _, tc := range []struct {
		in, plain, colour string
	}{
		{"plain\ttext\n", "plain\ttext\n", ""},
		{"\x1b[1;31mred\x1b[0m", `\u001b[1;31mred\u001b[0m`, "\x1b[1;31mred\x1b[0m"},
		{"\x1b[2mfaint\x1b[m", `\u001b[2mfaint\u001b[m`, "\x1b[2mfaint\x1b[m"},
		{"\x1b[8mhidden", `\u001b[8mhidden`, ""},
		{"\x1b[31;8mhidden", `\u001b[31;8mhidden`, ""},
		{"\x1b[41mback", `\u001b[41mback`, ""},
		{"\x1b[2J\x1b[H", `\u001b[2J\u001b[H`, ""},
		{"\x1b[31111111111111111111m", `\u001b[31111111111111111111m`, ""},
		{"\x1b]52;c;cHduZWQ=\x07", `\u001b]52;c;cHduZWQ=\u0007`, ""},
		{"\x1b]0;title\x1b\\", `\u001b]0;title\u001b\`, ""},
		{"\u009b31m c1", `\u009b31m c1`, ""},
		{"a\u202eb\u2066c\u200bd", `a\u202eb\u2066c\u200bd`, ""},
		{"over\rwrite", `over\u000dwrite`, ""},
		{"dos\r\nline\r\n", "dos\nline\n", ""},
		{"nul\x00bel\x07del\x7f", `nul\u0000bel\u0007del\u007f`, ""},
		{"bytes \x9b31m \xff", "bytes \ufffd31m \ufffd", ""},
		{"tag \U000e0041", `tag \udb40\udc41`, ""},
		{"grüße ✓ 日本", "grüße ✓ 日本", ""},
		{"\x1b", `\u001b`, ""}, {"\x1b[", `\u001b[`, ""}, {"\r", `\u000d`, ""}, {"\xe2\x82", "\ufffd\ufffd", ""},
	} {
		for _, colour := range []bool{false, true} {
			want := tc.plain
			if colour && tc.colour != "" {
				want = tc.colour
			}
			for size := 1; size <= len(tc.in); size++ { // however it is split into writes
				var b bytes.Buffer
				w := &clean.Writer{To: &b, Colour: colour}
				for rest := tc.in; rest != ""; {
					n, err := w.Write([]byte(rest[:min(size, len(rest))]))
					if err != nil || n != min(size, len(rest)) {
						t.Fatalf("%q: %d %v", tc.in, n, err)
					}
					rest = rest[n:]
				}
				if err := w.Flush(); err != nil || b.String() != want {
					t.Errorf("%q by %d, colour %v: %q, want %q", tc.in, size, colour, b.String(), want)
				}
			}
		}
	}
}

// commands are what CI systems execute: see runner.go.
var commands = regexp.MustCompile(`(?m)^\s*::[^\s\d]|##[\pL\pN._-]*\[`)

// TestCommandsToCI: no split of a text between writes, empty ones included, lets a command through, and JSON keeps its
// value.
func TestCommandsToCI(t *testing.T) {
	for in, want := range map[string]string{
		"##vso[task.setvariable variable=PATH]/evil": `##vso\u005btask.setvariable variable=PATH]/evil`,
		"a ##VSO[x]":           `a ##VSO\u005bx]`,
		"##teamcity[x]":        `##teamcity\u005bx]`,
		"##[error]x":           `##\u005berror]x`,
		"####a.b_c-d2[x":       `####a.b_c-d2\u005bx`,
		"#\u034f#vs\u034fo[x":  "#\u034f#vs\u034fo\\u005bx",
		"::error::x":           ":: error::x",
		"ok\n \t::add-mask::x": "ok\n \t:: add-mask::x",
		"\u00a0::error::x":     "\u00a0:: error::x",
		"a\r\n::error::x":      "a\n:: error::x",
		"::1 localhost\n::":    "::1 localhost\n::",
		"a ::b # [c] #d[e] ## [f] ##\"[g] ::\n:a": "a ::b # [c] #d[e] ## [f] ##\"[g] ::\n:a",
		"\x1b[31m##\x1b[0m[x":                     "\x1b[31m##\x1b[0m[x",
	} {
		for first := range len(in) + 1 {
			for second := first; second <= len(in); second++ {
				if got := written(&clean.Writer{Colour: true}, in[:first], "", in[first:second], "", in[second:]); got != want {
					t.Fatalf("%q cut at %d and %d: %q, want %q", in, first, second, got, want)
				}
			}
		}
	}
	doc := map[string][]string{"##vso[": {"##[", "::x::"}, "##": {"##a", "[b"}}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var again map[string][]string
	text = clean.JSON(text)
	if json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(doc, again) || commands.Match(text) {
		t.Errorf("as JSON: %s", text)
	}
}

// written is what w makes of pieces.
func written(w *clean.Writer, pieces ...string) string {
	var b bytes.Buffer
	w.To = &b
	for _, p := range pieces {
		_, _ = w.Write([]byte(p))
	}
	_ = w.Flush()
	return b.String()
}

// FuzzWriter: nothing hidden gets through, nor a command to a CI system; splits change nothing, and a JSON document
// keeps its value.
func FuzzWriter(f *testing.F) {
	f.Add("\x1b[31mx\u202e\x9b", 3)
	f.Add("a\r\n\x00\U000e0001", 1)
	f.Add("\xf3", 8) // the second write is empty, and the first is held
	f.Add("\x1b]52;c;cHduZWQ=\x1b\\", 1)
	f.Add("##vso[x]\n ::y::z", 4)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		doc, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range []string{text, string(doc)} {
			at := min(max(cut, 0), len(in))
			out := written(&clean.Writer{}, in[:at], "", in[at:], "")
			if !utf8.ValidString(out) || commands.MatchString(out) ||
				strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && r != '\t' && clean.Hidden(r) }) {
				t.Errorf("%q became %q", in, out)
			}
			if whole := written(&clean.Writer{}, in); out != whole {
				t.Errorf("%q cut at %d became %q, and whole %q", in, at, out, whole)
			}
			var was, is string
			if in == string(doc) && (json.Unmarshal(doc, &was) != nil || json.Unmarshal([]byte(out), &is) != nil || was != is) {
				t.Errorf("document %q became %q", in, out)
			}
		}
	})
}
