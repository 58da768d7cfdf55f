package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestShortRunsNeedNoHost: in go test -short no test runs a program, dials, listens or waits in real time: each that
// does so, itself or through what it calls, first calls tier.NeedsHost.
func TestShortRunsNeedNoHost(t *testing.T) {
	all := testDecls(t)
	tests := 0
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		if ownTestMain[folder] != "" {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(all[folder])) {
			if !isTest(name) || !strings.HasSuffix(all[folder][name][0].file, "_test.go") {
				continue
			}
			tests++
			if w := way(all, folder, name, false, map[string]bool{}); w != nil && mayReach[folder+" "+name] == "" {
				t.Errorf("%s: %s: call tier.NeedsHost before", folder, strings.Join(w, " -> "))
			}
		}
	}
	if tests < 1000 {
		t.Errorf("found only %d tests: the sources are not read", tests)
	}
}

// ownTestMain are the packages whose TestMain ends a short run, or of which nothing runs without a variable.
var ownTestMain = map[string]string{
	"lab/e2e":           "needs GPUAASCTL_LAB_TESTS=1",
	"lab/e2e/inprocess": "its TestMain ends a short run",
}

// mayReach are tests that seem to reach the host.
var mayReach = map[string]string{
	"chaos/node TestKeeper": "its machine is in memory; a real one has methods of the same names",
	"ops ExampleSite_Each":  "it has no output, so it is not run",
}

// hostPackages have tests that go test -short leaves out, since they need more than the test's process
// (tier.NeedsHost); make test runs them. All tests of every other package run in each tier but the lab's. What race
// leaves out is in tools/ci/race.go, what only the lab or the deep run has is in ownTestMain.
var hostPackages = strings.Fields(`
	agent agent/gpu agent/recorder agent/tenant agent/terminal chaos chaos/drill chaos/node chaos/remote
	cmd/gpuaas-agent cmd/gpuaas-fault cmd/gpuaas-gpu-probe cmd/gpuaasctl cmd/gpuaasctl/internal/cmdutil
	cmd/gpuaasctl/tui cmd/gpuaasctl/tui/explorer diag golden internal/host internal/page internal/ptmx internal/ws
	lab lab/platform lab/platform/store lab/platform/workload ops ops/discover ops/endpoints ops/history
	preflight/probe preflight/probe/command preflight/probe/host preflight/probe/net preflight/vantage profile tools/ci tools/house tools/labsmoke
	tools/mutants tools/notices tools/testkit/mutanttest tools/testkit/porttest`)

// TestPackagesOfTheTiers: it is a decision that a package's tests begin to need a host.
func TestPackagesOfTheTiers(t *testing.T) {
	all := testDecls(t)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		needs, tests := false, false
		for name, ds := range all[folder] {
			if isTest(name) && strings.HasSuffix(ds[0].file, "_test.go") {
				tests = true
				needs = needs || needsHost(all, folder, name, map[string]bool{})
			}
		}
		if listed := slices.Contains(hostPackages, folder); tests && needs != listed && ownTestMain[folder] == "" {
			t.Errorf("%s: its tests need a host: %t, in hostPackages: %t", folder, needs, listed)
		}
	}
	for _, folder := range hostPackages {
		if all[folder] == nil {
			t.Errorf("hostPackages has %s, which has no tests", folder)
		}
	}
}

func isTest(name string) bool {
	for _, kind := range []string{"Test", "Fuzz", "Example"} {
		if strings.HasPrefix(name, kind) && name != "TestMain" {
			return true
		}
	}
	return false
}

// TestTheHostRuleCanFail: what reaches the host is found, through a function, a method and a fixture; what is guarded
// or waits in virtual time is not.
func TestTheHostRuleCanFail(t *testing.T) {
	const fixtures = `package p
func serve() { httptest.NewServer(nil) }
func guarded(t *testing.T) { tier.NeedsHost(t); serve() }
type box struct{}
func (box) start() { serve() }
func nap() { time.Sleep(1) }
`
	for body, want := range map[string]bool{
		`exec.Command("true")`: true, `serve()`: true, `guarded(t)`: false, `box{}.start()`: true, `nap()`: true,
		`synctest.Test(t, func(t *testing.T) { nap() })`: false, `synctest.Test(t, func(t *testing.T) { serve() })`: true,
		`_ = net.JoinHostPort("a", "b")`: false, `tier.NeedsHost(t); nap()`: false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", fixtures+"func TestX(t *testing.T) { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]map[string][]*decl{"p": declsOf(file)}
		if w := way(all, "p", "TestX", false, map[string]bool{}); (w != nil) != want {
			t.Errorf("%s: %v", body, w)
		}
	}
}

// Why a test sleeps in real time, or in virtual time where no synctest.Test is in sight.
const (
	virtual = "it is called in virtual time"
	slow    = "a peer that is slow on purpose"
	nothing = "shows that nothing happens meanwhile: there is no condition to wait for"
	moment  = "a fault comes after this time, whatever the state: that is what is tried"
	clock   = "a clock of this resolution must have moved"
)

