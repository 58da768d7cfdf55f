package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unrecorded are rows that golden/ has no recording of, and why.
var unrecorded = map[string]string{
	"matrix clock_skew": "the lab's machines share their host's clock: its facts are literals in golden/matrix_test.go",
}

// names is a set of faults, drills or rows.
type names map[string]bool

// TestEveryFaultIsRecorded: what the lab injects has an expected verdict and a recording that is judged without a lab,
// and no recording is left that nothing makes. CONTRIBUTING.md, "Where a thing is tested", has the reason.
func TestEveryFaultIsRecorded(t *testing.T) {
	expected, injected, reports := names{}, names{}, filesIn(t, "golden/reports", ".json")
	delete(reports, "healthy") // by TestFaults, before it injects anything
	eachNode(t, "golden/expect.go", func(n ast.Node) {
		if pair, is := n.(*ast.KeyValueExpr); is {
			if key, is := pair.Key.(*ast.Ident); is && key.Name == "Name" {
				expected.add(pair.Value)
			}
		}
	})
	for _, file := range []string{"lab/e2e/faults_table_test.go", "lab/e2e/faults_cut_test.go"} {
		eachNode(t, file, injected.addKey)
	}
	same(t, "fault", 40, map[string]names{
		"golden/expect.go": expected, "lab/e2e/faults_*_test.go": injected, "golden/reports": reports})
	drills := filesIn(t, "scenarios", ".yaml")
	maps.Copy(drills, filesIn(t, "scenarios/lab", ".yaml")) // those that only the reference platform's lab can run
	same(t, "drill", 50, map[string]names{
		"scenarios": drills, "golden/drills": filesIn(t, "golden/drills", ".ndjson")})
}

// TestEveryRowOfTheMatrixIsRecorded: a row's recording is one of its own, or that of a fault, or a reason is named.
func TestEveryRowOfTheMatrixIsRecorded(t *testing.T) {
	made, own, without := names{}, names{}, names{}
	reports := filesIn(t, "golden/reports", ".json")
	eachNode(t, "golden/matrix.go", func(n ast.Node) {
		row, is := n.(*ast.CompositeLit)
		if !is || row.Type != nil {
			return
		}
		from, is := row.Elts[1].(*ast.CallExpr)
		if !is {
			without["matrix "+textOf(row.Elts[0])] = true
		} else if name := textOf(from.Args[0]); from.Fun.(*ast.Ident).Name == "lab" {
			own[name] = true
		} else if !reports[name] {
			t.Errorf("golden/matrix.go: golden/reports has no %s", name)
		}
	})
	eachNode(t, "lab/e2e/matrix_test.go", made.addKey)
	same(t, "row of the matrix", 15, map[string]names{
		"golden/matrix.go": own, "lab/e2e/matrix_test.go": made, "golden/matrix": filesIn(t, "golden/matrix", ".json")})
	reasons := names{}
	for row := range unrecorded {
		reasons[row] = true
	}
	same(t, "row without a recording", 0, map[string]names{"golden/matrix.go": without, "unrecorded": reasons})
}

// same reports names that not all of the places have, and places with less than least.
func same(t *testing.T, what string, least int, places map[string]names) {
	t.Helper()
	all := names{}
	for _, has := range places {
		maps.Copy(all, has)
	}
	for place, has := range places {
		if len(has) < least {
			t.Errorf("%s: %d times a %s, want at least %d", place, len(has), what, least)
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !has[name] {
				t.Errorf("%s lacks the %s %s, which another place has", place, what, name)
			}
		}
	}
}

// filesIn returns the names of a folder's files without their extension.
func filesIn(t *testing.T, folder, extension string) names {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("../..", folder, "*"+extension))
	if err != nil {
		t.Fatal(err)
	}
	in := names{}
	for _, path := range found {
		in[strings.TrimSuffix(filepath.Base(path), extension)] = true
	}
	return in
}

// eachNode visits the syntax of a file.
func eachNode(t *testing.T, name string, visit func(ast.Node)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", name), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool { visit(n); return true })
}

// addKey adds the key of a row of a map: in a literal, or where it is assigned.
func (s names) addKey(n ast.Node) {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		s.add(n.Key)
	case *ast.AssignStmt:
		if row, is := n.Lhs[0].(*ast.IndexExpr); is {
			s.add(row.Index)
		}
	}
}

// add adds the text of a string literal.
func (s names) add(n ast.Expr) {
	if text := textOf(n); text != "" {
		s[text] = true
	}
}

// textOf returns the text of a string literal, or "".
func textOf(n ast.Expr) string {
	literal, is := n.(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return text
}

// quarantined returns the tests that CONTRIBUTING.md lists in its section Quarantine, and what is wrong with the list.
func quarantined(text string, exists func(folder, test string) bool) (tests, wrong []string) {
	_, section, found := strings.Cut(text, "\n### Quarantine\n")
	if !found {
		return nil, []string{"CONTRIBUTING.md has no section Quarantine"}
	}
	section, _, _ = strings.Cut(section, "\n## ")
	_, table, found := strings.Cut(section, "\n|---|---|---|\n")
	if !found {
		return nil, []string{"the section Quarantine has no table"}
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 3 {
			continue
		}
		name := strings.Trim(strings.TrimSpace(cells[0]), "`")
		tests = append(tests, name)
		folder, test, _ := strings.Cut(name, " ")
		test, _, _ = strings.Cut(test, "/")
		if strings.TrimSpace(cells[1]) == "" || strings.TrimSpace(cells[2]) == "" {
			wrong = append(wrong, name+" is quarantined without what is known of it, or since when")
		}
		if !exists(folder, test) {
			wrong = append(wrong, name+" is quarantined, and there is no such test")
		}
	}
	return tests, wrong
}

// TestQuarantineNamesTests: every entry of CONTRIBUTING.md's list is a test, with what is known of it.
func TestQuarantineNamesTests(t *testing.T) {
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := func(folder, test string) bool {
		files, _ := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
		return slices.ContainsFunc(files, func(name string) bool {
			source, err := os.ReadFile(name)
			return err == nil && test != "" && strings.Contains(string(source), "\nfunc "+test+"(t *testing.T)")
		})
	}
	if _, wrong := quarantined(string(text), exists); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	const head = "\n### Quarantine\n\n| test | what is known | since |\n|---|---|---|\n"
	here := "| `tools/house TestQuarantineNamesTests/x` | slow | 2026-11-28 |\n"
	if tests, wrong := quarantined(head+here+"\n## Next\n", exists); len(tests) != 1 || len(wrong) > 0 {
		t.Errorf("a correct entry: %q, wrong %q", tests, wrong)
	}
	for _, entry := range []string{
		"| `tools/house TestNone` | slow | 2026-11-28 |\n", "| `tools/house TestQuarantineNamesTests` | | 2026-11-28 |\n"} {
		if _, wrong := quarantined(head+entry, exists); len(wrong) != 1 {
			t.Errorf("%s: %q", entry, wrong)
		}
	}
}
