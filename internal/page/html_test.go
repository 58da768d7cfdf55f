package page

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/tools/testkit/html5"
)

// everyBlock returns a page with each kind of block, and text in every place that takes one.
func everyBlock(text string) []Block {
	fields := Fields{
		{Text: text}, {Label: text, Lead: text, Text: text, Style: Bad, Command: text}, {Command: text}, {Label: text},
	}
	table := Table{
		Columns: []Column{{Title: text, Right: true}, {Title: text, Drop: 1}, {}},
		Rows: []Row{
			{Cells: []Cell{{text, Plain}, {text, Faint}, {text, Strong}, {text, Bad}}},
			{Cells: []Cell{{text, Good}, {}, {}}, Below: []Block{
				Para{Lead: text, Text: text, Style: Warning}, fields, Steps{Label: "", Texts: []string{text}},
				Table{Rows: []Row{Cells(text)}}, Code(text)}},
		},
	}
	all := []Block{
		Heading{Text: text, Style: Bad}, Heading{Text: text, Level: 3}, Para{Lead: text, Text: text, Style: Unsure}, Para{},
		Line{{text, Good}, {text, Plain}}, Blank{}, fields, Fields{},
		Steps{Label: text, First: 3, Texts: []string{text, "a `" + text + "` b"}}, Steps{}, table, Code(text + "\n" + text),
	}
	return append(all, Fold{Title: text, Blocks: all[1:], Open: true}, Fold{Title: text})
}

// TestHTMLIsTextAlone: a page shows any text only as text: no element, no attribute, and no character that changes the
// direction of writing.
func TestHTMLIsTextAlone(t *testing.T) {
	for _, text := range []string{
		"plain", "", " ", "`", "-->", "<!--", "&lt;", "&#x202e;", "größe 長",
		`"><script>alert(1)</script>`, `' onmouseover='alert(1)`, `" data-x="`, "</title><script>alert(1)</script>",
		"</style><img src=x onerror=alert(1)>", "</main></td></table>", "a\u202eb\u2066c", "\u009b31m\x1b[31m",
		"\x00\ufffe\xff", "javascript:alert(1)", "{{.}}", "`a` <b>`c`",
	} {
		got := HTML(everyBlock(text)...)
		if err := html5.Check(got); err != nil {
			t.Errorf("%q: %v\n%s", text, err, got)
		}
		if i := strings.IndexFunc(string(got), func(r rune) bool { return r != '\n' && clean.Hidden(r) }); i >= 0 {
			t.Errorf("%q: a hidden rune is left at %q", text, got[i:min(len(got), i+20)])
		}
		want := strings.Join(strings.Fields(Clean(text)), " ")
		if read := html5.Text(got); want != "" && strings.Count(read, want) < 20 {
			t.Errorf("%q: a reader sees %q", text, read)
		}
	}
}

// TestStatusInHTMLNeedsNoColour: a status is its symbol and its word; the class adds the colour.
func TestStatusInHTMLNeedsNoColour(t *testing.T) {
	for _, st := range diag.Statuses {
		got := html5.Text(HTML(Table{Rows: []Row{{Cells: []Cell{Status(st)}}}}))
		if want := st.Symbol() + " " + st.Words(); got != want {
			t.Errorf("%s is shown as %q, want %q", st, got, want)
		}
	}
}

// leastContrast is the contrast that WCAG 2 requires for text at level AA.
const leastContrast = 4.5

// TestColoursCanBeRead: in both themes, every text colour has enough contrast to every background.
func TestColoursCanBeRead(t *testing.T) {
	light, dark, ok := strings.Cut(htmlStyle, "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("there is no dark theme")
	}
	colour := regexp.MustCompile(`--([a-z]+): #([0-9a-f]{6});`)
	var names int
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range colour.FindAllStringSubmatch(css, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		if names += len(colours); names%len(colours) != 0 || len(colours) < 9 {
			t.Fatalf("%s has %d colours", theme, len(colours))
		}
		for _, text := range []string{"text", "faint", "good", "warning", "bad", "unsure"} {
			for _, ground := range []string{"page", "box"} {
				a, b := colours[text], colours[ground]
				if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); got < leastContrast {
					t.Errorf("%s: %s on %s has a contrast of %.1f, want %.1f", theme, text, ground, got, leastContrast)
				}
			}
		}
	}
	for st, class := range htmlClasses {
		if class != "" && !strings.Contains(htmlStyle, "."+class+" ") {
			t.Errorf("style %d has no rule .%s", st, class)
		}
	}
}

// luminance is the relative luminance of a colour in sRGB.
func luminance(t *testing.T, hex string) (sum float64) {
	t.Helper()
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// TestALongPageStaysWhole: HTML has no size limit, so nothing is cut.
func TestALongPageStaysWhole(t *testing.T) {
	var f Fields
	for i := range 4_000 {
		f = append(f, Field{Label: fmt.Sprintf("fact-%d", i), Text: strings.Repeat("x ", 40)})
	}
	got := HTML(f)
	if !strings.Contains(string(got), "fact-3999") || html5.Check(got) != nil {
		t.Errorf("%d bytes, %v", len(got), html5.Check(got))
	}
}
