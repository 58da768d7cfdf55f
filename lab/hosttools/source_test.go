package hosttools

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// elsewhere lists programs that the sources start and the table does not install, each with its reason.
var elsewhere = map[string]string{
	"sh": essential, "bash": essential, "sleep": essential, "cat": essential, "df": essential, "grep": essential,
	"env": essential, "printf": essential,
	"mkdir": essential, "ls": essential, "mountpoint": essential, "cp": essential, "id": essential,

	"go": "README.md asks for it", "git": "README.md asks for it", "make": "README.md asks for it",
	"apt-get":             "looked for before it is run; a host without it gets the list of what to install",
	"apt-config":          "comes with apt-get",
	"dpkg":                "comes with apt-get",
	"journalctl":          "a node's; where there is none, nothing is counted",
	"systemctl":           "a node's; on a host without systemd the tests put their own first in PATH",
	"systemd-run":         "run only where the host runs systemd",
	"systemd-analyze":     "comes with systemd; without it a unit is held to its directives alone",
	"getent":              "a node's, and Essential on Debian",
	"probe.sh":            "our own, in tools; without the cross compiler it names the packages",
	"qemu-aarch64-static": "runs the other architecture's probe where it is installed",
	"sshd":                "needs a server package: its tests are skipped without it", "exe": "/proc/self/exe, our own",
	"python3":  "runs pynvml for one test, which is skipped without it",
	"stubborn": "a word in a test of exec.Cmd, never started",
}

const essential = "Essential on Debian: every machine has it"

// wrappers are functions that start the program in the parameter with this index, by folder.
var wrappers = map[string]map[string]int{
	"lab":                  {"command": 1, "commandAny": 1},
	"chaos/node":           {"tool": 2, "must": 2},
	"preflight/probe/host": {"command": 1},
	"tools/bench":          {"command": 1},
	"internal/host":        {"run": 1},
}

