package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// computes are packages compiled without the race detector: they share no memory of ours between goroutines. SQLite is
// C translated to Go; the rest are expressions, ciphers, compression and the widths of characters. The tests of the
// platform need less than half of the time without it, those of the live table a ninth.
var computes = []string{
	"modernc.org/...", "regexp/...", "crypto/internal/...", "math/big", "compress/...", "hash/...", "unicode/...",
	"github.com/charmbracelet/x/ansi/...", "github.com/clipperhouse/...",
}

// noGoroutines are the packages whose tests start no goroutine and link nothing of ours that does, so that there is no
// race to find. A test of tools/house compares the list with the sources.
var noGoroutines = strings.Fields(`
	agent/outbox agent/recorder agent/update chaos/step diag/classify diag/evidence diag/record diag/render diag/trust gpu/fault
	gpu/kmsg gpu/logfile gpu/policy/judge gpu/report gpu/state gpu/status gpu/xid internal/clean internal/owned internal/page
	internal/sleep internal/strictyaml preflight/probe/scrub preflight/vantage/openssh internal/xunit ops/history tools/catalogen tools/fuzzall tools/house tools/notices
	tools/statements tools/testkit/goldentest tools/testkit/html5 tools/testkit/porttest tools/testneeds`)

// elsewhere are packages with goroutines that make race leaves to make test-deep, with the reason.
var elsewhere = map[string]string{
	"cmd/gpuaasctl":              "its scripts run programs, which the detector does not see",
	"cmd/gpuaas-fault":           "it runs one change after the other, and chaos/node has the code",
	"cmd/gpuaasctl/tui/explorer": "one goroutine shows what another one hands over whole",
	"golden":                     "recordings are judged in one goroutine for each",
	"ops/explain":                "as golden",
	"lab/hosttools":              "it installs programs",
	"diag":                       "pure functions; its goroutines are of tests",
	"tools/docgen":               "it writes pages",
	"tools/schemagen":            "it writes schemas",
}

// raceFlags are those of go test under the race detector. It makes a test five times as slow and finds races in code,
// not in rows of a table: -short leaves rows out.
func raceFlags() []string {
	flags := []string{"-race", "-short", "-count=1", "-vet=off", patience}
	for _, p := range computes {
		flags = append(flags, "-gcflags="+p+"=-race=false")
	}
	return flags
}

// raced is make race, for these packages or all that have something to find.
func raced(ctx context.Context, packages []string, only string, all bool) ([]suite, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "env", "CC")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath(strings.TrimSpace(out.String())); err != nil {
		fmt.Println("note: no C compiler, so no run with the race detector")
		return nil, nil
	}
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	out.Reset()
	cmd = exec.CommandContext(ctx, "go", append([]string{"list", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, packages...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, errs.String())
	}
	var found []string
	for pkg := range strings.FieldsSeq(out.String()) {
		reason, left := elsewhere[short(pkg)]
		switch {
		case slices.Contains(noGoroutines, short(pkg)):
		case left && !all:
			fmt.Printf("left out: %s: %s\n", short(pkg), reason)
		default:
			found = append(found, pkg)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	// The detector needs cgo. At its end a program waits a second for races that are still to be found, and tests start
	// thousands of them.
	env := []string{"CGO_ENABLED=1", "GORACE=atexit_sleep_ms=20"}
	old := oldTerminal(raceFlags())
	old.env = env
	return []suite{{env: env, flags: append(raceFlags(), "-run="+only), packages: found}, old}, nil
}
