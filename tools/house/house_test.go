// Package house has the rules of this code base as tests: which packages may import which, and why.
package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gpuaas/gpuaasctl/"

// rule limits the imports of packages under from: of this module only the folders in ours, of others only the module
// paths in others ("*" for any). why is printed if it is broken.
type rule struct {
	from   string
	ours   []string
	others []string
	why    string
}

// rules are tried in order; the first whose from matches applies.
var rules = []rule{
	{"internal/page", []string{"diag", "internal/clean"}, []string{"github.com/charmbracelet/x/ansi"},
		"a page is drawn without knowing what it is about, so that every command and every live view can be drawn by it"},
	{"diag/render", []string{"diag", "internal/page", "internal/clean"}, []string{"*"},
		"a renderer turns a report into bytes, and knows nothing of how it came about"},
	{"diag/schema", []string{"diag"}, nil, "the schema is made from the types alone"},
	{"diag/trust", []string{"diag"}, nil,
		"drift is explained from facts alone, so that a recorded report can be explained as well"},
	{"diag/evidence", []string{"diag", "internal/bounded", "internal/clean"}, nil,
		"the history is joined from what sources recorded, and asks none itself"},
	{"diag/classify", []string{"diag"}, nil,
		"a reason follows from what is known about a node, so that the platform can name the same one"},
	{"diag", nil, nil, "the ground floor uses the standard library alone, so that everything can use it"},
	{"ops/endpoints", []string{"profile", "internal/bounded"}, nil,
		"which text a hosts file should have is decided without a node at hand; a vantage carries it there"},
	{"agent/wire", []string{"internal/bounded"}, nil,
		"what travels between agent and platform must not drag anything along"},
	{"profile", []string{"diag", "internal/bounded", "internal/owned", "internal/strictyaml"},
		[]string{"go.yaml.in/yaml/v3", "golang.org/x/"}, "a profile is read before anything is measured"},
	{"internal/ptmx", nil, []string{"golang.org/x/sys"},
		"a pseudo-terminal is the kernel's, and knows nothing of who asks for it"},
	{"internal/ws", nil, nil, "a WebSocket is bytes over a connection, and knows nothing of what is said over it"},
	{"internal/clean", nil, nil,
		"what is shown is cleaned without knowing what it says, so that nothing can be shown uncleaned"},
	{"internal/sleep", nil, nil, "waiting knows nothing of what is waited for"},
	{"internal/strictyaml", nil, []string{"go.yaml.in/yaml/v3"},
		"a file is read strictly without knowing what it is about"},
	{"internal/owned", nil, nil, "one rule decides whose file it is, whatever the file is for"},
	{"internal/durable", nil, []string{"golang.org/x/sys"},
		"what a crash leaves depends on no file's meaning, so that one disk tests all of it"},
	{"internal/host", []string{"internal/bounded"}, nil,
		"what a machine says of itself is read in one way, without knowing who asks"},
	{"internal/bounded", nil, nil, "a bound on what is decoded knows no document, so that every reader can use it"},
	{"preflight/probe/scrub", []string{"diag"}, nil, "a text is cleaned without knowing who wrote it"},
	{"preflight/probe/measure", []string{"diag", "preflight/probe/scrub", "internal/bounded"},
		[]string{"golang.org/x/sys"},
		"what an error means does not depend on what was measured"},
	{"preflight/probe/net", []string{"diag", "preflight/probe/measure", "preflight/probe/scrub", "internal/ws",
		"internal/bounded", "internal/host", "internal/sleep"}, []string{"golang.org/x"},
		"what is asked over the network does not depend on what this machine is"},
	{"preflight/probe/host", []string{"diag", "diag/record", "gpu/fault", "gpu/kmsg", "gpu/report", "gpu/state",
		"preflight/probe/measure", "preflight/probe/scrub", "internal/bounded", "internal/host", "internal/sleep"},
		[]string{"golang.org/x/sys"}, "a machine is read without a network"},
	{"preflight/probe/command", []string{"diag", "preflight/probe/measure", "preflight/probe/scrub", "internal/bounded",
		"internal/host", "internal/owned"}, []string{"golang.org/x/sys"},
		"a program is run and ended without knowing what its output means"},
	{"preflight/probe", []string{"diag", "preflight/probe/net", "preflight/probe/host", "preflight/probe/command",
		"preflight/probe/measure", "preflight/probe/scrub", "internal/bounded", "internal/host"},
		[]string{"golang.org/x/sys"}, "a probe measures and does not judge; the same code runs in the agent"},
	{"preflight/vantage", []string{"diag", "profile", "preflight/probe", "preflight/probe/net", "preflight/probe/host",
		"preflight/probe/measure", "preflight/probe/scrub", "preflight/vantage/openssh", "internal/bounded",
		"internal/owned"}, []string{"*"},
		"a vantage carries probes to a place, and knows no hop"},
	{"preflight/vantage/openssh", []string{"internal/bounded"}, []string{"golang.org/x/crypto"},
		"what OpenSSH's files say follows from the files alone: who dials and runs is another question"},
	{"preflight/hop", []string{"diag", "profile"}, nil, "what a hop, a step and a case are depends on no hop"},
	{"preflight/reading", []string{"diag", "profile", "preflight/hop", "internal/bounded"}, nil,
		"what one fact shows is known without the others"},
	{"preflight/world", []string{"diag", "diag/classify", "profile", "preflight/hop", "preflight/reading"}, nil,
		"what the facts show about a party is known without the hop that asks, so that every hop can ask"},
	{"preflight/check", []string{"diag", "internal/bounded", "preflight/hop", "preflight/reading"}, nil,
		"a check is judged by its own rule, and knows nothing of any hop or party"},
	{"preflight/hops", []string{"diag", "diag/classify", "profile", "internal/bounded", "preflight/check", "preflight/hop",
		"preflight/reading", "preflight/world"}, nil,
		"hops are pure: vantages are handed in, so no hop can reach for a network"},
	{"preflight/verdict", []string{"diag", "diag/classify", "profile", "preflight/hop", "preflight/reading",
		"preflight/world"}, nil, "a verdict takes its hops as data, and knows none of them"},
	{"preflight/walk", []string{"diag", "profile", "internal/bounded", "preflight/hop", "preflight/reading",
		"preflight/world", "preflight/hops", "preflight/verdict"}, nil,
		"a walk asks what its hops say, of vantages that it is given"},
	{"preflight/compare", []string{"diag", "profile", "preflight/hop", "preflight/reading", "preflight/verdict"}, nil,
		"reports are compared as they are: what was judged is not judged again"},
	{"preflight", nil, nil, "the floors of preflight are packages of their own"},
	{"agent", []string{"diag", "diag/classify", "diag/record", "agent/wire", "preflight/probe",
		"preflight/probe/net", "preflight/probe/host", "preflight/probe/scrub", "gpu/kmsg", "gpu/report", "gpu/state",
		"internal/ptmx", "internal/ws", "internal/bounded", "internal/host", "internal/durable",
		"internal/sleep"}, []string{"*"},
		"the agent is slim, and contains no chaos and no operator code"},
	{"ops/history", []string{"diag", "internal/bounded", "internal/owned", "internal/sleep"},
		[]string{"modernc.org/sqlite"},
		"the history keeps reports and compares none, so that what changed stays a pure question"},
	{"ops/discover", []string{"diag", "profile", "preflight/vantage", "internal/bounded"}, nil,
		"it looks before there is a profile, so it must not need one, nor walk"},
	{"chaos/step", []string{"internal/bounded"}, nil,
		"a drill is data: what makes it, what carries it out and what reads its journal share nothing else"},
	{"chaos/node", []string{"chaos/step", "internal/host", "internal/durable",
		"internal/sleep"}, []string{"golang.org/x/sys"},
		"what puts a machine back must not need the agent, a probe or a platform to do it"},
	{"chaos/schema", []string{"chaos"}, nil, "the schema is made from the types alone"},
	{"chaos/drill", []string{"diag", "chaos", "chaos/step", "internal/bounded", "internal/clean", "internal/durable",
		"internal/sleep"}, nil,
		"a run is judged from its events alone: machines and walks are handed in"},
	{"chaos/remote", []string{"diag", "profile", "chaos", "chaos/step", "chaos/drill", "preflight/vantage",
		"internal/bounded", "internal/owned"}, nil,
		"a machine of a drill is reached as a walk reaches its node, and nothing is judged on the way"},
	{"chaos/render", []string{"diag", "diag/render", "internal/page", "chaos", "chaos/step", "chaos/drill"}, []string{"*"},
		"a renderer turns a report into bytes, and knows nothing of how it came about"},
	{"chaos", []string{"diag", "profile", "chaos/step", "chaos/node", "internal/bounded", "internal/host",
		"internal/owned", "internal/strictyaml"}, []string{"go.yaml.in/yaml/v3"},
		"a plan follows from facts: vantages are handed in by who runs it"},
	{"scenarios", nil, nil, "drills are files, not code"},
	{"gpu/xid", nil, nil, "a table of codes knows no node and no event, so that every program can have it"},
	{"gpu/logfile", []string{"gpu/kmsg"}, nil,
		"a log is read without a table of codes and without a machine at hand: what its errors mean is another question"},
	{"gpu/kmsg", nil, nil,
		"the kernel log is read without a driver, a table or a policy, so that it is read when those fail"},
	{"gpu/report", []string{"internal/bounded"}, nil,
		"what a node reports about its GPUs is data: who writes it, judges it or shows it share nothing else"},
	{"gpu/state", []string{"gpu/kmsg", "gpu/report", "internal/bounded"}, nil,
		"the agent that writes the file and the probe that reads it share what it is, and nothing else"},
	{"gpu/policy/judge", []string{"gpu/policy", "gpu/xid", "internal/strictyaml"}, []string{"cel.dev/cel-go"},
		"a judgement follows from a policy and evidence alone"},
	{"gpu/fault", []string{"gpu/kmsg", "gpu/report"}, nil,
		"what belongs together follows from the events alone, so that everyone who lists them lists the same"},
	{"gpu/policy", []string{"gpu/fault", "gpu/kmsg", "gpu/report", "gpu/xid", "internal/owned", "internal/strictyaml"},
		[]string{"go.yaml.in/yaml/v3"},
		"what a policy is and what came of it is known without CEL, which is 5 MB"},
	{"gpu/status", []string{"gpu/policy"}, nil, "a status follows from a health, and knows no evidence and no platform"},
	{"ops/explain", []string{"diag", "chaos/drill", "gpu/xid"}, nil,
		"a word is explained without a walk, a network or a file"},
	{
		"ops",
		[]string{
			"diag",
			"diag/classify",
			"diag/record",
			"profile",
			"preflight/compare",
			"preflight/hop",
			"preflight/hops",
			"preflight/reading",
			"preflight/verdict",
			"preflight/walk",
			"preflight/probe",
			"preflight/probe/command",
			"preflight/probe/host",
			"preflight/probe/scrub",
			"preflight/vantage",
			"diag/trust",
			"ops/endpoints",
			"diag/evidence",
			"gpu/policy",
			"gpu/report",
			"ops/history",
			"agent/wire",
			"chaos",
			"chaos/step",
			"chaos/drill",
			"chaos/remote",
			"internal/bounded",
			"internal/owned",
			"internal/sleep",
		},
		nil,
		"what the tool does has a second caller beside the command line: it knows no flag, no format and no terminal",
	},
	{
		"lab/platform",
		[]string{"diag", "diag/classify", "agent/wire", "gpu/policy", "gpu/report", "gpu/status", "internal/bounded",
			"internal/strictyaml", "internal/sleep"},
		[]string{"*"},
		"the reference platform is one of many: it knows the wire, not the tool",
	},
	{"lab", []string{"diag", "agent/wire", "profile", "internal/host", "internal/durable",
		"internal/sleep"}, []string{"*"},
		"the lab makes machines, and knows nothing of what is measured on them"},
}