// indirect lists functions, by file, that start a program whose name is not a literal there, with the programs or,
// in parentheses, why none is missing.
var indirect = map[string]string{
	"lab/e2e/inprocess/commands_test.go TestStepsToTryAreGreenWhenHealthy": "curl openssl",

	"agent/recorder/host_linux_test.go TestADiskThatTurnsReadOnly": "mount e2fsck",
	"agent/gpu/supervisor.go run":                                  "(our own)",
	"agent/terminal/unit.go startUnit":                             "systemd-run",
	"preflight/probe/host/restarts_test.go TestMainProcessStarts":  "(the test's own program)",
	"cmd/gpuaas-gpu-probe/arm64_test.go TestForARM64":              "qemu-aarch64-static",
	"cmd/gpuaasctl/gpu_check_test.go TestGPUCheckWithTheFake":      "(the C compiler that Go uses)",
	"ops/gpu_here.go probeHere":                                    "(our own)",
	"tools/bench/binaries.go binaries":                             "(our own)",
	"tools/bench/binaries.go initCost":                             "(our own)",
	"tools/bench/drill_linux.go chaos":                             "(our own)",
	"tools/bench/lab_linux.go up":                                  "(our own)",
	"tools/bench/link_linux.go newSlowLink":                        "ip sysctl",
	"tools/bench/link_linux.go remove":                             "ip sysctl",
	"tools/bench/space_linux.go run":                               "ssh bash",
	"tools/bench/wire_linux.go startWorld":                         "(the test's own program)",
	"cmd/gpuaasctl/build_test.go TestHelpersOfAnotherBuild":        "(our own)",
	"cmd/gpuaasctl/heads_test.go TestEveryDocumentSaysWhatItIs":    "(our own)",
	"lab/e2e/inprocess/screen_test.go onTerminal":                  "(our own)",
	"gpu/policy/ask.go Ask":                                        "(our own)",
	"chaos/kind_test.go TestEnvironIsExact":                        "grep",
	"chaos/node/arm.go copyProgram":                                "(our own)",
	"chaos/node/arm.go startWatchdog":                              "systemd-run",
	"chaos/node/exec.go runCheck":                                  "(a drill's probe, on a machine of the lab)",
	"chaos/node/before_left_test.go breakByBefore":                 "(of the version before)",
	"chaos/node/exec.go do":                                        "(a drill's change, on a machine of the lab)",
	"chaos/node/exec.go find":                                      "(what tool is asked for)",
	"chaos/node/fingerprint_net.go netItems":                       "ip",
	"chaos/node/fingerprint_test.go inside":                        "(our own)",
	"chaos/node/fingerprint_test.go plants":                        "nft ip",
	"chaos/remote/here.go Exec": "(a drill's probe from the operator's machine: " +
		"TestDrillsOfTheOperator)",
	"chaos/survey_test.go TestSurveyOfThisMachine":      "sh",
	"cmd/gpuaas-agent/agent_test.go TestProgram":        "(our own)",
	"cmd/gpuaas-agent/update_test.go once":              "(our own)",
	"cmd/gpuaas-fault/command_test.go TestProgram":      "(our own)",
	"cmd/gpuaas-gpu-probe/probe_test.go command":        "(our own)",
	"cmd/gpuaas-gpu-probe/probe_test.go withoutCGO":     "(our own)",
	"cmd/gpuaas-gpu-probe/readers_test.go otherReaders": "(an unpacked nvtop) python3",
	"cmd/gpuaas-gpu-probe/probe_test.go compiler":       "(what go env names; skipped without it)",
	"cmd/gpuaas-gpu-probe/probe_test.go compileFake":    "(the C compiler; skipped without it)",
	"cmd/gpuaas-gpu-probe/platform_test.go startAgent":  "(our own)",
	"ops/survey.go operatorTools": "(a drill's probe from the operator's machine: " +
		"TestDrillsOfTheOperator)",
	"cmd/gpuaasctl/interrupt_test.go command":                          "(our own)",
	"cmd/gpuaasctl/internal/cmd/labcmd/lab.go ssh":                     "ssh",
	"lab/e2e/crash_matrix_test.go TestCrashMatrix":                     "nft",
	"lab/e2e/crash_strike_test.go startTool":                           "(our own)",
	"lab/e2e/inprocess/foreign_test.go TestForeignAgent":               "(our own)",
	"lab/e2e/inprocess/secrets_test.go execute":                        "(our own)",
	"lab/e2e/inprocess/servers_run_test.go run":                        "nginx haproxy apache2 caddy",
	"lab/e2e/lab_test.go try":                                          "(our own)",
	"lab/e2e/recovery_record_test.go TestRecoveryRecordOfADeadMachine": "(our own)",
	"lab/e2e/trial_test.go classify":                                   "(our own)",
	"chaos/node/systemctl.go show":                                     "systemctl",
	"golden/html_test.go TestPagesInABrowser":                          "chromium",
	"tools/fuzzall/main.go fuzz":                                       "(our own)",
	"internal/host/command.go Run":                                     "(what its callers name)",
	"tools/baretest/inside.go inside":                                  "make go",
	"tools/baretest/main.go output":                                    "go cp env",
	"lab/hosttools/hosttools.go Missing":                               "(the table)",
	"lab/hosttools/unpack.go findBelow":                                "(the table)",
	"lab/image.go bootstrap":                                           "mmdebstrap",
	"lab/image.go hostArchive":                                         "apt-get",
	"lab/lab_test.go TestMachines":                                     "ssh",
	"lab/lab_test.go TestUpResumesAfterKill":                           "(our own)",
	"lab/look_test.go look":                                            "ip",
	"lab/network.go makeNetwork":                                       "ip",
	"lab/supervise.go startSupervisor":                                 "(our own)",
	"preflight/probe/host/binary.go askVersion":                        "(an agent)",
	"preflight/probe/host/program_test.go TestWhoseProgram":            "(our own)",
	"preflight/probe/net/hosts.go lookupNSS":                           "getent",
	"preflight/probe/net/getent.go getent":                             "getent",
	"preflight/probe/host/foreign_linux_test.go TestProcessByName":     "sleep",
	"preflight/probe/host/machine_units_linux.go memlock":              "systemctl",
	"preflight/vantage/command.go SendRequest":                         "(a profile's own)",
	"preflight/vantage/command.go commandClient":                       "(a profile's own)",
	"preflight/vantage/hostcommand.go command":                         "(what the caller's ssh_config names)",
	"preflight/vantage/proxy.go runShell":                              "(the caller's shell)",
	"preflight/vantage/proxy.go start":                                 "(the caller's shell)",
	"internal/host/leave.go RunOrLeave":                                "(what its callers name)",
	"lab/e2e/inprocess/terminal_kinds_test.go shell":                   "sh",
	"preflight/probe/exhausted_linux_test.go shortOf":                  "unshare sh ip",
	"preflight/probe/namespace_linux.go start":                         "(our own)",
	"preflight/probe/probetest/processes.go WaitingIn":                 "env sh unshare",
	"preflight/probe/host/systemd.go showUnits":                        "systemctl",
	"preflight/probe/net/ws_test.go ttyIn":                             "sh",
	"preflight/vantage/bench_linux_test.go newSlowLink":                "ip",
	"preflight/vantage/push_test.go TestPushAsRoot":                    "nsenter",
	"preflight/vantage/quote_test.go FuzzQuote":                        "sh bash",
	"preflight/vantage/quote_test.go readBack":                         "sh bash",
	"preflight/vantage/sshtest/shell.go run":                           "sh",
	"tools/ci/suite.go inGroup":                                        "make go unshare",
	"tools/labsmoke/left.go listHost":                                  "ip",
	"tools/mutants/program/program.go Do":                              "(a test program)",
	"tools/labsmoke/smoke.go command":                                  "make go",
	"tools/ci/race.go raced":                                           "go",
	"profile/secret.go FindCommand":                                    "(a profile's own)",
	"profile/secret.go RunSecret":                                      "(a profile's own)",
}

