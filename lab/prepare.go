//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// tools is what the lab runs on the host, and the package that has it.
var tools = [...]struct{ program, pkg string }{
	{"systemd-nspawn", "systemd-container"},
	{"mmdebstrap", "mmdebstrap"},
	{"ip", "iproute2"},
	{"unshare", "util-linux"},
	{"nsenter", "util-linux"},
	{"setpriv", "util-linux"},
	{"ssh", "openssh-client"},
}

// installBudget bounds apt-get on the host.
const installBudget = 5 * time.Minute

// Prepare checks that this host can hold a lab and installs the tools that are missing. It returns a note for the
// progress line.
func Prepare(ctx context.Context) (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("the lab needs Linux, this is %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return "", errors.New("the lab needs root: its machines have namespaces, mounts and cgroups of their own")
	}
	if _, err := findHierarchies(); err != nil {
		return "", err
	}
	var missing []string
	for _, t := range tools {
		if _, err := exec.LookPath(t.program); err != nil {
			missing = append(missing, t.pkg)
		}
	}
	if len(missing) == 0 {
		return "tools are there", nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", fmt.Errorf("install %s first: this host has no apt-get", strings.Join(missing, " "))
	}
	ctx, cancel := context.WithTimeout(ctx, installBudget)
	defer cancel()
	for _, argv := range [][]string{
		{"apt-get", "update", "-q"},
		append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-q", "-y", "--no-install-recommends"}, missing...),
	} {
		if _, err := commandAny(ctx, argv...); err != nil {
			return "", err
		}
	}
	return "installed " + strings.Join(missing, " "), nil
}
