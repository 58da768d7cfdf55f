//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/gpuaas/gpuaasctl/lab/hosttools"
)

// ErrNotRoot means that a user other than root tries to set up a lab.
var ErrNotRoot = errors.New("the lab needs root: its machines have namespaces, mounts and cgroups of their own")

// Prepare checks that this host can run a lab, and installs missing tools. It returns a note for the progress
// line.
func Prepare(ctx context.Context) (string, error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("the lab needs Linux, this is %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return "", ErrNotRoot
	}
	if _, err := findHierarchies(); err != nil {
		return "", err
	}
	installed, err := hosttools.Install(ctx, hosttools.Lab)
	if err != nil {
		return "", err
	}
	if len(installed) == 0 {
		return "tools are there", nil
	}
	return "installed " + strings.Join(installed, " "), nil
}