// TestEveryProgramIsKnown searches all sources of the module for programs that they start. It fails for a program
// that is in neither table, and for a start that cannot be analyzed: the author of a new one decides who installs
// it.
func TestEveryProgramIsKnown(t *testing.T) {
	programs, places := map[string]string{}, map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == "dist" || (strings.HasPrefix(d.Name(), ".") && d.Name() != "..")) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		started(filepath.ToSlash(rel), file, programs, places)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(programs) < 15 || len(places) < 15 {
		t.Errorf("found only %d programs and %d indirect starts: the sources are not read", len(programs), len(places))
	}
	for place, names := range indirect {
		if !places[place] {
			t.Errorf("indirect has %s, which starts nothing that cannot be read", place)
		}
		for name := range strings.FieldsSeq(names) {
			if names[0] != '(' {
				programs[name] = place
			}
		}
	}
	for program, place := range programs {
		installed := slices.ContainsFunc(Table[:], func(tool Tool) bool { return tool.Program == program })
		if _, ok := elsewhere[program]; !ok && !installed {
			t.Errorf("%s starts %q: add it to Table with its package, or to elsewhere with the reason why nothing installs it",
				place, program)
		}
	}
	for place := range places {
		if indirect[place] == "" {
			t.Errorf("%s starts a program that cannot be read from the source: add the place to indirect", place)
		}
	}
}

// started collects what file starts: programs by name with one place each, and places where no name can be found.
func started(rel string, file *ast.File, programs map[string]string, places map[string]bool) {
	folder := filepath.ToSlash(filepath.Dir(rel))
	for _, decl := range file.Decls {
		name := "-"
		if f, ok := decl.(*ast.FuncDecl); ok {
			name = f.Name.Name
		}
		if _, ok := wrappers[folder][name]; ok {
			continue // its callers are read
		}
		place := rel + " " + name
		ast.Inspect(decl, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			at, ok := programAt(folder, call.Fun)
			if !ok || at >= len(call.Args) {
				return true
			}
			argv := texts(call.Args[at])
			if itself(call.Args[at]) {
				return true
			}
			if len(argv) == 0 {
				places[place] = true
				return true
			}
			programs[filepath.Base(argv[0])] = place
			for _, arg := range call.Args[at+1:] {
				argv = append(argv, texts(arg)...)
			}
			for _, program := range scripted(argv) {
				programs[program] = place
			}
			return true
		})
	}
}

