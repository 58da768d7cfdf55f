//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// downBudget bounds a whole Down.
const downBudget = time.Minute

const nspawnDir = "/run/systemd/nspawn"

// Down removes the lab: processes, mounts, network, cgroups, files and the profile. The image stays in the cache
// unless purge is set. It works from any state, including a half-built lab or one of another build, and does
// everything that it can before it returns the joined errors.
func Down(ctx context.Context, opts Options, purge bool) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, downBudget)
	defer cancel()
	unlock, err := lock(ctx, opts.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	l := &Lab{opts: opts}
	l.state, err = readAnyState(opts.StateDir)
	if errors.Is(err, os.ErrNotExist) { // there is no lab on this host
		return l.stage(ctx, "files", func(ctx context.Context) (string, error) { return l.removeFiles(ctx, purge) })
	}
	if err != nil {
		return err
	}
	return l.down(ctx, purge)
}

func (l *Lab) down(ctx context.Context, purge bool) error {
	return errors.Join(
		l.stage(ctx, "machines", func(ctx context.Context) (string, error) {
			ms := l.knownMachines()
			return fmt.Sprintf("%d stopped, their disks are gone", len(ms)),
				forAll(ms, func(m Machine) error { return l.stopMachine(ctx, m) })
		}),
		l.stage(ctx, "network", func(ctx context.Context) (string, error) { return "removed", removeNetwork(ctx) }),
		l.stage(ctx, "files", func(ctx context.Context) (string, error) { return l.removeFiles(ctx, purge) }),
	)
}

// knownMachines returns every machine with a trace on the host: those in the state, and those that have a folder.
func (l *Lab) knownMachines() []Machine {
	known := l.Machines()
	for _, m := range machines(max(MaxNodes, l.state.Nodes), MaxBare) {
		if !slices.ContainsFunc(known, func(k Machine) bool { return k.Name == m.Name }) && exists(l.place(m).dir) {
			known = append(known, m)
		}
	}
	return known
}

// stopMachine kills a machine and removes its disk.
func (l *Lab) stopMachine(ctx context.Context, m Machine) error {
	err := l.killMachine(ctx, m)
	if host.Booted() {
		_, _ = command(ctx, "systemctl", "stop", unitOf(m)) // removes the unit; it is fine if it does not exist
	}
	p := l.place(m)
	leftovers := append(nspawnLocks(p.root()), filepath.Join(nspawnDir, "propagate", m.container()))
	return errors.Join(err, unmountDisk(p), clearExport(m), forAll(leftovers, os.RemoveAll), os.RemoveAll(p.dir))
}

// forAll calls do for each element, even after an error.
func forAll[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	for i, one := range all {
		errs[i] = do(one)
	}
	return errors.Join(errs...)
}

// clearExport removes the mount that newer versions of systemd-nspawn make for a machine's sockets. A killed
// systemd-nspawn leaves it behind, and the next one refuses to start over it.
func clearExport(m Machine) error {
	dir := filepath.Join(nspawnDir, "unix-export", m.container())
	return errors.Join(forAll(mountsBelow(dir), unmount), os.RemoveAll(dir))
}

// nspawnLocks returns the lock files that a killed systemd-nspawn leaves for a root folder. Their names contain
// its device and inode, so they must be determined while it is still mounted.
func nspawnLocks(root string) []string {
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil {
		return nil
	}
	name := fmt.Sprintf("inode-%d:%d", st.Dev, st.Ino)
	return []string{filepath.Join(nspawnDir, "locks", name)}
}

// removeFiles removes the lab's own files, the files that systemd-nspawn and ip made for it, and the state last.
func (l *Lab) removeFiles(ctx context.Context, purge bool) (string, error) {
	var errs []error
	note := "state and profile are gone, the image stays in " + l.opts.CacheDir
	if l.state.Profile != "" {
		errs = append(errs, removeIfThere(l.state.Profile), removeIfThere(l.bareProfilePath()),
			removeEmpty(filepath.Dir(l.state.Profile)),
			removeEmpty(filepath.Dir(filepath.Dir(l.state.Profile))))
	}
	if l.state.MadeNspawnDir {
		errs = append(errs, forAll([]string{"propagate", "unix-export", "locks", ""}, func(d string) error {
			return removeEmpty(filepath.Join(nspawnDir, d))
		}))
	}
	if !host.Booted() && l.state.Version != 0 {
		errs = append(errs, l.removeLabGroups(ctx))
	}
	if (l.state.MadeNetnsDir || l.state.MadeNetnsTop) && emptyDir(netnsDir) {
		errs = append(errs, unmount(netnsDir))
		if l.state.MadeNetnsDir {
			errs = append(errs, removeEmpty(netnsDir))
		}
	}
	if purge {
		images, _ := filepath.Glob(filepath.Join(l.opts.CacheDir, "image-*"))
		bare, _ := filepath.Glob(filepath.Join(l.opts.CacheDir, bareName+"*"))
		images = append(append(images, bare...), filepath.Join(l.opts.CacheDir, "building"))
		errs = append(errs, forAll(images, removeImage), removeEmpty(l.opts.CacheDir))
		note = "state, profile and image are gone"
	}
	if err := errors.Join(errs...); err != nil {
		return "", err // the state stays, so that another Down can continue
	}
	return note, errors.Join(os.RemoveAll(l.opts.StateDir), removeEmpty(filepath.Dir(l.opts.StateDir)))
}

// removeLabGroups also kills machines whose only remaining trace is their cgroup.
func (l *Lab) removeLabGroups(ctx context.Context) error {
	h, err := findHierarchies()
	if err != nil {
		return err
	}
	return group{h: h, path: l.labGroup()}.kill(ctx, "")
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeEmpty removes a folder that we may have made, unless another process uses it.
func removeEmpty(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

func emptyDir(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}