// TestDependencyDirection fails with the rule's reason if a package imports upwards.
func TestDependencyDirection(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" ||
			(strings.HasPrefix(d.Name(), ".") && d.Name() != "..")) {
			return fs.SkipDir
		}
		// Tests, and the packages that serve them, may import upwards: they connect the layers.
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		checkFile(t, path, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, path, rel string) {
	t.Helper()
	folder := filepath.ToSlash(filepath.Dir(rel))
	r, ok := ruleFor(folder)
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	for _, spec := range file.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		ours, isOurs := strings.CutPrefix(imported, module)
		if isOurs && within(ours, "cmd") && !within(folder, "cmd") {
			t.Errorf("%s imports %s: nothing imports a command", rel, imported)
		}
		if drawing(imported) && !within(folder, "cmd/gpuaasctl/tui") && !within(folder, "diag/render") {
			t.Errorf("%s imports %s: terminal drawing stays in the live table and the renderers", rel, imported)
		}
		if !ok {
			continue
		}
		switch {
		case isOurs && !permits(r, ours):
			t.Errorf("%s imports %s: %s", rel, imported, r.why)
		case !isOurs && strings.Contains(strings.Split(imported, "/")[0], ".") && !allowed(imported, r.others):
			t.Errorf("%s imports %s: %s", rel, imported, r.why)
		}
	}
}

