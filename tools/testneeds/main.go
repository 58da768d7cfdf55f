// Command testneeds provides the programs that tests run: `make needs` calls it with "fast" and "lab", `make test-lab`
// with "lab", `make bench` with "bench", `make test-html` with "html", `make demo` with "gpus". As root on Debian or
// Ubuntu it installs missing packages; anywhere else it prints which tests will be skipped, and what they need.
// INSTALL=no keeps it from installing. Exit status: 0 the tests can run, 1 they cannot, 2 usage.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/gpuaas/gpuaasctl/lab/hosttools"
)

// sbin has programs for root, and is often not in the PATH of other users.
const sbin = ":/usr/sbin:/sbin"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Stdout, os.Stderr, here(), os.Args[1:]))
}

// host decides whether packages are installed, or the skips are listed.
type host struct {
	linux, root, apt bool
	install          bool // INSTALL is not "no"
	path, sbin       string
	installer        func(context.Context, hosttools.Use) ([]string, error)
	unpacker         func(context.Context, hosttools.Use) ([]string, error)
	nvidia           func(context.Context) ([]string, error)
}

func here() host {
	_, err := exec.LookPath("apt-get")
	return host{
		linux: runtime.GOOS == "linux", root: os.Geteuid() == 0, apt: err == nil,
		install: os.Getenv("INSTALL") != "no", path: os.Getenv("PATH"), sbin: sbin, installer: hosttools.Install,
		unpacker: hosttools.Unpack, nvidia: hosttools.UnpackNVIDIA,
	}
}

// run is main with its environment as parameters; it returns the exit status.
func run(ctx context.Context, out, errs io.Writer, h host, args []string) int {
	uses, ok := map[string]hosttools.Use{
		"fast":  hosttools.Fast,
		"lab":   hosttools.Lab | hosttools.Fast | hosttools.Suite | hosttools.Oracle, // chaos/node is part of both suites
		"bench": hosttools.Lab | hosttools.Oracle | hosttools.Bench,
		"html":  hosttools.Browser,
		"gpus":  0,
	}[strings.Join(args, " ")]
	if !ok {
		fmt.Fprintln(errs, "usage: testneeds fast|lab|bench|html|gpus")
		return 2
	}
	switch {
	case !h.linux:
		fmt.Fprintln(out,
			"note: not Linux: the tests of agents, probes on a node, drills on a machine and the lab are skipped")
		return 0
	case h.root && h.apt && h.install:
		var installed []string
		var err error
		if uses != 0 {
			installed, err = h.installer(ctx, uses)
		}
		if err != nil {
			fmt.Fprintf(errs, "install what the tests run: %v\n(INSTALL=no tests without it, and skips what needs it)\n", err)
			return 1
		}
		if len(installed) > 0 {
			fmt.Fprintln(out, "installed for the tests: "+strings.Join(installed, " "))
		}
		if uses == 0 || uses&hosttools.Suite != 0 {
			h.compiler(ctx, out)
		}
		return h.servers(ctx, out, uses)
	}
	if !h.root {
		h.path += h.sbin
		fmt.Fprintln(out,
			"note: not root: tests that mount, make namespaces or filter packets are skipped, as is the lab suite")
	}
	if missing := hosttools.Missing(uses, h.path); len(missing) > 0 {
		fmt.Fprintf(out, "note: tests are skipped that need %s: %s\n", names(missing), h.why(missing))
	}
	return 0
}

// compiler installs the C compiler that builds the NVML library of the lab's nodes. The lab works without it, but then
// the nodes have no GPUs, and `make build` and `lab up` print that.
func (h host) compiler(ctx context.Context, out io.Writer) {
	installed, err := h.installer(ctx, hosttools.Compiler)
	if err != nil {
		fmt.Fprintf(out, "note: no C compiler: %v\n", err)
	} else if len(installed) > 0 {
		fmt.Fprintln(out, "installed for the lab's GPUs: "+strings.Join(installed, " "))
	}
}

// servers unpacks the servers through which make test walks. The suite skips a server that could not be
// downloaded, and this prints why.
func (h host) servers(ctx context.Context, out io.Writer, uses hosttools.Use) int {
	if uses&hosttools.Fast == 0 {
		return 0
	}
	unpacked, err := h.unpacker(ctx, hosttools.Server)
	if len(unpacked) > 0 {
		fmt.Fprintf(out, "unpacked for the tests in %s: %s\n", hosttools.Unpacked, strings.Join(unpacked, " "))
	}
	if err != nil {
		fmt.Fprintf(out, "note: tests with a server that is missing are skipped: %v\n", err)
	}
	if _, err := h.nvidia(ctx); err != nil {
		fmt.Fprintf(out, "note: tests with NVIDIA's library or its readers are skipped: %v\n", err)
	}
	return 0
}

// names lists the programs with their packages: "nft (nftables), jq (jq)".
func names(tools []hosttools.Tool) string {
	var all []string
	for _, t := range tools {
		all = append(all, t.Program+" ("+t.Package+")")
	}
	return strings.Join(all, ", ")
}

// why returns why nothing is installed, and what to do.
func (h host) why(missing []hosttools.Tool) string {
	packages := strings.Join(hosttools.Packages(missing), " ")
	switch {
	case !h.apt:
		return "no apt-get here; install " + packages
	case !h.install:
		return "INSTALL=no; apt-get install " + packages
	}
	return "only root installs; as root: apt-get install " + packages
}
