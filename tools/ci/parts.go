package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// part is a process with a log of its own, which is printed when it ends.
type part struct {
	name string
	argv []string
	// alone: nothing runs beside it. What runs on real machines has this machine to itself: beside a compiler, answers
	// from loopback take longer than any deadline on a slow machine, and a walk then says so.
	alone bool
	// twice: it does not try its own failures again, so it runs once more if it fails, and is unstable if it then passes.
	twice bool
	// online: it downloads. Others have a network namespace with loopback alone and see no lab of this host.
	online bool
}

// result is what came of a part, as deep keeps it.
type result struct {
	Part    string    `json:"part"`
	Tree    string    `json:"tree"` // what was tested
	Passed  bool      `json:"passed"`
	Error   string    `json:"error,omitempty"`
	Tests   counts    `json:"tests"`
	Seconds float64   `json:"seconds"`
	CPU     float64   `json:"cpu_seconds"` // of its processes, without the lab's machines
	Ended   time.Time `json:"ended"`
}

// submission are the parts of a check before a change lands.
func submission() []part {
	return []part{
		{name: "lab-smoke", argv: []string{"make", "lab-smoke"}, alone: true, twice: true},
		{name: "test", argv: []string{"make", "test-bare"}, online: true},
		{name: "lint", argv: []string{"make", "lint"}, online: true},
		{name: "race", argv: []string{"make", "race"}},
	}
}

// deep are the parts of make test-deep: every row of every table.
func deep() []part {
	return []part{
		{name: "drills", argv: []string{"make", "test-lab", "LAB_RUN=^Test(Bare)?Drills$$"}, alone: true},
		{name: "lab", argv: []string{"make", "test-lab", "LAB_SKIP=^Test(Bare)?Drills$$"}, alone: true},
		{name: "bare-lab", argv: []string{"make", "test-bare-lab"}, alone: true, online: true},
		{name: "test", argv: []string{"make", "test-bare"}, online: true},
		{name: "lint", argv: []string{"make", "lint"}, online: true},
		{name: "race", argv: []string{"go", "run", "./tools/ci", "race", "-all"}},
		{name: "mistakes", argv: []string{"make", "test-mutants"}},
		{name: "fuzz", argv: []string{"make", "test-fuzz"}},
		{name: "mutants", argv: []string{"make", "mutants", "ARGS=-all"}},
	}
}

// beside is how many parts run at once that need not be alone: one waits while another compiles.
const beside = 2

// runDeep runs the parts of make test-deep, with all rows.
func runDeep(ctx context.Context, state string) error {
	tree, err := treeOf(ctx)
	if err != nil {
		return err
	}
	if err := os.Setenv("GPUAASCTL_TESTS", "deep"); err != nil {
		return err
	}
	return runParts(ctx, os.Stdout, deep(), state, tree)
}

// runParts runs parts and prints what came of them. With a state folder it leaves out what has passed there for the
// same tree, keeps what passes, and writes summary.json.
func runParts(ctx context.Context, out io.Writer, parts []part, state, tree string) error {
	began := time.Now()
	if state != "" {
		if err := os.MkdirAll(state, 0o755); err != nil {
			return err
		}
	}
	logs, err := os.MkdirTemp("", "ci-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(logs)
	results := make([]result, len(parts))
	var printing sync.Mutex
	say := func(format string, args ...any) {
		printing.Lock()
		defer printing.Unlock()
		fmt.Fprintf(out, format, args...)
	}
	run := func(i int) {
		p, log := parts[i], filepath.Join(logs, parts[i].name+".log")
		if kept := keptResult(state, p.name, tree); kept != nil {
			say("passed before, %s: %s\n", kept.Ended.Format(time.RFC3339), p.name)
			results[i] = *kept
			return
		}
		say("begins: %s: %s\n", p.name, strings.Join(p.argv, " "))
		results[i] = p.run(ctx, log, tree)
		printing.Lock()
		copyFile(out, log)
		printing.Unlock()
		if p.twice && !results[i].Passed && ctx.Err() == nil {
			say("=== %s: %s, begins once more\n", p.name, outcome(&results[i]))
			if again := p.run(ctx, log, tree); again.Passed {
				again.Tests.Unstable++
				results[i] = again
			}
		}
		say("=== %s: %s after %.0f s\n", p.name, outcome(&results[i]), results[i].Seconds)
		if state != "" && ctx.Err() == nil {
			if err := keep(state, p.name+".json", results[i]); err != nil {
				results[i].Passed, results[i].Error = false, err.Error()
			}
		}
	}
	var shared []int
	for i := range parts {
		if parts[i].alone {
			run(i)
		} else {
			shared = append(shared, i)
		}
	}
	slots := make(chan struct{}, beside)
	var wg sync.WaitGroup
	for _, i := range shared {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			run(i)
		})
	}
	wg.Wait()
	if state != "" {
		if err := keep(state, "summary.json", results); err != nil {
			return err
		}
	}
	return summarize(out, results, logs, time.Since(began))
}