func ruleFor(folder string) (rule, bool) {
	for _, r := range rules {
		if within(folder, r.from) {
			return r, true
		}
	}
	return rule{}, false
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// permits allows the same layer, and exactly the named folders.
func permits(r rule, imported string) bool {
	of, ok := ruleFor(imported)
	return (ok && of.from == r.from) || slices.Contains(r.ours, imported)
}

func allowed(imported string, prefixes []string) bool {
	for _, p := range prefixes {
		if p == "*" || strings.HasPrefix(imported, p) {
			return true
		}
	}
	return false
}

func drawing(imported string) bool {
	return strings.HasPrefix(imported, "charm.land/bubbletea") || strings.HasPrefix(imported, "charm.land/lipgloss")
}

// TestOpsHasNoTerminal: another caller of ops has its own streams, environment and signals.
func TestOpsHasNoTerminal(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "ops", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range ofTheProcess {
			if strings.Contains(string(text), word) {
				t.Errorf("%s uses %s, which belongs to the program that calls it", path, word)
			}
		}
	}
}

// ofTheProcess are resources that a process has only once.
var ofTheProcess = [...]string{"os.Stdin", "os.Stdout", "os.Stderr", "os.Getenv", "os.LookupEnv", "os.Exit", "os.Args",
	`"os/signal"`, "fmt.Print"}

