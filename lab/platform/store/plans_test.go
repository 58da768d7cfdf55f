package store

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// small are the tables with one row for each node or allocation: no walk and no fault adds to them.
var small = []string{"nodes", "allocations", "boots", "gpu_nodes", "gpu_policy"}

// reads lists the query plans that read more of a growing table than they need, by table, and what bounds them.
var reads = map[string]string{
	"SEARCH tasks USING INDEX tasks_open (status=?)":               "asked of open tasks only, and those expire",
	"SEARCH tasks USING INDEX tasks_open (status=? AND node_id=?)": "as above",
	"SEARCH challenges USING INDEX challenges_node (node_id=?)":    "maxLinks and maxBeginning, by forgetLinks",
	"SEARCH instances USING PRIMARY KEY (node_id=?)": "MaxInstances, and the fenced ones, which are " +
		"decisions",
	"SEARCH f USING PRIMARY KEY (node_id=?)":                         "the same table",
	"SEARCH certs USING INDEX certs_node (node_id=?)":                "at a decision on identity only",
	"SEARCH evidence USING INDEX evidence_notices (allocation_id=?)": "the newest, in an index of nothing else",
	"SEARCH operations USING INDEX operations_task (task_id=?)":      "a task has one",

	"SEARCH gpu_events USING PRIMARY KEY (node_id=?)": "MaxGPUEvents, and what a node may send in an hour",
	"SCAN gpu_events": "the same, once an hour",

	"SCAN audit_open":                   "MaxOpenFailures, once an hour",
	"SCAN events":                       "MaxEvents, once an hour",
	"SCAN events USING INDEX events_at": "as above",
	"SCAN instances":                    "MaxInstances, once an hour",
	"SCAN i":                            "the same table",
	"SCAN watermarks":                   "one for each instance, once an hour",
	"SCAN audit":                        "MaxFailureRows, once an hour",
}

// TestNoStatementScans gets SQLite's query plan of each statement of this package: none scans a growing table, or
// all of one node's rows without a bound.
func TestNoStatementScans(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "platform.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found, used := 0, map[string]bool{}
	for where, query := range statements(t) {
		found++
		for _, line := range plan(t, s, where, query) {
			why := wide(line, query)
			if why == "" {
				continue
			}
			if used[line] = true; reads[line] == "" {
				t.Errorf("%s: %s: %s\n\t%s", where, why, line, strings.Join(strings.Fields(query), " "))
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d statements were found", found)
	}
	for line := range reads {
		if !used[line] {
			t.Errorf("no statement has the plan %q any more", line)
		}
	}
}

// plan returns SQLite's query plan of a statement, in parts.
func plan(t *testing.T, s *Store, where, query string) (lines []string) {
	t.Helper()
	n := strings.Count(query, "?")
	if numbered := regexp.MustCompile(`\?\d+`).FindAllString(query, -1); len(numbered) > 0 {
		slices.Sort(numbered)
		n = len(slices.Compact(numbered))
	}
	rows, err := s.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, make([]any, n)...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", where, err, query)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var line string
		if err := rows.Scan(&id, &parent, &unused, &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// wide returns why a part of a query plan reads more rows the longer a platform runs, or "".
func wide(line, query string) string {
	part := regexp.MustCompile(`^(SCAN|SEARCH) (\w+)(?: .*\((.*)\))?`).FindStringSubmatch(line)
	switch {
	case part == nil, line == "SCAN CONSTANT ROW", slices.Contains(small, part[2]):
		return ""
	case part[1] == "SCAN":
		return "reads the whole table"
	}
	columns := strings.Split(part[3], " AND ")
	owner := regexp.MustCompile(`^(node_id|allocation_id|correlation_id|session_id|task_id|kind|status|via)=\?$`)
	if slices.ContainsFunc(columns, func(c string) bool { return !owner.MatchString(c) }) {
		return ""
	}
	// The newest few of an owner, in the order of the index: it ends early, unless it asks for more than the owner.
	for _, first := range regexp.MustCompile(`WHERE ([^()]*?)(?: ORDER BY [^()]*)? LIMIT`).
		FindAllStringSubmatch(query, -1) {
		if len(strings.Split(first[1], " AND ")) == len(columns) {
			return ""
		}
	}
	return "reads all rows of one owner"
}

// statements returns the SQL statements in the package's source, by their places. A statement that is assembled at
// run time cannot be analyzed, and is an error.
func statements(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set, files := token.NewFileSet(), []*ast.File(nil)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "schema.go" {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	cfg := types.Config{Error: func(error) {}, Importer: nothing{}} // constant strings need no imports
	_, _ = cfg.Check("store", set, files, info)
	found, verb := map[string]string{}, regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s`)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST { // looked at where it is used
				return false
			}
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			where := set.Position(e.Pos()).String()
			v := info.Types[e].Value
			if sum, ok := e.(*ast.BinaryExpr); ok && v == nil {
				if left := info.Types[sum.X].Value; left != nil && left.Kind() == constant.String &&
					verb.MatchString(constant.StringVal(left)) {
					t.Errorf("%s: a statement that is put together at run time", where)
				}
			}
			if v == nil || v.Kind() != constant.String {
				return true
			}
			if text := constant.StringVal(v); verb.MatchString(text) {
				found[where] = text
			}
			return false
		})
	}
	return found
}

// nothing is an importer without packages.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	return nil, errors.New("not needed: " + path)
}
