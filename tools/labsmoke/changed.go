package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// changedFiles asks git which files of the work tree differ from the commit before the last `commits` ones. A file that
// was only moved, and one in which only imports, comments or blank lines differ, has not changed. The lines of tables
// count as their entries: path#name. An error is why git does not know.
func changedFiles(ctx context.Context, root string, commits int) (map[string]bool, error) {
	base, err := git(ctx, root, "rev-parse", "--verify", "--quiet", fmt.Sprintf("HEAD~%d^{commit}", commits))
	if err != nil {
		return nil, fmt.Errorf("the history here has no %d commits", commits)
	}
	diff, err := git(ctx, root, "-c", "core.quotePath=false", "diff", "-M", "-l5000", "-U0", "-w", "--no-color",
		"--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", strings.TrimSpace(base))
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for file, lines := range changedLines(diff) {
		changed[file] = true
		for _, table := range tables {
			if file != table {
				continue
			}
			names, err := entriesAt(filepath.Join(root, file), lines)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				changed[file+"#"+name] = true
			}
		}
	}
	return changed, nil
}

func git(ctx context.Context, root string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", argv...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", argv[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}

var (
	hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

	// lines that change nothing of what a program does
	idleGo   = regexp.MustCompile(`^\s*(//.*|package \w+|import \(|import .*"|\)|([\w.]+ )?"[\w./-]+"( //.*)?)?$`)
	idleYAML = regexp.MustCompile(`^\s*(#.*)?$`)
)

// changedLines returns the new numbers of the lines that differ, by file. Where lines were only removed, it is the
// number of the line before.
func changedLines(diff string) map[string][]int {
	changed := map[string][]int{}
	var file, from string
	at := 0
	header := true
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "diff --git "):
			file, from, header = "", "", true
		case header && strings.HasPrefix(line, "--- "):
			from, _ = strings.CutPrefix(strings.TrimPrefix(line, "--- "), "a/")
		case header && strings.HasPrefix(line, "+++ "):
			file, _ = strings.CutPrefix(strings.TrimPrefix(line, "+++ "), "b/")
			if file == "/dev/null" {
				file = from
			}
		case strings.HasPrefix(line, "@@ "):
			header = false
			if m := hunk.FindStringSubmatch(line); m != nil {
				at, _ = strconv.Atoi(m[1])
			}
		case header || line == "" || (line[0] != '+' && line[0] != '-'):
		default:
			if !idle(file, line[1:]) {
				changed[file] = append(changed[file], at)
			}
			if line[0] == '+' {
				at++
			}
		}
	}
	return changed
}

func idle(file, line string) bool {
	switch filepath.Ext(file) {
	case ".go":
		return idleGo.MatchString(line)
	case ".yaml":
		return idleYAML.MatchString(line)
	}
	return false
}

// entriesAt returns the names of the table's entries that have one of the lines: elements with a text as their key, or
// with a field Name. A line outside of all entries belongs to none.
func entriesAt(path string, lines []int) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		name := entryName(n)
		if name == "" {
			return true
		}
		first, last := set.Position(n.Pos()).Line, set.Position(n.End()).Line
		for _, line := range lines {
			if first <= line && line <= last {
				names = append(names, name)
				break
			}
		}
		return true
	})
	return names, nil
}

// entryName returns the name of an entry of a table; "" if n is none.
func entryName(n ast.Node) string {
	quoted := func(e ast.Expr) string {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			name, _ := strconv.Unquote(lit.Value)
			return name
		}
		return ""
	}
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		return quoted(n.Key)
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Name" {
					return quoted(kv.Value)
				}
			}
		}
	case *ast.AssignStmt: // f["name"] = ...
		if at, ok := n.Lhs[0].(*ast.IndexExpr); ok {
			return quoted(at.Index)
		}
	}
	return ""
}
