//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// mountsBelow returns the mount points at and below dir, the deepest first.
func mountsBelow(dir string) []string {
	var points []string
	for _, m := range mounts() {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			points = append(points, m.Point)
		}
	}
	slices.Reverse(points) // mountinfo is in the order of mounting
	return points
}

// mounts reads this process's mount table; it returns none if that cannot be read.
func mounts() []host.Mount {
	all, _ := host.This.Mounts(host.Thread)
	return all
}

func mounted(point string) bool {
	return slices.ContainsFunc(mounts(), func(m host.Mount) bool { return m.Point == point })
}

// unmount detaches point. It also succeeds if point is not a mount point.
func unmount(point string) error {
	err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", point, err)
	}
	return nil
}

// mountDisk mounts a machine's disks: a tmpfs of limited size with the writable layer over the image and, for a
// machine with a separate /var, another one over the image's /var. An existing disk keeps its content.
func mountDisk(p place, image string, m Machine) error {
	if err := mountLayer(p.disk(), m.Disk, image, p.root()); err != nil || m.Var == "" {
		return err
	}
	return mountLayer(p.varDisk(), m.Var, filepath.Join(image, "var"), filepath.Join(p.root(), "var"))
}

// mountLayer mounts the folder lower at point with a writable layer of limited size in disk.
func mountLayer(disk, size, lower, point string) error {
	for _, d := range [...]string{disk, point} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if !mounted(disk) {
		if err := unix.Mount("gpuaas-lab", disk, "tmpfs", 0, "mode=755,size="+size); err != nil {
			return fmt.Errorf("mount the disk %s: %w", disk, err)
		}
	}
	if mounted(point) {
		return nil
	}
	upper, work := filepath.Join(disk, "upper"), filepath.Join(disk, "work")
	for _, d := range [...]string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	data := "lowerdir=" + lower + ",upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("gpuaas-lab", point, "overlay", 0, data); err != nil {
		return fmt.Errorf("mount %s: %w", point, err)
	}
	return nil
}

// unmountDisk removes a machine's disk and its content.
func unmountDisk(p place) error {
	return forAll(mountsBelow(p.dir), unmount)
}

// diskUse returns the used and total bytes of a machine's disk; zeros if it is not mounted.
func diskUse(disk string) (used, size int64) {
	var st unix.Statfs_t
	if !mounted(disk) || unix.Statfs(disk, &st) != nil {
		return 0, 0
	}
	size = int64(st.Blocks) * st.Bsize
	return size - int64(st.Bfree)*st.Bsize, size
}
