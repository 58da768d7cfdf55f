package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// partOf lists the files of preflight/hops that are a part of another one's hop.
var partOf = map[string]string{
	"gpu_node.go": "gpu.go", "recovery_record.go": "recovery_status.go", "recovery_wait.go": "recovery_status.go",
	"recovery_listeners.go": "recovery_status.go", "restarts.go": "readiness.go",
	"host_mounts.go": "host_health.go", "host_machine.go": "host_health.go", "host_kernel.go": "host_health.go",
	"terminal.go": "shared.go", "terminal_rows.go": "shared.go", // a terminal of another platform, which two hops judge
}

// TestAHopKnowsNoOther: a hop is read, changed and removed without opening another one. What two of them know about a
// party is in preflight/world; what two of them send is in shared.go; what a table of a judge is, in rows.go.
func TestAHopKnowsNoOther(t *testing.T) {
	names, err := filepath.Glob("../../preflight/hops/*.go")
	if err != nil || len(names) < 18 {
		t.Fatalf("%d files: %v", len(names), err)
	}
	hopOf := func(file string) string {
		if whole := partOf[file]; whole != "" {
			return whole
		}
		return file
	}
	declared, files := map[string]string{}, map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(name)
		files[base] = file
		for _, object := range file.Scope.Objects {
			declared[object.Name] = hopOf(base)
		}
	}
	used := 0
	for base, file := range files {
		if base == "chain.go" { // the list of all hops
			continue
		}
		for _, id := range file.Unresolved {
			of := declared[id.Name]
			if of != "" && of != hopOf(base) {
				used++
			}
			if of == "" || of == hopOf(base) || of == "shared.go" || of == "rows.go" ||
				(base == "shared.go" && id.Name == "judgeTaskWait") { // an unclaimed task rests on the wait
				continue
			}
			t.Errorf("%s uses %s of %s: put it into preflight/world, or into shared.go", base, id.Name, of)
		}
	}
	if used == 0 {
		t.Error("no file uses another one: the test sees nothing")
	}
}
