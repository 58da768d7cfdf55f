// Command bench prints one table of this tool's costs: a walk compared with a bash helper that checks the same
// hops, round trips, footprint, drills, and the speed of judging reports. Both sides of a ratio are measured
// alternately in one run on one host; if a side fails the ratio is left out. A missed goal shows in the table,
// never in the exit status.
//
// It needs root and the lab, which it starts if needed; without them it measures what it can and lists what it
// left out. The delay comes from a relay in user space between two network namespaces: see link_linux.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options holds the flags of one run.
type options struct {
	quick bool
	keep  bool   // update best.yaml and docs/wire.md
	bin   string // folder of the built binaries

	child   string // "warm": this process is the one inside the slow namespace
	profile string // of the child
	walks   int    // of the child
	session bool   // of the child
	report  string // of the child: file for the report of its last walk
}

func main() {
	o := options{}
	asJSON := flag.Bool("json", false, "print JSON in place of the table")
	flag.BoolVar(&o.quick, "quick", false, "fewer rounds: under two minutes")
	flag.StringVar(&o.bin, "bin", "bin", "`FOLDER` of the built binaries")
	flag.BoolVar(&o.keep, "keep", false,
		"write figures that are better than ever into tools/bench/best.yaml, and the traces into docs/wire.md")
	flag.StringVar(&o.child, "child", "", "what this process does for another bench")
	flag.StringVar(&o.profile, "profile", "", "profile `FILE` of the child")
	flag.IntVar(&o.walks, "walks", 5, "walks of the child")
	flag.BoolVar(&o.session, "session", true, "terminal sessions of the child")
	flag.StringVar(&o.report, "report", "", "`FILE` for the report of the child's last walk")
	only := flag.String("only", "", "one section: walk, trips, wire, footprint, drills, load, judge or doors")
	flag.Parse()
	if err := run(o, *only, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(o options, only string, asJSON bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.child == "warm" {
		return warmChild(ctx, o)
	}
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return err
	}
	o.bin = bin
	if _, err := os.Stat(filepath.Join(bin, "gpuaasctl")); err != nil {
		return fmt.Errorf("the binaries are not built (make build): %w", err)
	}
	t := &table{Began: time.Now(), progress: os.Stderr}
	defer func() { _ = os.Remove(ownReport()) }()
	onLab, giveBack := labSections()
	defer giveBack()
	for _, s := range append(onLab,
		section{"footprint", "binaries", binaries},
		section{"judge", "judging and rendering", judging},
		section{"doors", "doors, beside the same work without", doors},
	) {
		if only != "" && only != s.name {
			continue
		}
		t.section = s.title
		t.report("%s", s.title)
		if err := s.run(ctx, o, t); err != nil {
			t.skip(s.title, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", ctx.Err())
		}
	}
	if err := t.compareBest(bestFile, o.keep); err != nil {
		return err
	}
	if err := t.writePaths(wireFile, o.keep); err != nil {
		return err
	}
	t.Took = time.Since(t.Began).Round(time.Second).String()
	if asJSON {
		return t.writeJSON(os.Stdout)
	}
	return t.write(os.Stdout)
}

// section is one part of the table. The lab's sections come first, since the last section judges the reports that
// they record.
type section struct {
	name, title string
	run         func(context.Context, options, *table) error
}
