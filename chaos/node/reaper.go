//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// reaperName is the unit that undoes a drill at boot: the watchdog is gone then.
func reaperName(id string) string { return "gpuaasctl-reaper-" + id + ".service" }

func watchName(id string) string { return "gpuaasctl-watch-" + id + ".service" }

func (h Host) reaperUnit(id string) string { return filepath.Join(h.Paths.Units, reaperName(id)) }

func (h Host) reaperLink(id string) string {
	return filepath.Join(h.Paths.Units, "sysinit.target.wants", reaperName(id))
}

// reaperText is the unit file: it runs early, before anything that might read the changed files, and again if it
// fails.
func reaperText(id, folder string) string {
	return fmt.Sprintf(`[Unit]
Description=Undo drill %[1]s after a reboot
DefaultDependencies=no
RequiresMountsFor=%[2]s
After=local-fs.target
Before=sysinit.target network-pre.target
Conflicts=shutdown.target
ConditionPathExists=%[2]s/journal
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=%[2]s/%[3]s reap --run %[1]s
Restart=on-failure
RestartSec=2

[Install]
WantedBy=sysinit.target
`, id, folder, step.Program)
}

// installReaper writes the unit and the link that enables it, and syncs both. systemd is not notified, since it
// reads them at the next boot. It reports whether it had to create the link's folder.
func (h Host) installReaper(id string) (madeFolder bool, err error) {
	unit, link := h.reaperUnit(id), h.reaperLink(id)
	f, err := os.OpenFile(unit, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(reaperText(id, h.folder(id)))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, err
	}
	switch err := os.Mkdir(filepath.Dir(link), 0o755); {
	case err == nil:
		madeFolder = true
	case !errors.Is(err, fs.ErrExist):
		return false, err
	}
	return madeFolder, errors.Join(os.Symlink(unit, link), syncFolder(link), syncFolder(unit))
}

// removeUnits removes reaper and watchdog. It may be repeated.
func (h Host) removeUnits(ctx context.Context, id string, madeFolder bool) error {
	var errs []error
	for _, p := range [...]string{h.reaperLink(id), h.reaperUnit(id)} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if madeFolder {
		if dir := filepath.Dir(h.reaperLink(id)); empty(dir) {
			errs = append(errs, os.Remove(dir))
		}
	}
	// A daemon-reload may have loaded the reaper; the watchdog may be waiting for a restart.
	units, err := show(ctx, "LoadState", watchName(id), reaperName(id))
	errs = append(errs, err)
	if units[0]["LoadState"] == "loaded" {
		_, err := must(ctx, "", "systemctl", "stop", watchName(id))
		errs = append(errs, err)
	}
	if len(units) > 1 && units[1]["LoadState"] == "loaded" {
		_, err := must(ctx, "", "systemctl", "daemon-reload")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func empty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}
