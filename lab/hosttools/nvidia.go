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
)

// NVIDIA lists packages of Debian's contrib and non-free, and a dependency: NVIDIA's own library of three driver
// branches, and two programs that use it. The tests of the GPU probe load them; nothing is installed.
var NVIDIA = [...]string{"libnvidia-tesla-470-ml1", "libnvidia-tesla-ml1", "libnvidia-ml1", "python3-pynvml", "nvtop",
	"libncursesw6"}

// unpackedNVIDIA contains a folder for each of them.
const unpackedNVIDIA = "/var/cache/gpuaasctl/nvidia"

// Package returns the folder of one of NVIDIA's packages; "" if it was not unpacked.
func Package(name string) string {
	dir := filepath.Join(unpackedNVIDIA, name)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// UnpackNVIDIA downloads and unpacks missing packages. It returns those, even with an error: one failed download
// does not stop the others. It uses a copy of this host's sources with two added components; apt's own
// configuration is not changed.
func UnpackNVIDIA(ctx context.Context) ([]string, error) {
	missing := slices.DeleteFunc(slices.Clone(NVIDIA[:]), func(name string) bool { return Package(name) != "" })
	if release, err := os.ReadFile("/etc/os-release"); len(missing) == 0 || err != nil ||
		!strings.Contains("\n"+string(release), "\nID=debian\n") {
		return nil, nil // other distributions have other packages
	}
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	if err := os.MkdirAll(unpackedNVIDIA, 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(unpackedNVIDIA, ".unpack-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	for _, dir := range [...]string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			return nil, err
		}
	}
	if err := withComponents("/etc/apt", filepath.Join(work, "sources")); err != nil {
		return nil, err
	}
	own := []string{"-q", "-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=" + work + "/sources",
		"-o", "Dir::State::lists=" + work + "/lists", "-o", "Dir::Cache=" + work + "/cache"}
	if err := apt(ctx, append(own, "update")...); err != nil {
		return nil, err
	}
	var brought []string
	var failed error
	for _, name := range missing {
		if err := unpackOne(ctx, own, work, name); err != nil {
			failed = errors.Join(failed, fmt.Errorf("unpack %s: %w", name, err))
			continue
		}
		brought = append(brought, name)
	}
	return brought, failed
}

// unpackOne creates the folder of a package, completely or not at all.
func unpackOne(ctx context.Context, own []string, work, name string) error {
	dir, root := filepath.Join(work, name), filepath.Join(work, name, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "apt-get", append(slices.Clone(own), "download", name)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get download: %w: %s", err, out[max(0, len(out)-300):])
	}
	packages, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(packages) != 1 {
		return fmt.Errorf("%d packages were downloaded: %w", len(packages), err)
	}
	if out, err := exec.CommandContext(ctx, "dpkg", "-x", packages[0], root).CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg -x: %w: %s", err, out)
	}
	return os.Rename(root, filepath.Join(unpackedNVIDIA, name))
}

// withComponents copies apt's sources below conf to a folder, with contrib and non-free added to main.
func withComponents(conf, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	parts, err := filepath.Glob(filepath.Join(conf, "sources.list.d", "*"))
	if err != nil {
		return err
	}
	for _, file := range append(parts, filepath.Join(conf, "sources.list")) {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		var out strings.Builder
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			words := strings.Fields(line)
			lists := len(words) > 0 && (words[0] == "deb" || words[0] == "Components:")
			if lists && slices.Contains(words, "main") {
				line += " contrib non-free"
			}
			out.WriteString(line + "\n")
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(out.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
