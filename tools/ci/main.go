// Command ci runs the tests of the project and says what came of them.
//
//	go run ./tools/ci test [-strict] [-least N] [-run EXPRESSION] [PACKAGE...]   make test
//	go run ./tools/ci race [-all] [PACKAGE...]                                   make race
//	go run ./tools/ci run                                                        .ci/run, after it has built
//	go run ./tools/ci deep [-state FOLDER]                                       make test-deep
//
// test and race read `go test -json`. They print a line for each package as it ends; a failure that does not repeat is
// unstable, which is a defect but no failed run; the end has the slowest packages and tests, what was skipped and why,
// what failed, and a line of counts. run and deep start these and others as processes, each with a log of its own. deep
// keeps what has passed and goes on there when it is started again.
//
// Exit status: 0 all passed or are unstable, 1 not, 2 usage.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("ci "+command, flag.ContinueOnError)
	strict := flags.Bool("strict", false, "a test skipped for lack of something is a failure")
	least := flags.Int("least", 1, "how many tests must pass")
	only := flags.String("run", "", "tests that match this `EXPRESSION` of go test")
	all := flags.Bool("all", false, "also packages that make race leaves out")
	state := flags.String("state", "bin/deep", "the `FOLDER` of what has passed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	packages := flags.Args()
	var err error
	switch command {
	case "test":
		err = runSuites(ctx, os.Stdout, plain(packages, *only), bounds{strict: *strict, least: *least})
	case "race":
		var suites []suite
		if suites, err = raced(ctx, packages, *only, *all); len(suites) > 0 {
			err = runSuites(ctx, os.Stdout, suites, bounds{strict: *strict, least: *least})
		}
	case "run":
		err = runParts(ctx, os.Stdout, submission(), "", "")
	case "deep":
		err = runDeep(ctx, *state)
	default:
		fmt.Fprintln(os.Stderr, "usage: ci test|race|run|deep [FLAG...] [PACKAGE...]")
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
