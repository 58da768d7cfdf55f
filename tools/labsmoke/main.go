// Command labsmoke runs a part of the lab suite that takes minutes: walks of a healthy machine, the faults and drills
// whose hop, kind or probe changed in the last commits, bounded in number, and some more drawn by a seed. It raises a
// lab for it, takes it down, and compares this machine with the state before.
//
//	go run ./tools/labsmoke [-commits 50] [-due 8] [-draw 6] [-seed N] [-list]
//
// It needs root, and bin/ with everything built: make lab-smoke. It prints what it runs and why, what it leaves out,
// and the seed, with which the same rows are drawn again. Exit status: 0 all passed and nothing is left, 1 not, 2
// usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	commits, due, draw int
	seed               uint64
	list               bool
}

func main() {
	var o options
	flag.IntVar(&o.commits, "commits", 50, "a change in the last `N` commits makes a fault or a drill due")
	flag.IntVar(&o.due, "due", 8, "run at most `N` of those that are due")
	flag.IntVar(&o.draw, "draw", 6, "draw `N` others")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()/60), "of what is drawn")
	flag.BoolVar(&o.list, "list", false, "only print what would run")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) error {
	rows, err := allRows(".")
	if err != nil {
		return err
	}
	changed, err := changedFiles(ctx, ".", o.commits)
	if err != nil {
		fmt.Fprintf(out, "note: nothing is due by its changes: %v\n", err)
	}
	s := choose(changed, rows, o.due, o.draw, o.seed)
	s.print(out, o)
	if o.list {
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root")
	}
	return s.runOnLab(ctx, out)
}

// print prints what runs and why, and what is due and left out.
func (s selection) print(out io.Writer, o options) {
	fmt.Fprintf(out, "again with the same rows: go run ./tools/labsmoke -commits %d -due %d -draw %d -seed %d\n",
		o.commits,
		o.due, o.draw, o.seed)
	for _, d := range s.due {
		fmt.Fprintf(out, "changed: %-50s %s\n", d.row, strings.Join(d.changed[:min(3, len(d.changed))], ", "))
	}
	for _, r := range s.drawn {
		fmt.Fprintf(out, "drawn:   %s\n", r)
	}
	for _, why := range []string{coveredWhy, boundWhy} {
		var names []string
		for _, d := range s.left {
			if d.why == why && !slices.ContainsFunc(s.drawn, func(r row) bool { return r.String() == d.row.String() }) {
				names = append(names, d.row.String())
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(out, "left out, since %s: %s\n", why, strings.Join(names, ", "))
		}
	}
}

// walks is how many walks of a healthy machine must pass.
const walks = "GPUAASCTL_WALKS=3"

// runOnLab runs the rows on a new lab. A lab that is up is taken down for it, and raised again afterwards.
func (s selection) runOnLab(ctx context.Context, out io.Writer) (err error) {
	bin, err := filepath.Abs("bin")
	if err != nil {
		return err
	}
	lab := filepath.Join(bin, "gpuaasctl")
	wasUp := exec.CommandContext(ctx, lab, "lab", "status").Run() == nil
	if wasUp {
		fmt.Fprintln(out, "note: the lab that is up is taken down, and a new one raised afterwards")
		if err := command(ctx, out, nil, lab, "lab", "down"); err != nil {
			return err
		}
	}
	before, err := left()
	if err != nil {
		return err
	}
	began := time.Now()
	env := append(s.env(), "GPUAASCTL_LAB_TESTS=1", "GPUAASCTL_BIN="+bin, walks)
	failed := command(ctx, out, env, "go", "run", "./tools/ci", "test", "-strict", "-least", fmt.Sprint(1+len(s.rows())),
		"-parallel", "5", "-run", s.expression(), "./lab/e2e")
	fmt.Fprintf(out, "rows: %s\n", time.Since(began).Round(time.Second))
	undo := context.WithoutCancel(ctx) // the lab goes down whatever came before
	if exec.CommandContext(undo, lab, "lab", "status").Run() == nil {
		err = command(undo, out, nil, lab, "lab", "down")
	}
	after, readErr := left()
	for _, line := range after {
		if !slices.Contains(before, line) {
			err = errors.Join(err, fmt.Errorf("left on this machine: %s", line))
		}
	}
	if wasUp && ctx.Err() == nil {
		err = errors.Join(err, command(ctx, out, nil, lab, "lab", "up"))
	}
	return errors.Join(failed, readErr, err)
}

// env selects the drills; see lab/e2e, TestDrills.
func (s selection) env() []string {
	return []string{"GPUAASCTL_DRILLS=" + strings.Join(s.names("drill"), " ")}
}

// expression is go test's for the walks, the faults and the drills.
func (s selection) expression() string {
	tests, rows := []string{"TestHealthyAgainAndAgain"}, s.names("fault")
	if len(rows) > 0 {
		tests = append(tests, "TestFaults")
	}
	if len(s.names("drill")) > 0 {
		tests, rows = append(tests, "TestDrills"), append(rows, "platform", "nodes")
	}
	return "^(" + strings.Join(tests, "|") + ")$/^(" + strings.Join(rows, "|") + ")$"
}

// names returns the names of the rows of a kind.
func (s selection) names(kind string) (names []string) {
	for _, r := range s.rows() {
		if r.kind == kind {
			names = append(names, r.name)
		}
	}
	return names
}

// command runs a program of ours to its end. At the end of ctx its process group is asked to end.
func command(ctx context.Context, out io.Writer, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv[:min(4, len(argv))], " "), err)
	}
	return nil
}

// left lists what a lab has on this machine: mounts, links, namespaces, and machines' processes.
func left() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.Contains(fields[4], "gpuaas") {
			all = append(all, "mount "+fields[4])
		}
	}
	for what, pattern := range map[string]string{"link": "/sys/class/net/*", "namespace": "/run/netns/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			all = append(all, what+" "+filepath.Base(name))
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range processes {
		if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == "systemd-nspawn" {
			all = append(all, "process "+filepath.Base(filepath.Dir(name))+" systemd-nspawn")
		}
	}
	slices.Sort(all)
	return all, err
}
