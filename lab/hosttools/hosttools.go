// Package hosttools is the table of programs of this host that the lab, the tests and the lab suite run, and the Debian
// package of each. It installs what is missing. It knows nothing of the packages inside the lab's machines (the lab's
// image) and of programs that every Debian has (packages marked Essential). Callers are `gpuaasctl lab up` and
// internal/testneeds, which `make test` runs first.
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

// Use is what a program is needed for; uses are combined with |.
type Use uint8

const (
	Lab      Use = 1 << iota // gpuaasctl lab
	Fast                     // make test-fast
	Suite                    // make test-lab, beside what Lab and Fast need
	Oracle                   // bench/helper.sh, the second opinion of the lab suite
	Bench                    // make bench, beside Lab and Oracle
	Server                   // make test-fast: unpacked, since installing the package would start a server on this host
	Browser                  // make test-html
	Compiler                 // make build, for the GPUs of the lab's nodes; without it they have none
)

// Tool is a program, the package that has it, and who runs it.
type Tool struct {
	Program string
	Package string
	For     Use
}

// Table lists the programs by package. A test holds the sources to it. util-linux is Essential on Debian; it is listed
// since the lab also runs where it was taken apart.
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
	{"jq", "jq", Oracle},
	{"openssl", "openssl", Oracle},
	{"ps", "procps", Fast},
	{"sysctl", "procps", Bench},
	{"nginx", "nginx", Server},
	{"haproxy", "haproxy", Server},
	{"apache2", "apache2-bin", Server},
	{"caddy", "caddy", Server},
	{"chromium", "chromium", Browser},
	{"npm", "npm", Browser},
	{"gcc", "gcc", Compiler},
	{"gencat", "libc6-dev", Compiler}, // which has no program; it depends on the package that has this one
}

// Budget bounds apt-get.
const Budget = 5 * time.Minute

// For returns the programs of the table that any of these uses needs.
func For(uses Use) []Tool {
	var tools []Tool
	for _, t := range Table {
		if t.For&uses != 0 {
			tools = append(tools, t)
		}
	}
	return tools
}

// Missing returns the programs of these uses that are in no folder of path, a list such as $PATH.
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

// Packages returns the packages of tools, each once, in their order.
func Packages(tools []Tool) []string {
	var names []string
	for _, t := range tools {
		if !slices.Contains(names, t.Package) {
			names = append(names, t.Package)
		}
	}
	return names
}

// Install installs the packages of what is missing for these uses, by apt-get and as root. It returns their names; none
// when nothing was missing. A program that is in no folder of $PATH afterwards is an error.
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

// apt runs apt-get without questions. An error has the end of what it printed.
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