// programAt returns the index of the argument with the program, for a call that starts one.
func programAt(folder string, fun ast.Expr) (int, bool) {
	switch f := fun.(type) {
	case *ast.Ident:
		at, ok := wrappers[folder][f.Name]
		return at, ok
	case *ast.SelectorExpr:
		if lit, ok := f.X.(*ast.CompositeLit); ok && f.Sel.Name == "Run" { // host.Command{...}.Run
			of, ok := lit.Type.(*ast.SelectorExpr)
			return 1, ok && of.Sel.Name == "Command"
		}
		if x, ok := f.X.(*ast.Ident); ok && x.Name == "exec" {
			at, ok := map[string]int{"Command": 0, "LookPath": 0, "CommandContext": 1}[f.Sel.Name]
			return at, ok
		}
	}
	return 0, false
}

// itself reports whether an argument is os.Args[0].
func itself(arg ast.Expr) bool {
	index, ok := arg.(*ast.IndexExpr)
	if !ok {
		return false
	}
	of, ok := index.X.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := of.X.(*ast.Ident)
	at, isNumber := index.Index.(*ast.BasicLit)
	return ok && isNumber && x.Name == "os" && of.Sel.Name == "Args" && at.Value == "0"
}

// texts returns the constant texts at the beginning of an argument: of "x", of append([]string{"x", "y"}, ...), of
// []string{"x"}.
func texts(arg ast.Expr) []string {
	switch a := arg.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(a.Value); err == nil && a.Kind == token.STRING {
			return []string{s}
		}
	case *ast.CallExpr:
		if f, ok := a.Fun.(*ast.Ident); ok && f.Name == "append" {
			return texts(a.Args[0])
		}
	case *ast.BinaryExpr: // a text that begins with a constant
		return texts(a.X)
	case *ast.CompositeLit:
		var all []string
		for _, e := range a.Elts {
			all = append(all, texts(e)...)
		}
		return all
	}
	return nil
}

// commandEnd matches the end of a command in a shell's line.
var commandEnd = regexp.MustCompile(`[;|\n]|&&`)

// programName matches a program's name; braces, variables and assignments do not match.
var programName = regexp.MustCompile(`^[a-z][a-z0-9._-]*$`)

// builtin are words of the shell that start nothing.
var builtin = []string{"cd", "echo", "exec", "exit", "set", "test", "true", "trap", "wait"}

// scripted returns the programs in a script after sh -c, even if unshare or nsenter starts the shell.
func scripted(argv []string) []string {
	at := slices.Index(argv, "-c")
	if at < 1 || at+1 == len(argv) || !slices.Contains([]string{"sh", "bash"}, argv[at-1]) {
		return nil
	}
	var all []string
	for _, command := range commandEnd.Split(argv[at+1], -1) {
		words := strings.Fields(command)
		if len(words) > 1 && words[0] == "exec" {
			words = words[1:]
		}
		if len(words) > 0 && programName.MatchString(words[0]) && !slices.Contains(builtin, words[0]) {
			all = append(all, words[0])
		}
	}
	return all
}

// TestReading: the analysis finds programs in every form that the sources use, so that the test above can fail.
func TestReading(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package lab
func a() { exec.Command("one", x) }
func b() { exec.CommandContext(ctx, "/usr/sbin/two") ; exec.LookPath("three") }
func c() { command(ctx, append([]string{"four", "-a"}, more...)...) }
func d() { exec.Command("sh", "-c", "five -x | six && exec seven; cd /; x=1") }
func e() { exec.Command("unshare", "-m", "sh", "-c", setup+"; eight") }
func f() { exec.Command(argv[0], argv[1:]...) }
func g() { exec.Command(os.Args[0], "again") }
func command() { exec.Command(argv[0]) }
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	programs, places := map[string]string{}, map[string]bool{}
	started("lab/x.go", file, programs, places)
	for _, want := range []string{"one", "two", "three", "four", "five", "six", "seven", "sh", "unshare"} {
		if programs[want] == "" {
			t.Errorf("%q is not seen in %v", want, programs)
		}
	}
	if len(programs) != 9 || len(places) != 1 || !places["lab/x.go f"] {
		t.Errorf("programs %v, places %v", programs, places)
	}
}
