// Command labsmoke asks real machines some of what the lab suite asks, in about five minutes, for `make lab-smoke`.
//
//	go run ./tools/labsmoke [-seed N] [-commits 50] [-due 8] [-draw 6] [-rows fault:NAME,drill:NAME] [-list]
//
// It raises a lab, walks it healthy, and tries the faults and drills whose hop, kind of fault, probe or own entry
// changed in the last commits, at most -due of them, and -draw others that GPUAASCTL_SMOKE_SEED or -seed draws; by
// default the seed is the hour. Then it takes the lab down, and compares the host with what it was before. It prints
// what it leaves out with the reason, the time of each part, and the command that repeats the run. -list prints what
// would be tried. Ctrl-C takes the lab down.
//
// A file that only moved, or in which only imports or comments differ, has not changed. Uncommitted changes count.
// Exit status: 0 all passed and nothing is left, or this host cannot run a lab; 1 not; 2 usage, or a lab is up.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(run(ctx, os.Stdout, os.Args[1:]))
}

// options are the flags.
type options struct {
	seed               uint64
	commits, due, draw int
	rows               string
	list               bool
}

func parse(args []string, env func(string) string) (options, error) {
	var o options
	flags := flag.NewFlagSet("labsmoke", flag.ContinueOnError)
	seed := flags.String("seed", cmp.Or(env("GPUAASCTL_SMOKE_SEED"), time.Now().UTC().Format("0600215")),
		"draws the rows that are not due")
	flags.IntVar(&o.commits, "commits", 50, "rows that changed in so many `COMMITS` are due")
	flags.IntVar(&o.due, "due", 8, "try at most so many `ROWS` that are due")
	flags.IntVar(&o.draw, "draw", 6, "draw so many other `ROWS`")
	flags.StringVar(&o.rows, "rows", "", "try these `ROWS` alone: fault:NAME or drill:NAME, with commas")
	flags.BoolVar(&o.list, "list", false, "print what would be tried")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var err error
	if o.seed, err = strconv.ParseUint(*seed, 10, 64); err != nil {
		return o, fmt.Errorf("seed: %w", err)
	}
	return o, nil
}

func run(ctx context.Context, out io.Writer, args []string) int {
	o, err := parse(args, os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "labsmoke:", err)
		return 2
	}
	began := time.Now()
	s, err := selected(ctx, out, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "labsmoke:", err)
		return 2
	}
	s.print(out)
	if o.list {
		return 0
	}
	if why := cannotRun(); why != "" {
		fmt.Fprintln(out, "lab smoke skipped:", why)
		return 0
	}
	code := smoke(ctx, out, s.rows(), o.seed)
	fmt.Fprintf(out, "=== %s in all; repeat: %s\n", time.Since(began).Round(time.Second), o.command())
	return code
}

// selected is what the run tries: the rows that are named, or those that are due and some more.
func selected(ctx context.Context, out io.Writer, o options) (selection, error) {
	rows, err := allRows(".")
	if err != nil {
		return selection{}, err
	}
	if o.rows != "" {
		var s selection
		for _, name := range strings.Split(o.rows, ",") {
			i := slices.IndexFunc(rows, func(r row) bool { return r.String() == name })
			if i < 0 {
				return s, fmt.Errorf("no row %q: want fault:NAME or drill:NAME", name)
			}
			s.drawn = append(s.drawn, rows[i])
		}
		return s, nil
	}
	changed, err := changedFiles(ctx, ".", o.commits)
	if ctx.Err() != nil {
		return selection{}, ctx.Err()
	}
	if err != nil {
		fmt.Fprintf(out, "note: no row is due, only %d are drawn: %v\n", o.draw, err)
	} else {
		fmt.Fprintf(out, "%d files changed in %d commits, %s\n", countFiles(changed), o.commits, unmapped(changed, rows))
	}
	fmt.Fprintf(out, "GPUAASCTL_SMOKE_SEED=%d\n", o.seed)
	return choose(changed, rows, o.due, o.draw, o.seed), nil
}

func countFiles(changed map[string]bool) (n int) {
	for f := range changed {
		if !strings.Contains(f, "#") {
			n++
		}
	}
	return n
}

// unmapped counts the changed files that no row is known to exercise more than others.
func unmapped(changed map[string]bool, rows []row) string {
	n := countFiles(changed)
	for f := range changed {
		if slices.ContainsFunc(rows, func(r row) bool { return slices.Contains(r.files, f) }) && !strings.Contains(f, "#") {
			n--
		}
	}
	return fmt.Sprintf("%d of them no hop's, kind's or probe's own", n)
}

func (o options) command() string {
	if o.rows != "" {
		return "go run ./tools/labsmoke -rows " + o.rows
	}
	return fmt.Sprintf("go run ./tools/labsmoke -seed %d -commits %d -due %d -draw %d", o.seed, o.commits, o.due, o.draw)
}

// cannotRun is why this host has no lab; "" if it can have one.
func cannotRun() string {
	switch {
	case runtime.GOOS != "linux":
		return "needs Linux"
	case os.Getuid() != 0:
		return "needs root"
	}
	return ""
}

// print writes what is tried, and what is left out although it is due.
func (s selection) print(out io.Writer) {
	for _, d := range s.due {
		fmt.Fprintf(out, "due    %-36s %-34s %s\n", d.row, d.row.hop, strings.Join(d.changed, " "))
	}
	for _, r := range s.drawn {
		fmt.Fprintf(out, "drawn  %-36s %s\n", r, r.hop)
	}
	for _, why := range []string{coveredWhy, boundWhy} {
		var names []string
		for _, d := range s.left {
			if d.why == why && !slices.ContainsFunc(s.drawn, func(r row) bool { return r.String() == d.row.String() }) {
				names = append(names, d.row.String())
			}
		}
		slices.Sort(names)
		if len(names) > 0 {
			fmt.Fprintf(out, "left out, %d due rows (%s): %s\n", len(names), why, strings.Join(names, " "))
		}
	}
}
