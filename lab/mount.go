//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountsBelow lists the mount points at and below dir, the deepest first.
func mountsBelow(dir string) []string {
	var points []string
	for _, m := range mounts() {
		if m.point == dir || strings.HasPrefix(m.point, dir+"/") {
			points = append(points, m.point)
		}
	}
	slices.Reverse(points) // mountinfo is in the order of mounting
	return points
}

type mountInfo struct{ point, fstype, options string }

// mounts reads this process's mount table.
func mounts() []mountInfo {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var ms []mountInfo
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(line)
		sep := slices.Index(f, "-")
		if len(f) < 7 || sep < 0 || len(f) < sep+4 {
			continue
		}
		ms = append(ms, mountInfo{point: unescape(f[4]), fstype: f[sep+1], options: f[sep+3]})
	}
	return ms
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func mounted(point string) bool {
	return slices.ContainsFunc(mounts(), func(m mountInfo) bool { return m.point == point })
}

// unmount detaches point; that it is no mount (any more) is success.
func unmount(point string) error {
	err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", point, err)
	}
	return nil
}

// mountDisk gives a machine its disk: a tmpfs of limited size with the writable layer, over the image. A disk that is
// there already keeps its content.
func mountDisk(p place, image, size string) error {
	for _, d := range [...]string{p.disk(), p.root()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if !mounted(p.disk()) {
		if err := unix.Mount("gpuaas-lab", p.disk(), "tmpfs", 0, "mode=755,size="+size); err != nil {
			return fmt.Errorf("mount the disk %s: %w", p.disk(), err)
		}
	}
	if mounted(p.root()) {
		return nil
	}
	for _, d := range [...]string{p.upper(), p.work()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	data := "lowerdir=" + image + ",upperdir=" + p.upper() + ",workdir=" + p.work()
	if err := unix.Mount("gpuaas-lab", p.root(), "overlay", 0, data); err != nil {
		return fmt.Errorf("mount the root %s: %w", p.root(), err)
	}
	return nil
}

// unmountDisk takes a machine's disk away, with all that is on it.
func unmountDisk(p place) error {
	var errs []error
	for _, m := range mountsBelow(p.dir) {
		errs = append(errs, unmount(m))
	}
	return errors.Join(errs...)
}

// diskUse returns the used and total bytes of a machine's disk; zeros when it is not mounted.
func diskUse(disk string) (used, size int64) {
	var st unix.Statfs_t
	if !mounted(disk) || unix.Statfs(disk, &st) != nil {
		return 0, 0
	}
	size = int64(st.Blocks) * st.Bsize
	return size - int64(st.Bfree)*st.Bsize, size
}
