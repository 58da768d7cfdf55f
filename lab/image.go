//go:build linux

package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// imageBudget bounds building the image; measured: 22 s on two cores with a nearby package mirror.
const imageBudget = 15 * time.Minute

// recipe determines the content of the image; its hash names the cached image. The package source is not included:
// it depends on the host, and querying it takes longer than starting a machine.
type recipe struct {
	Version  int // raise it when the steps below change
	Arch     string
	Suite    string
	Variant  string `json:",omitempty"` // of mmdebstrap; "" is essential
	Packages []string
	DpkgOpts []string
	Drop     []string // removed afterwards: not needed at run time
}

// archive is this host's package source.
type archive struct {
	sources []string // lines of a sources.list
	options []string // of apt: proxies, dates, certificates
}

// imagePackages are the packages that the machines need, without recommended ones.
var imagePackages = [...]string{
	"systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "procps", "iproute2", "nftables", "iputils-ping",
	"netcat-openbsd", "curl", "openssl", "ca-certificates", "busybox", "nginx", "redis-server", "dnsmasq-base",
}

var dpkgExcludes = [...]string{
	"path-exclude=/usr/share/doc/*", "path-exclude=/usr/share/man/*", "path-exclude=/usr/share/locale/*",
	"path-exclude=/usr/share/info/*", "path-exclude=/usr/share/lintian/*",
}

// imageDrops: package indexes, the image's SSH host keys (each machine has its own), and files for upgrades only.
var imageDrops = [...]string{
	"/var/lib/apt", "/var/cache/apt", "/var/cache/debconf", "/var/log/apt", "/var/log/dpkg.log",
	"/var/log/alternatives.log", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_rsa_key.pub",
	"/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ecdsa_key.pub", "/etc/ssh/ssh_host_ed25519_key",
	"/etc/ssh/ssh_host_ed25519_key.pub", "/etc/hostname", "/etc/resolv.conf", "/etc/nginx/sites-enabled/default",
	"/etc/systemd/system/getty.target.wants/getty@tty1.service", "/etc/systemd/system/timers.target.wants/fstrim.timer",
	"/etc/systemd/system/timers.target.wants/dpkg-db-backup.timer",
}

// key returns the image's cache key.
func (r recipe) key() string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers can always be marshaled
	}
	return fmt.Sprintf("%s-%.6x", r.Suite, sha256.Sum256(b))
}

// argv returns the command that builds the image into dir.
func (r recipe) argv(dir, sources string, aptOptions []string) []string {
	argv := []string{
		"mmdebstrap", "--mode=root", "--variant=" + cmp.Or(r.Variant, "essential"), "--quiet",
		"--include=" + strings.Join(r.Packages, ","),
	}
	for _, o := range aptOptions {
		argv = append(argv, "--aptopt="+o)
	}
	for _, o := range r.DpkgOpts {
		argv = append(argv, "--dpkgopt="+o)
	}
	return append(argv, r.Suite, dir, sources)
}

// hostRecipe returns the recipe for the host's own release.
func hostRecipe() (recipe, error) {
	r := recipe{Version: 1, Arch: runtime.GOARCH, Packages: imagePackages[:], DpkgOpts: dpkgExcludes[:],
		Drop: imageDrops[:]}
	rel, err := osRelease()
	if err != nil {
		return r, err
	}
	r.Suite = rel["VERSION_CODENAME"]
	if r.Suite == "" {
		return r, errors.New("the host's os-release names no VERSION_CODENAME: the image needs a Debian or Ubuntu host")
	}
	return r, nil
}

// hostArchive reads the host's apt configuration. apt lists its sources only after an update.
func hostArchive(ctx context.Context, suite string) (archive, error) {
	var a archive
	ask := []string{"apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"}
	targets, err := command(ctx, ask...)
	if err == nil && len(sourceLines(targets, suite)) == 0 {
		if _, err := commandAny(ctx, "apt-get", "update", "-q"); err != nil {
			return a, err
		}
		targets, err = command(ctx, ask...)
	}
	if err != nil {
		return a, err
	}
	if a.sources = sourceLines(targets, suite); len(a.sources) == 0 {
		return a, fmt.Errorf("the host's apt has no source of %s", suite)
	}
	conf, err := command(ctx, "apt-config", "dump", "--format", "%f \"%v\";%n")
	a.options = append(acquireOptions(conf), `APT::Install-Recommends "false";`, `Acquire::Languages "none";`)
	return a, err
}

