//go:build linux

// Command baretest runs the fast suite on a machine that has only what README.md requires: a bare Debian tree with Go,
// git and make, in its own namespaces and without this host's programs. It fails if a test is skipped for a reason that
// tools/ci/skips.go does not list, or if installing does not provide a program that the lab or its suite needs. Package
// arguments select the packages to test. "lab" instead runs `make demo` and a part of the lab suite; no other lab may
// be up on this host. `make test-bare` and `make test-bare-lab` call it.
//
// It needs root, Debian or Ubuntu, and a clone of the repository; it tests what is committed. Exit status: 0 passed, 1
// failed, 2 the tree could not be made.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/lab/hosttools"
)

// cloneDir is where the repository is in the tree.
const cloneDir = "/root/gpuaasctl"

// onLab is the argument that selects a lab instead of the fast suite.
const onLab = "lab"

func main() {
	if len(os.Args) > 1 && os.Args[1] == insideMark {
		os.Exit(inside(os.Args[2], os.Args[3:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// run makes the tree, runs in it the tests that args select, and removes it.
func run(ctx context.Context, args []string) (code int, err error) {
	tree, err := newTree(ctx)
	if err != nil {
		return 2, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree.dir)) }()
	if left := hosttools.Missing(hosttools.Fast, tree.path()); len(left) == 0 {
		return 2, errors.New("the tree has every program that the tests install: it shows nothing")
	}
	check := tree.fast
	if slices.Equal(args, []string{onLab}) {
		check = tree.lab
	}
	if wrong := check(ctx, args); len(wrong) > 0 {
		return 1, errors.New("in a bare Debian:\n" + strings.Join(wrong, "\n"))
	}
	return 0, nil
}

// leastPassed is how many tests of the fast suite must pass, so that running nothing is not a success.
const leastPassed = 1000

// fast runs the fast suite, or only these packages of it, installs what the lab suite runs, and runs those of its tests
// that need no lab. It returns what failed. A bare tree has no C compiler for the race detector.
func (t *tree) fast(ctx context.Context, packages []string) (wrong []string) {
	least := leastPassed
	if len(packages) > 0 {
		least = 1
	}
	return slices.Concat(
		t.install(ctx, "go", "run", "./tools/testneeds", "fast"),
		t.offline(ctx, tests(fmt.Sprintf("-least=%d", least), packages...)...),
		t.install(ctx, "go", "run", "./tools/testneeds", "lab"), // fails if a program of the table is not installed by it
		t.install(ctx, "env", "DEBIAN_FRONTEND=noninteractive",
			"apt-get", "install", "-q", "-y", "--no-install-recommends", "openssh-server"),
		t.offline(ctx, append([]string{"env", "GPUAASCTL_LAB_TESTS=1"}, tests("-least=20", "./chaos/node")...)...),
		t.offline(ctx, tests("-least=3 -run=TestOpenSSH", "./preflight/vantage")...))
}

// tests is README.md's command for the tests, none of which may be skipped for lack of something; flags are more flags
// of tools/ci.
func tests(flags string, packages ...string) []string {
	return []string{"make", "--no-print-directory", "test", "ARGS=-strict " + flags, "PACKAGES=" +
		strings.Join(packages, " ")}
}

// install runs argv, and returns what failed.
func (t *tree) install(ctx context.Context, argv ...string) (wrong []string) {
	if err := t.command(ctx, os.Stderr, argv...).Run(); err != nil {
		wrong = append(wrong, fmt.Sprintf("%s: %v", strings.Join(argv, " "), err))
	}
	return wrong
}

// oneAddress gives a new network namespace loopback and one address, since every machine has one for its agent to
// report.
const oneAddress = `ip link set lo up && ip address add 203.0.113.1 dev lo && exec "$@"`

// offline runs argv in a new network namespace: the fast suite needs no network, and must not see a lab on this host.
func (t *tree) offline(ctx context.Context, argv ...string) (wrong []string) {
	cmd := t.command(ctx, os.Stdout, append([]string{"sh", "-c", oneAddress, "sh"}, argv...)...)
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	return judge(cmd, argv)
}

// labScript runs README.md's first command, then on its lab the parts of the lab suite that use this host's programs:
// the packet filter and the second opinion. The lab must go down in the same namespaces.
const labScript = `make demo && go run ./tools/testneeds lab &&
GPUAASCTL_LAB_TESTS=1 GPUAASCTL_BIN=$PWD/bin \
go run ./tools/ci test -strict -least=3 -run 'TestCrashMatrix/t1/armed/lose-path$|TestHealthyAgainAndAgain' ./lab/e2e
code=$?; bin/gpuaasctl lab down || exit 1; exit $code`

// lab starts a lab in the tree, and returns what failed.
func (t *tree) lab(ctx context.Context, _ []string) (wrong []string) {
	argv := []string{"sh", "-c", labScript}
	return judge(t.command(ctx, os.Stdout, argv...), argv)
}

// judge runs argv as cmd, and returns what failed.
func judge(cmd *exec.Cmd, argv []string) (wrong []string) {
	began := time.Now()
	err := cmd.Run()
	fmt.Printf("\n%s: %s\n\n", strings.Join(argv, " "), time.Since(began).Round(time.Second))
	if err != nil {
		wrong = append(wrong, fmt.Sprintf("%s: %v", strings.Join(argv, " "), err))
	}
	return wrong
}

// tree is the test's machine, as a folder.
type tree struct {
	dir, goRoot, goCache, goMods string
}

// newTree copies the bare Debian, and clones the repository into it.
func newTree(ctx context.Context) (*tree, error) {
	if _, err := hosttools.Install(ctx, hosttools.Lab); err != nil {
		return nil, err
	}
	bare, err := lab.Bare(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("make a bare Debian: %w", err)
	}
	fmt.Println(bare.Note)
	t := &tree{}
	for name, to := range map[string]*string{"GOROOT": &t.goRoot, "GOCACHE": &t.goCache, "GOMODCACHE": &t.goMods} {
		if *to, err = output(ctx, "go", "env", name); err != nil {
			return nil, err
		}
	}
	if _, err := output(ctx, "go", "mod", "download"); err != nil {
		return nil, err
	}
	if t.dir, err = os.MkdirTemp(filepath.Dir(bare.Dir), filepath.Base(bare.Dir)+"-"); err != nil {
		return nil, err
	}
	if err := t.fill(ctx, bare); err != nil {
		return nil, errors.Join(err, os.RemoveAll(t.dir))
	}
	return t, nil
}

// fill creates the tree's files: those of the bare Debian, this host's configuration for packages and names, the clone.
func (t *tree) fill(ctx context.Context, bare lab.BareTree) error {
	if _, err := output(ctx, "cp", "-a", "--", bare.Dir+"/.", t.dir); err != nil {
		return err
	}
	resolver, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return err
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"/etc/resolv.conf":                resolver,
		"/etc/hosts":                      []byte("127.0.0.1 localhost\n::1 localhost\n"),
		"/etc/machine-id":                 []byte(hex.EncodeToString(id) + "\n"), // the first boot writes it
		"/etc/apt/sources.list":           []byte(strings.Join(bare.Sources, "\n") + "\n"),
		"/etc/apt/apt.conf.d/90this-host": []byte(strings.Join(bare.Apt, "\n") + "\n"),
	} {
		if err := os.WriteFile(t.dir+name, text, 0o644); err != nil {
			return err
		}
	}
	return t.clone(ctx)
}

// clone clones the repository into the tree. Another user may own it, which git refuses by default.
func (t *tree) clone(ctx context.Context) error {
	config := t.dir + "/tmp/gitconfig"
	if err := os.WriteFile(config, []byte("[safe]\n\tdirectory = *\n"), 0o600); err != nil {
		return err
	}
	changed, err := output(ctx, "env", "GIT_CONFIG_GLOBAL="+config, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		fmt.Println("note: what is not committed is not tested")
	}
	_, err = output(ctx, "env", "GIT_CONFIG_GLOBAL="+config, "git", "clone", "-q", "--no-hardlinks", ".", t.dir+cloneDir)
	return errors.Join(err, os.Remove(config))
}

// path is the tree's PATH, as seen from this host.
func (t *tree) path() string {
	var dirs []string
	for _, dir := range filepath.SplitList(systemPath) {
		dirs = append(dirs, t.dir+dir)
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// output runs a program of this host and returns what it printed.
func output(ctx context.Context, argv ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