// maySleep are the functions of tests that call time.Sleep outside of synctest.Test, with the reason. A new one waits
// for a condition instead: tools/testkit/wait.
var maySleep = map[string]string{
	"agent/batch_denied_test.go revokedInABatch":                            nothing,
	"agent/recovery_real_test.go TestRejectedFreshCertificate":              nothing,
	"agent/tenant/tenant_test.go TestEndFindsWhatEscaped":                   nothing,
	"chaos/drill/box_test.go Make":                                          virtual,
	"chaos/drill/box_test.go Undo":                                          virtual,
	"chaos/drill/box_test.go command":                                       virtual,
	"chaos/drill/box_test.go do":                                            virtual,
	"chaos/drill/box_test.go watch":                                         virtual,
	"chaos/drill/terminal_test.go terminalEndings":                          virtual,
	"chaos/drill/world_test.go tool":                                        virtual,
	"chaos/remote/main_test.go fault":                                       slow,
	"cmd/gpuaas-agent/agent_test.go TestProgram":                            "measures an agent at rest, over this time",
	"cmd/gpuaas-agent/update_test.go TestUpdatesItself":                     moment,
	"cmd/gpuaas-agent/update_test.go startUnit":                             "as systemd before a restart",
	"cmd/gpuaasctl/internal/cmd/preflightcmd/watch_test.go watched":         virtual,
	"cmd/gpuaasctl/internal/cmdutil/signals_test.go TestInterruptSentTwice": moment,
	"cmd/gpuaasctl/internal/cmdutil/signals_test.go TestTerminalClosed":     nothing,
	"cmd/gpuaasctl/interrupt_test.go stubborn":                              slow,
	"internal/ptmx/ptmx_test.go TestClosingEndsARead":                       "no state of a goroutine says that it reads",
	"lab/e2e/inprocess/limit_test.go TestLimitedConnections":                slow,
	"lab/e2e/inprocess/relay_test.go carry":                                 slow,
	"lab/lab_test.go TestUpResumesAfterKill":                                moment,
	"lab/platform/bridge_test.go TestBridgeKeepsEveryByte":                  slow,
	"lab/platform/door_test.go TestSlowConnections":                         slow,
	"lab/platform/session_end_test.go TestReleaseAgainstAttach":             moment,
	"lab/platform/session_end_test.go TestSessionLimits":                    slow,
	"lab/platform/session_end_test.go openOn":                               "tries again what a new machine refuses",
	"preflight/endpoint_load_test.go Probe":                                 virtual,
	"preflight/probe/host/discover_test.go TestEnv":                         clock,
	"preflight/probe/net/tcp_test.go TestLateWinnersAreClosed":              slow,
	"preflight/probe/host/units_test.go TestUnitsOfAnImpatientLeader":       moment,
	"preflight/probe/net/warm_test.go TestDeadKeptConnectionIsReplaced":     "nothing shows that an end has arrived",
	"preflight/probe/net/warm_test.go TestGoodbyeEndsKeptConnection":        nothing,
	"preflight/probe/net/ws_test.go TestHoldSession":                        slow,
	"preflight/run_test.go Probe":                                           virtual,
	"preflight/vantage/bench_linux_test.go relay":                           slow,
	"tools/testkit/screentest/screentest.go Await":                          "waits for a condition",
	"tools/testkit/wait/wait.go Within":                                     "waits for a condition",
}

// TestNothingSleepsInsteadOfWaiting: a test that sleeps has a reason, and a reason has a test.
func TestNothingSleepsInsteadOfWaiting(t *testing.T) {
	found := map[string]bool{}
	eachFile(t, func(rel string, file *ast.File, line func(ast.Node) int) {
		if !strings.HasSuffix(rel, "_test.go") && !strings.HasPrefix(rel, "tools/testkit/") {
			return
		}
		if strings.HasPrefix(rel, "lab/e2e/") && !strings.HasPrefix(rel, "lab/e2e/inprocess/") {
			return // a machine is asked again until it has changed, with a bound
		}
		for _, d := range sleepers(file) {
			found[rel+" "+d] = true
		}
	})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if maySleep[name] == "" {
			t.Errorf("%s sleeps: wait for a condition (tools/testkit/wait), or in virtual time (testing/synctest)", name)
		}
	}
	for name := range maySleep {
		if !found[name] {
			t.Errorf("%s does not sleep: remove it from maySleep", name)
		}
	}
}

// sleepers returns the functions of a file that call time.Sleep outside of synctest.Test.
func sleepers(file *ast.File) (names []string) {
	for _, top := range file.Decls {
		f, is := top.(*ast.FuncDecl)
		if !is || f.Body == nil {
			continue
		}
		d := &decl{}
		d.read(f.Body, nil, false)
		if slices.ContainsFunc(d.calls, func(u use) bool { return hostCalls[u.name] == sleeps && !u.bubble }) {
			names = append(names, f.Name.Name)
		}
	}
	return names
}
