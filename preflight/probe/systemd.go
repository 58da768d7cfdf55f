//go:build linux

package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// isUnitName says what systemd takes as a unit's name; it cannot be taken for an option.
func isUnitName(s string) bool { return plainName(s, `:_.\@-`, 255) }

// errNoSystemd says that systemctl has nobody to ask.
var errNoSystemd = errors.New("systemd does not answer")

// properties are what we read of a unit, by systemd's own names.
var properties = strings.Join([]string{
	"LoadState", "ActiveState", "SubState", "Result", "ExecMainCode", "ExecMainStatus", "MainPID", "NRestarts",
	"FragmentPath", "DropInPaths", "ControlGroup", "ExecStart", "EnvironmentFiles",
}, ",")

// unitProps is one unit's properties; a property that is listed more than once has one value per line.
type unitProps map[string]string

// showUnit asks systemd. A unit that does not exist is no error: its LoadState says so.
func showUnit(ctx context.Context, unit string) (unitProps, error) {
	if !isUnitName(unit) {
		return nil, fmt.Errorf("%q is no unit name", unit)
	}
	blocks, err := showUnits(ctx, unit)
	if err != nil {
		return nil, err
	}
	return blocks[0], nil
}

// showUnits asks for units whose names are good, and answers in their order.
func showUnits(ctx context.Context, units ...string) ([]unitProps, error) {
	argv := append([]string{"systemctl", "show", "--no-pager", "--property=" + properties, "--"}, units...)
	s, err := command(ctx, argv...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errNoSystemd
	case err != nil:
		return nil, fmt.Errorf("asking systemctl: %w", err)
	case s.code != 0 && strings.Contains(s.errs, "Access denied"):
		return nil, fmt.Errorf("asking systemctl: %w", os.ErrPermission)
	case s.code != 0:
		return nil, fmt.Errorf("%w: systemctl: %s", errNoSystemd, s.errs)
	}
	blocks := strings.Split(strings.TrimSpace(string(s.out)), "\n\n")
	if len(blocks) != len(units) {
		return nil, fmt.Errorf("%w: it told of %d units in place of %d", errNoSystemd, len(blocks), len(units))
	}
	all := make([]unitProps, len(blocks))
	for i := range blocks {
		all[i] = parseProps(blocks[i])
	}
	return all, nil
}

func parseProps(out string) unitProps {
	props := unitProps{}
	for line := range strings.Lines(out) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "=")
		if !ok {
			continue
		}
		if old, again := props[name]; again {
			value = old + "\n" + value
		}
		props[name] = value
	}
	return props
}

// number is a property that is a number; nil when it is none.
func (u unitProps) number(name string) *int {
	n, err := strconv.Atoi(u[name])
	if err != nil {
		return nil
	}
	return &n
}

// pid is the unit's main process; 0 when it has none.
func (u unitProps) pid() int {
	if n := u.number("MainPID"); n != nil {
		return *n
	}
	return 0
}

// program is the path of the last ExecStart: "{ path=/usr/bin/x ; argv[]=/usr/bin/x run ; ... }".
func (u unitProps) program() string {
	_, rest, ok := strings.Cut(u["ExecStart"], "path=")
	if !ok {
		return ""
	}
	path, _, _ := strings.Cut(rest, " ;")
	return path
}

// envFiles are the unit's EnvironmentFile= in order: "/etc/x.env (ignore_errors=no)".
func (u unitProps) envFiles() []string {
	var files []string
	for line := range strings.Lines(u["EnvironmentFiles"]) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), " (ignore_errors=")
		if path != "" {
			files = append(files, path)
		}
	}
	return files
}

// systemdWord maps an error of showUnit.
func systemdWord(err error) diag.Failure {
	switch {
	case errors.Is(err, os.ErrPermission):
		return diag.NotPermitted
	case errors.Is(err, context.DeadlineExceeded):
		return diag.Timeout
	case errors.Is(err, context.Canceled):
		return diag.Cancelled
	}
	return diag.Unsupported
}
