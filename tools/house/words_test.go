package house

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unwanted are words that a reader would have to translate, with replacements. They must not occur in comments and
// strings of Go files, in YAML, and in Markdown. Wire names, such as the claim "told", are ids and not texts; no
// expression in the list matches one.
var unwanted = []struct{ form, instead string }{
	{`\banew\b`, "again, or the verb with re-: reimaged, restarted"},
	{`\bwhoever\b`, "who it is: the caller, the owner, a reader"},
	{`\bof before\b`, "previous, earlier, old"},
	{`\bnobody knows\b`, "unknown, not known"},
	{`\b(put|puts|putting)( \w+)? back\b`, "revert, restore"},
	{`\bplain tools?\b`, "independent probe, standard tool, or its name"},
	{`\b(takes?|taken|took|taking)( \w+)? away\b`, "remove"},
	{`\bwhole again\b`, "complete, restored"},
	{`\bo[fn] its own accord\b`, "by itself"},
	{`, be it\b`, "whether, also"},
	{`\bcannot be had\b`, "is not supported, not available, not reached"},
	{`\blook(s|ed)? after\b`, "what is done: check, revert"},
	{`\b(stands?|stood)\b`, "is; only X stands for Y is left"},
	{`\btold\b`, "reported, shown, written, asked; only told apart is left"},
	{`\bheed`, "watch, wait for"},
	{`\bnothing spoke against\b`, "preconditions met"},
	{`\bbooks?\b`, "game day, table, what the platform has"},
	{`\bwitness`, "source"},
}

// asWritten are texts that stay, and why.
var asWritten = map[string]string{
	"--book": "a flag", "|book|": "an argument", `"book"`: "a flag", `"books"`: "a flag, a folder", "`book`": "a field", `"book,`: "a field",
	"books/": "a folder", "chaos-book": "the name of a schema", "schema book": "an argument",
	"told apart": "plain English", "stands for": "plain English", "stand for": "plain English",
	"stand-in":                      "plain English",
	"a CA that nobody knows":        "the name in the certificate of drills, which a drill's probe looks for",
	"the watchdog was told to stop": "in journals of machines and recordings",
	"the platform was told that":    "a line of recorded runs",
	"watchdog-told-to-stop":         "the name of a recording", "`told`": "an id", "id: told": "an id",
}

// TestWords: see unwanted.
func TestWords(t *testing.T) {
	forms := make([]*regexp.Regexp, len(unwanted))
	for i, u := range unwanted {
		forms[i] = regexp.MustCompile("(?i)" + u.form)
	}
	used := map[string]bool{}
	check := func(where func(line int) (string, int), text string) {
		for keep := range asWritten {
			if strings.Contains(text, keep) {
				used[keep] = true
				text = strings.ReplaceAll(text, keep, "")
			}
		}
		for i, form := range forms {
			for _, at := range form.FindAllStringIndex(text, -1) {
				file, line := where(strings.Count(text[:at[0]], "\n"))
				t.Errorf("%s:%d: %q: write %s", file, line, text[at[0]:at[1]], unwanted[i].instead)
			}
		}
	}
	eachFile(t, func(rel string, file *ast.File, lineOf func(ast.Node) int) {
		if rel == "tools/house/words_test.go" {
			return
		}
		at := func(n ast.Node) func(int) (string, int) {
			return func(line int) (string, int) { return rel, lineOf(n) + line }
		}
		for _, c := range file.Comments {
			check(at(c), c.Text())
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if field, is := n.(*ast.Field); is && field.Tag != nil {
				check(at(field.Tag), field.Tag.Value)
				return false
			}
			if s, is := n.(*ast.BasicLit); is && s.Kind == token.STRING {
				check(at(s), s.Value)
			}
			return true
		})
	})
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || rel == "shared") {
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(path); ext != ".md" && ext != ".yaml" {
			return nil
		}
		text, err := os.ReadFile(path)
		check(func(line int) (string, int) { return filepath.ToSlash(rel), line + 1 }, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for keep, why := range asWritten {
		if !used[keep] {
			t.Errorf("%q is written nowhere any more (%s)", keep, why)
		}
	}
}
