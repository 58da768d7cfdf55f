package clean_test

import (
	"bytes"
	"encoding/json"
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

// FuzzWriter: nothing hidden gets through, and a JSON document keeps its value.
func FuzzWriter(f *testing.F) {
	f.Add("\x1b[31mx\u202e\x9b", 3)
	f.Add("a\r\n\x00\U000e0001", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		doc, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range []string{text, string(doc)} {
			var b bytes.Buffer
			w := &clean.Writer{To: &b}
			at := min(max(cut, 0), len(in))
			_, _ = w.Write([]byte(in[:at]))
			_, _ = w.Write([]byte(in[at:]))
			_ = w.Flush()
			out := b.String()
			if !utf8.ValidString(out) ||
				strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && r != '\t' && clean.Hidden(r) }) {
				t.Errorf("%q became %q", in, out)
			}
			var was, is string
			if in == string(doc) && (json.Unmarshal(doc, &was) != nil || json.Unmarshal([]byte(out), &is) != nil || was != is) {
				t.Errorf("document %q became %q", in, out)
			}
		}
	})
}
