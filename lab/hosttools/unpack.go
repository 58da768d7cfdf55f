package hosttools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Unpacked is the folder for programs whose packages would start a server on this host. Their packages, and the
// dependencies, are unpacked there; nothing is installed, enabled or started.
const Unpacked = "/var/cache/gpuaasctl/programs"

// Find returns the path of a program that is installed on this host or that Unpack has unpacked, and the
// environment variables that it needs in addition to this process's. The path is "" if the program was not found.
func Find(program string) (path string, env []string) { return findBelow(Unpacked, program) }

func findBelow(home, program string) (path string, env []string) {
	if installed, err := exec.LookPath(program); err == nil {
		return installed, nil
	}
	root := filepath.Join(home, program)
	for _, dir := range [...]string{"usr/sbin", "usr/bin"} {
		if found, err := exec.LookPath(filepath.Join(root, dir, program)); err == nil {
			if libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu")); len(libraries) > 0 {
				env = append(env, "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
			}
			return found, env
		}
	}
	return "", nil
}

// Unpack unpacks the programs of these uses that Find does not find: apt-get downloads their packages, and dpkg
// unpacks them below Unpacked. It returns the unpacked packages, even with an error: one failed download does not
// stop the others.
func Unpack(ctx context.Context, uses Use) ([]string, error) { return unpackBelow(ctx, Unpacked, uses) }

func unpackBelow(ctx context.Context, home string, uses Use) ([]string, error) {
	var missing []Tool
	for _, t := range For(uses) {
		if path, _ := findBelow(home, t.Program); path == "" {
			missing = append(missing, t)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	if err := apt(ctx, "update", "-q"); err != nil {
		return nil, err
	}
	var brought []string
	var failed error
	for _, t := range missing {
		if err := unpack(ctx, home, t); err != nil {
			failed = errors.Join(failed, fmt.Errorf("unpack %s: %w", t.Package, err))
			continue
		}
		brought = append(brought, t.Package)
	}
	return brought, failed
}

// unpack creates the tool's folder, completely or not at all.
func unpack(ctx context.Context, home string, t Tool) error {
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(home, ".unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	archives, root := filepath.Join(work, "archives"), filepath.Join(work, "root")
	for _, dir := range [...]string{filepath.Join(archives, "partial"), root} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	err = apt(ctx, "install", "-q", "-y", "--no-install-recommends", "--download-only", "-o",
		"Dir::Cache::archives="+archives, t.Package)
	if err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return err
	}
	for _, p := range packages {
		if out, err := exec.CommandContext(ctx, "dpkg", "-x", p, root).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg -x %s: %w: %s", filepath.Base(p), err, out)
		}
	}
	place := filepath.Join(home, t.Program)
	return errors.Join(os.RemoveAll(place), os.Rename(root, place))
}
