package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unbounded are the calls that decode or read without a limit on the result. internal/bounded has a replacement for
// each.
var unbounded = map[string]bool{
	"json.Unmarshal": true, "json.NewDecoder": true, "yaml.Unmarshal": true, "yaml.NewDecoder": true, "io.ReadAll": true,
	"strictyaml.Parse": true,
}

// readers are the files that may call them nevertheless, with the reason. Excluded are code that is not released
// (bench, internal, golden, e2e) and the lab, which reads only what it wrote.
var readers = map[string]string{
	"agent/bundle.go":           "io.LimitReader; the text is decoded by bounded",
	"agent/client.go":           "io.LimitReader: a longer answer is cut off, and then no JSON",
	"agent/credstore/store.go":  "the agent's own file, in a folder that only root may write",
	"agent/ledgerfile.go":       "the agent's own file",
	"agent/outbox/outbox.go":    "the agent's own file",
	"agent/terminal/session.go": "io.LimitReader: a longer refusal is cut off",
	"agent/update/keeper.go":    "the agent's own file",
	"chaos/load.go": "io.LimitReader: what is too long is refused with its path where it is parsed; " +
		"the YAML reader bounds its aliases",
	"chaos/node/arm.go":    "the machine's own journal",
	"chaos/node/drive.go":  "the machine's own file",
	"chaos/node/system.go": "the machine's own journal",
	"chaos/params.go":      "a part of a document that was counted",
	"diag/limiter.go": "raw members of an answer whose bytes its reader bounds; the ground floor " +
		"imports nothing",
	"diag/record/slot.go":                   "a slot of 4 KiB",
	"diag/request.go":                       "what it has encoded itself",
	"gpu/policy/ask.go":                     "what a program of the same build writes, cut off at 32 MiB",
	"gpu/policy/cases.go":                   "read by its caller with a limit; the YAML reader bounds its aliases",
	"gpu/policy/judge/serve.go":             "a line that is counted before it is decoded",
	"gpu/policy/load.go":                    "read by its caller with a limit; the YAML reader bounds its aliases",
	"lab/platform/api_rollout.go":           "a part of a body that was counted",
	"lab/platform/config.go":                "the platform's own file",
	"lab/platform/gpu_policy.go":            "io.LimitReader: what is longer is refused",
	"lab/platform/loops.go":                 "a part of a body that was counted",
	"lab/platform/store/event.go":           "a part of a body that was counted",
	"lab/platform/store/release.go":         "a task of the platform's own database",
	"lab/platform/store/store.go":           "the platform's own database",
	"lab/platform/web/web.go":               "http.MaxBytesReader; the text is decoded by bounded",
	"preflight/probe/measure/pem.go":        "io.LimitReader",
	"preflight/probe/client.go":             "the few fields of a line's head",
	"preflight/probe/client_fact.go":        "a line that is counted before a fact is decoded",
	"preflight/probe/net/http.go":           "io.LimitReader: of a long answer its begin counts",
	"preflight/probe/host/journal.go":       "a section of known size",
	"preflight/probe/net/ws.go":             "io.LimitReader",
	"preflight/probe/host/program_linux.go": "a section of less than 4 KiB",
	"profile/file.go":                       "bounded.YAML bounds the text, and the YAML reader its aliases",
	"profile/secret.go":                     "io.LimitReader",
	"profile/readfile.go":                   "io.LimitReader",
	"profile/show.go":                       "what it has encoded itself",
}

// unread are folders whose programs read no foreign data.
var unread = []string{"internal", "golden", "lab/e2e", "tools", "bin"}

// TestReadersAreBounded finds code that decodes foreign bytes without counting their contents.
func TestReadersAreBounded(t *testing.T) {
	root := filepath.Join("..", "..")
	calls := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		if err != nil || relErr != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch top, _, _ := strings.Cut(rel, "/"); {
		case d.IsDir() && (slices.Contains(unread, top) || (strings.HasPrefix(top, ".") && top != ".")):
			return fs.SkipDir
		case top == "lab" && !strings.HasPrefix(rel, "lab/platform/"):
			return nil
		case d.IsDir(), !strings.HasSuffix(rel, ".go"), strings.HasSuffix(rel, "_test.go"), strings.Contains(rel, "test/"):
			return nil
		}
		for _, call := range callsIn(t, path) {
			calls[rel] = true
			if readers[rel] == "" {
				t.Errorf("%s calls %s: use internal/bounded, or give the reason here", rel, call)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for file := range readers {
		if !calls[file] {
			t.Errorf("%s makes no such call any more: remove it here", file)
		}
	}
}

// callsIn returns the unbounded calls in a file.
func callsIn(t *testing.T, path string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && unbounded[pkg.Name+"."+s.Sel.Name] {
				found = append(found, pkg.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	return found
}
