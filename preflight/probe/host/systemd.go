//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// isUnitName reports whether systemd accepts s as a unit's name; such a name cannot be taken for an option.
func isUnitName(s string) bool { return plainName(s, `:_.\@-`, 255) }

// errNoSystemd means that systemctl cannot reach systemd.
var errNoSystemd = errors.New("systemd does not answer")

// properties are the properties of a unit that we read, by systemd's own names.
var properties = strings.Join([]string{
	"LoadState", "ActiveState", "SubState", "Result", "ExecMainCode", "ExecMainStatus", "MainPID", "NRestarts",
	"FragmentPath", "DropInPaths", "ControlGroup", "ExecStart", "EnvironmentFiles",
	"PrivateNetwork", "NetworkNamespacePath", "JoinsNamespaceOf", "RestrictAddressFamilies", "IPAddressDeny",
	"IPAddressAllow", "SystemCallFilter", "LimitNOFILE", "TasksMax", "TasksCurrent",
}, ",")

// showUnit queries systemd. A missing unit is not an error: its LoadState is not-found.
func showUnit(ctx context.Context, unit string) (host.Unit, error) {
	if u, found, err := locate(ctx, unit); found {
		return u, err
	}
	if !isUnitName(unit) {
		return nil, fmt.Errorf("%q is not a unit name", unit)
	}
	blocks, err := showUnits(ctx, unit)
	if err != nil {
		return nil, err
	}
	return blocks[0], nil
}

// showUnits queries units with valid names, and returns them in order.
func showUnits(ctx context.Context, units ...string) ([]host.Unit, error) {
	s, err := command(ctx, host.ShowUnits(properties, units...)...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errNoSystemd
	case err != nil:
		return nil, fmt.Errorf("asking systemctl: %w", err)
	case s.Code != 0 && strings.Contains(s.Complaint(), "Access denied"):
		return nil, fmt.Errorf("asking systemctl: %w", os.ErrPermission)
	case s.Code != 0:
		return nil, fmt.Errorf("%w: systemctl: %s", errNoSystemd, s.Complaint())
	}
	all := host.ParseUnits(string(s.Out))
	if len(all) != len(units) {
		return nil, fmt.Errorf("%w: it answered for %d units in place of %d", errNoSystemd, len(all), len(units))
	}
	return all, nil
}

// number returns a numeric property; nil for another value.
func number(u host.Unit, name string) *int {
	n, ok := u.Number(name)
	if !ok {
		return nil
	}
	return new(int(n))
}

// execOf returns the path of the last ExecStart: "{ path=/usr/bin/x ; argv[]=/usr/bin/x run ; ... }".
func execOf(u host.Unit) string {
	_, rest, ok := strings.Cut(u["ExecStart"], "path=")
	if !ok {
		return ""
	}
	path, _, _ := strings.Cut(rest, " ;")
	return path
}

// envFilesOf returns the unit's EnvironmentFile= in order: "/etc/x.env (ignore_errors=no)".
func envFilesOf(u host.Unit) []string {
	var files []string
	for line := range strings.Lines(u["EnvironmentFiles"]) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), " (ignore_errors=")
		if path != "" {
			files = append(files, path)
		}
	}
	return files
}

// systemdWord returns the failure for an error of showUnit.
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

// gather is how long a query to systemd waits for others: those of one walk arrive within a millisecond, and each
// systemctl takes ten times as long.
const gather = 2 * time.Millisecond

// units batches simultaneous queries to systemd. A caller never gets an answer that is older than its call: a caller
// that comes after the query was sent begins the next one. The zero value is ready to use.
type units struct {
	mu   sync.Mutex // guards next and its names
	next *unitBatch
}

// unitBatch is one query. Its answer may be read after done is closed.
type unitBatch struct {
	names  []string
	done   chan struct{}
	all    []host.Unit
	err    error
	gaveUp bool // the caller's time was over, which is not a failure of systemd
}

// show answers like showUnit. If the batch fails, each caller queries for itself, since one unit's problem or the end
// of one caller's time must not fail another's query; but a systemd that hangs is not queried twice.
func (u *units) show(ctx context.Context, unit string) (host.Unit, error) {
	if !isUnitName(unit) || isLocator(unit) {
		return showUnit(ctx, unit)
	}
	b, leads := u.join(unit)
	if leads {
		u.ask(ctx, b)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case b.err == nil:
		return b.all[slices.Index(b.names, unit)], nil
	case b.gaveUp && !leads, len(b.names) > 1 && !errors.Is(b.err, context.DeadlineExceeded):
		return showUnit(ctx, unit)
	}
	return nil, b.err
}

// ask waits for others and sends the query.
func (u *units) ask(ctx context.Context, b *unitBatch) {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	u.mu.Lock()
	u.next = nil
	u.mu.Unlock()
	b.all, b.err = showUnits(ctx, b.names...)
	b.gaveUp = ctx.Err() != nil
	close(b.done)
}

// join adds unit to the next query; leads: the caller must send it.
func (u *units) join(unit string) (b *unitBatch, leads bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.next == nil {
		u.next, leads = &unitBatch{done: make(chan struct{})}, true
	}
	if !slices.Contains(u.next.names, unit) {
		u.next.names = append(u.next.names, unit)
	}
	return u.next, leads
}

// commandLimit is the timeout of systemctl, getent and a program's version command: each answers in milliseconds if it
// answers at all.
const commandLimit = 2 * time.Second

// command runs argv with commandLimit.
func command(ctx context.Context, argv ...string) (host.Answer, error) {
	return runCommand(ctx, host.Command{Limit: measure.Briefly(ctx, commandLimit)}, argv...)
}

// runCommand runs argv. An error means that the command gave no exit status; it is the context's if its time was up.
func runCommand(ctx context.Context, c host.Command, argv ...string) (host.Answer, error) {
	a, err := c.Run(ctx, argv...)
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	return a, err
}
