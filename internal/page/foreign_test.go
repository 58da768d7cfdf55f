package page

import (
	"encoding/xml"
	"html"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// live matches what a site makes a link of, or a notification, in the text of Markdown after escapes and outside of
// code; and at the start of a line a command or a block.
var live = regexp.MustCompile(`(?i)@[\w-]|://|www\.|#\d|gh-\d|!\d|(?m)^([/#+=_]|[-:] )|^::`)

// commands match what a CI system executes.
var commands = regexp.MustCompile(`(?m)^\s*::[^\s\d]|##[\w.-]*\[`)

// foreign are texts of a node that a site or a CI system would act on.
var foreign = []string{
	"@octocat please", "ask (@org/team)", "https://evil.test/x", "HTTP://evil.test", "ftp://evil.test", "www.evil.test",
	"see WWW.evil.test", "a@evil.test", "mailto:a@evil.test", "xmpp:a@evil.test/r", "fixes #12", "org/repo#12", "GH-12",
	"gh-7", "!34", "/close", "/assign @x", "# head", "+ item", "- item", "===", "::error::x", "__x__",
	"##vso[task.complete]", "see ##[error]x", "###teamcity[x]", "\u00a0::error::x", `a\@b`, "`@octocat`|https://evil.test",
	"#\u200b#vso[x]", "h\u200bttps://evil.test",
}

// blocks has the text everywhere that a page has foreign text.
func blocks(s string) []Block {
	return []Block{
		Heading{Text: s}, Para{Text: s}, Para{Lead: s, Text: s}, Line{{Text: s}},
		Fields{{Label: s, Lead: s, Text: s, Command: s}, {Text: s}},
		Steps{Label: s, Texts: []string{s, "run `" + s + "` " + s}},
		Table{Columns: []Column{{Title: s}}, Rows: []Row{Cells(s), {Cells: []Cell{{Text: s, Style: Strong}}}}},
		Fold{Title: s, Blocks: []Block{Para{Text: s}}},
	}
}

// TestForeignTextIsDeadInMarkdown: no site makes a link, a notification, a block or a command of text from elsewhere,
// and a reader sees the text.
func TestForeignTextIsDeadInMarkdown(t *testing.T) {
	starts := regexp.MustCompile(`(?m)^(## | *- |\d+\. )`) // of our own lines
	spans := regexp.MustCompile("`[^`\n]*`")
	escape := regexp.MustCompile(`\\([!-/:-@\[-` + "`" + `{-~])`)
	for _, s := range foreign {
		text := string(Markdown(blocks(s)...))
		if muted := string(clean.Inert([]byte(text))); commands.MatchString(text) || muted != text {
			t.Errorf("%q is a command to a CI system in\n%s", s, text)
		}
		outside := spans.ReplaceAllString(text, "")
		if m := live.FindString(html.UnescapeString(starts.ReplaceAllString(outside, "x "))); m != "" {
			t.Errorf("%q is live by %q in\n%s", s, m, outside)
		}
		seen := escape.ReplaceAllString(html.UnescapeString(text), "$1")
		if want := Clean(s); !strings.Contains(strings.ReplaceAll(seen, "\u200b", ""), want) {
			t.Errorf("%q is not seen in\n%s", want, text)
		}
	}
}

// TestForeignTextCommandsNothingAsHTML: a page in a log commands no CI system, and keeps its text.
func TestForeignTextCommandsNothingAsHTML(t *testing.T) {
	for _, s := range foreign {
		text := string(HTML(append(blocks(s), Code(s+"\n"+s))...))
		if muted := string(clean.Inert([]byte(text))); commands.MatchString(text) || muted != text {
			t.Errorf("%q is a command to a CI system in\n%s", s, text)
		}
		body := text[strings.Index(text, "<body>"):]
		body = strings.ReplaceAll(body, "</html>", "")
		d := xml.NewDecoder(strings.NewReader(body))
		d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
		seen := ""
		for {
			token, err := d.Token()
			if err != nil {
				if err != io.EOF {
					t.Fatal(err)
				}
				break
			}
			if c, ok := token.(xml.CharData); ok {
				seen += string(c)
			}
		}
		if !strings.Contains(seen, strings.TrimSpace(Clean(s))) {
			t.Errorf("%q is not seen in\n%s", s, seen)
		}
	}
}