// TestTheRulesCanFail: each rule rejects some import.
func TestTheRulesCanFail(t *testing.T) {
	for _, tc := range []struct {
		folder, imported string
		want             bool
	}{
		{"diag", "preflight/hop", false}, {"diag/render", "diag", true}, {"agent/terminal", "lab/platform", false},
		{"preflight/walk", "preflight/probe", false}, {"preflight/probe", "diag", true},
		{"preflight/world", "preflight/hops", false}, {"preflight/verdict", "preflight/hops", false},
		{"preflight/hops", "preflight/world", true}, {"preflight/hops", "preflight/verdict", false},
		{"preflight/probe/net", "preflight/probe/host", false}, {"preflight/probe/host", "preflight/probe", false},
		{"lab/platform/store", "agent/wire", true},
		{"chaos", "preflight/vantage", false}, {"chaos", "agent", false}, {"chaos/node", "chaos/step", true},
		{"chaos/node", "preflight/walk", false}, {"chaos/step", "diag", false}, {"ops", "preflight/walk", true},
		{"gpu/policy", "gpu/policy/judge", false}, {"gpu/status", "gpu/policy/judge", false},
		{"ops", "diag/render", false}, {"ops", "cmd/gpuaasctl/tui", false},
	} {
		r, ok := ruleFor(tc.folder)
		if got := ok && permits(r, tc.imported); got != tc.want {
			t.Errorf("%s -> %s: allowed %v, want %v", tc.folder, tc.imported, got, tc.want)
		}
	}
}

// TestArchitectureListsTheRules: ARCHITECTURE.md lists the current rules.
func TestArchitectureListsTheRules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		said[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, r := range rules {
		ours := strings.Join(r.ours, ", ")
		if ours == "" {
			ours = "none of ours"
		}
		if line := r.from + " -> " + ours; !said[line] {
			t.Errorf("ARCHITECTURE.md, \"Who may import whom\", lacks: %s", line)
		}
	}
}