// run runs a part into a log.
func (p part) run(ctx context.Context, log, tree string) result {
	r := result{Part: p.name, Tree: tree}
	if err := ctx.Err(); err != nil {
		r.Error = "interrupted"
		return r
	}
	file, err := os.Create(log)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	defer file.Close()
	argv, env := p.argv, os.Environ()
	if !p.online && os.Geteuid() == 0 {
		argv = append(strings.Fields("unshare --net --pid --fork --kill-child --mount-proc sh -c"),
			append([]string{offline, "sh"}, argv...)...)
		env = append(env, "XDG_STATE_HOME=/run/state", "XDG_CONFIG_HOME=/run/config", goEnv(ctx))
	}
	cmd := inGroup(ctx, time.Minute, argv[0], argv[1:]...) // a lab goes down
	cmd.Env, cmd.Stdout, cmd.Stderr = env, file, file
	began := time.Now()
	err = cmd.Run()
	r.Seconds, r.Ended, r.Passed = time.Since(began).Seconds(), time.Now().UTC(), err == nil
	if cmd.ProcessState != nil {
		r.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	if err != nil {
		r.Error = err.Error()
	}
	r.Tests = countsIn(log)
	return r
}

// offline gives a command namespaces of its own: no network but loopback, with an address that agents can report, an
// empty /run, and no processes but its own.
const offline = `ip link set lo up && ip address add 203.0.113.1 dev lo &&
mount -t tmpfs none /run && mkdir /run/lock && "$@"
exit $?`

// goEnv keeps Go's settings file where XDG_CONFIG_HOME is another.
func goEnv(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, "go", "env", "GOENV").Output()
	return "GOENV=" + strings.TrimSpace(string(out))
}

func outcome(r *result) string {
	if r.Passed {
		return "passed"
	}
	return "failed (" + r.Error + ")"
}

// summarize prints a line for each part, and the error if one failed.
func summarize(out io.Writer, results []result, logs string, took time.Duration) error {
	var wrong []error
	for i := range results {
		if r := &results[i]; !r.Passed {
			wrong = append(wrong, fmt.Errorf("failed: %s: %s", r.Part, r.Error))
			fmt.Fprintf(out, "=== failed: %s, the end of its log:\n", r.Part)
			tail(out, filepath.Join(logs, r.Part+".log"))
		}
	}
	fmt.Fprintln(out)
	var all counts
	for i := range results {
		r := &results[i]
		fmt.Fprintf(out, "%6.0f s  %6.0f s of processors  %-10s %s  %s\n", r.Seconds, r.CPU, r.Part, outcome(r), r.Tests)
		all.add(r.Tests)
	}
	fmt.Fprintf(out, "%s, %s\n", all, took.Round(time.Second))
	return errors.Join(wrong...)
}

// keptResult returns what passed before for the same sources; nil if nothing did.
func keptResult(state, name, tree string) *result {
	if state == "" {
		return nil
	}
	var r result
	text, err := os.ReadFile(filepath.Join(state, name+".json"))
	if err != nil || json.Unmarshal(text, &r) != nil || r.Tree != tree || !r.Passed {
		return nil
	}
	return &r
}

// keep writes a document of the state folder, whole or not at all.
func keep(state, name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(state, name)
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