// sourceLines filters apt's targets for the distribution's own repositories: the suite, its updates and its
// security fixes, in the components main and universe.
func sourceLines(targets, suite string) []string {
	var lines []string
	for _, line := range strings.Split(targets, "\n") {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		uri, release, component := f[0], f[1], f[2]
		ours := release == suite || release == suite+"-updates" || release == suite+"-security"
		if !ours || (component != "main" && component != "universe") {
			continue
		}
		if l := "deb " + uri + " " + release + " " + component; !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	return lines
}

// acquires are the prefixes of settings that determine how a host reaches its archive.
var acquires = [...]string{"Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries", "Acquire::Force"}

// acquireOptions returns the settings in apt's conf that determine how the host reaches its archive.
func acquireOptions(conf string) []string {
	var opts []string
	for _, line := range strings.Split(conf, "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || value == `"";` || strings.HasSuffix(name, "::") {
			continue
		}
		if slices.ContainsFunc(acquires[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			opts = append(opts, line)
		}
	}
	return opts
}

// osRelease reads /etc/os-release.
func osRelease() (map[string]string, error) {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return nil, err
	}
	m := map[string]string{}
	for _, line := range strings.Split(string(data), "\n") {
		if k, v, ok := strings.Cut(line, "="); ok {
			m[k] = strings.Trim(v, `"'`)
		}
	}
	return m, nil
}

// ensureImage returns the folder of the image for this host, building it when it is not in the cache.
func ensureImage(ctx context.Context, cache string) (dir, note string, err error) {
	r, err := hostRecipe()
	if err != nil {
		return "", "", err
	}
	return ensureTree(ctx, r, cache, filepath.Join(cache, "image-"+r.key()))
}

// ensureTree builds dir by the recipe if it does not exist.
func ensureTree(ctx context.Context, r recipe, cache, dir string) (_, note string, err error) {
	if _, err := os.Stat(filepath.Join(dir, "etc", "os-release")); err == nil {
		return dir, "cached " + filepath.Base(dir), nil
	}
	ctx, cancel := context.WithTimeout(ctx, imageBudget)
	defer cancel()
	if err := buildImage(ctx, r, cache, dir); err != nil {
		return "", "", err
	}
	return dir, "built " + filepath.Base(dir), nil
}

// buildImage builds in a temporary folder that it renames when complete; it removes the remains of a killed build.
func buildImage(ctx context.Context, r recipe, cache, dir string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, filepath.Join(cache, "building"))
	if err != nil {
		return err
	}
	defer unlock()
	if exists(dir) { // another build was quicker
		return nil
	}
	from, err := hostArchive(ctx, r.Suite)
	if err != nil {
		return err
	}
	tmp := filepath.Join(cache, "building", "image")
	if err := removeImage(tmp); err != nil {
		return err
	}
	sources := filepath.Join(cache, "building", "sources.list")
	if err := writeFile(sources, []byte(strings.Join(from.sources, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := bootstrap(ctx, r.argv(tmp, sources, from.options)); err != nil {
		return fmt.Errorf("build the image: %w", err)
	}
	err = errors.Join(
		forAll(r.Drop, func(p string) error { return os.RemoveAll(filepath.Join(tmp, p)) }),
		os.WriteFile(filepath.Join(tmp, "etc", "machine-id"), nil, 0o444), // filled at each machine's first boot
		os.MkdirAll(filepath.Join(tmp, "var/cache/debconf"), 0o755))
	if err != nil {
		return fmt.Errorf("trim the image: %w", err)
	}
	return os.Rename(tmp, dir)
}

// bootstrap runs the command that builds the image. The command ends with this process, so that no child keeps
// writing.
func bootstrap(ctx context.Context, argv []string) error {
	runtime.LockOSThread() // the parent-death signal is tied to the thread that starts the child
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGTERM}
	cmd.WaitDelay = 5 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", argv[0], err, tail(strings.TrimSpace(string(out)), 1000))
	}
	return nil
}

// removeImage removes an image folder, including mounts that a killed build left in it.
func removeImage(dir string) error {
	if err := forAll(mountsBelow(dir), unmount); err != nil {
		return err
	}
	var err error
	for range 50 { // a killed build may need a moment to end
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}
