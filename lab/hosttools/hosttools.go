// Package hosttools lists the programs of this host that the lab, the tests and the lab suite run, with the Debian
// package of each, and installs missing ones. It does not cover packages inside the lab's machines (see the lab's
// image) or programs that every Debian has (packages marked Essential). Its callers are `gpuaasctl lab up` and
// tools/testneeds, which `make needs` runs.
package hosttools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Use is a purpose of a program; uses are combined with |.
type Use uint8

const (
	Lab    Use = 1 << iota // gpuaasctl lab
	Fast                   // make test
	Suite                  // make test-lab, in addition to Lab and Fast
	Oracle                 // tools/bench/helper.sh, which the lab suite compares its results with
	Bench                  // make bench, in addition to Lab and Oracle
	// make test: unpacked only, since installing the package would start a server on this host
	Server
	Browser  // make test-html
	Compiler // make build, for the GPUs of the lab's nodes; without it they have none
)

// Tool is a program, its package, and its uses.
type Tool struct {
	Program string
	Package string
	For     Use
}

// Table lists the programs by package. A test compares it with the sources. util-linux is Essential on Debian; it
// is listed since the lab also runs on distributions that split it up.
var Table = [...]Tool{
	{"systemd-nspawn", "systemd-container", Lab},
	{"mmdebstrap", "mmdebstrap", Lab},
	{"ip", "iproute2", Lab | Fast},
	{"unshare", "util-linux", Lab | Fast},
	{"nsenter", "util-linux", Lab | Fast},
	{"setpriv", "util-linux", Lab},
	{"mount", "mount", Fast},
	{"umount", "mount", Fast},
	{"ssh", "openssh-client", Lab | Fast | Oracle},
	{"nft", "nftables", Fast | Suite},
	{"mkfs.ext4", "e2fsprogs", Fast},
	{"e2fsck", "e2fsprogs", Fast},
	{"chattr", "e2fsprogs", Fast},
	{"curl", "curl", Lab | Fast | Oracle}, // probes of drills from the operator's machine
	{"timeout", "coreutils", Lab},         // the same
	{"jq", "jq", Oracle},
	{"openssl", "openssl", Fast | Oracle},
	{"ps", "procps", Fast},
	{"zsh", "zsh", Fast},
	{"fish", "fish", Fast},
	{"sysctl", "procps", Bench},
	{"nginx", "nginx", Server},
	{"haproxy", "haproxy", Server},
	{"apache2", "apache2-bin", Server},
	{"caddy", "caddy", Server},
	{"chromium", "chromium", Browser},
	{"npm", "npm", Browser},
	{"gcc", "gcc", Compiler},
	{"gencat", "libc6-dev", Compiler}, // which contains no program, but depends on the package of this one
}

// Budget bounds apt-get.
const Budget = 5 * time.Minute

// For returns the programs of the table with any of these uses.
func For(uses Use) []Tool {
	var tools []Tool
	for _, t := range Table {
		if t.For&uses != 0 {
			tools = append(tools, t)
		}
	}
	return tools
}

// Missing returns the programs of these uses that are in no folder of path, a list like $PATH.
func Missing(uses Use, path string) []Tool {
	return slices.DeleteFunc(For(uses), func(t Tool) bool {
		for _, dir := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join(dir, t.Program)); err == nil && filepath.IsAbs(found) {
				return true
			}
		}
		return false
	})
}

// Packages returns the packages of tools without duplicates, in order.
func Packages(tools []Tool) []string {
	var names []string
	for _, t := range tools {
		if !slices.Contains(names, t.Package) {
			names = append(names, t.Package)
		}
	}
	return names
}

// Install installs the packages of missing programs of these uses, with apt-get and as root. It returns the
// packages' names, or none if nothing was missing. It returns an error if a program is not in $PATH afterwards.
func Install(ctx context.Context, uses Use) ([]string, error) {
	missing := Missing(uses, os.Getenv("PATH"))
	packages := Packages(missing)
	if len(packages) == 0 {
		return nil, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, fmt.Errorf("install %s first: this host has no apt-get", strings.Join(packages, " "))
	}
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	if err := apt(ctx, "update", "-q"); err != nil {
		return nil, err
	}
	if err := apt(ctx, append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...)...); err != nil {
		return nil, err
	}
	if missing = Missing(uses, os.Getenv("PATH")); len(missing) > 0 {
		return nil, fmt.Errorf("installed %s, and %s is in no folder of PATH (%s): add /usr/sbin and /sbin to PATH",
			strings.Join(packages, " "), missing[0].Program, os.Getenv("PATH"))
	}
	return packages, nil
}

// apt runs apt-get non-interactively. An error contains the end of its output.
func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("not done within %s", Budget), err)
	}
	text := strings.TrimSpace(string(out))
	return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, text[max(0, len(text)-600):])
}
