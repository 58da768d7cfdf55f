//go:build linux

package lab

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Longer than 300 lines: the list of the files of the lab's machines, with their text.

//go:embed templates
var templates embed.FS

// gpuProfile is what the fake of NVIDIA's library returns on a node until a drill changes it.
//
//go:embed nvml/profiles/lab.txt
var gpuProfile []byte

// Users of the machines. Their ids are fixed, so that files can have owners before the machine's first boot.
const (
	uidOps      = 1000
	uidTenant   = 2001
	uidPlatform = 800
)

// file is one file that the lab installs on a machine.
type file struct {
	path string
	data []byte
	mode fs.FileMode
	uid  int    // owner and group
	link string // target of a symbolic link, instead of data
	unit string // the unit to restart if the content changes on a running machine; "" = only a new machine gets the file
}

type policyRow struct {
	Key   string
	Value int64
}

// policy holds the lab's settings: tighter than the defaults, so that a demo or a drill takes seconds.
var policy = [...]policyRow{
	{"node.heartbeat_stale_after_seconds", 8},
	{"node.task_wait_seconds", 5},
	{"node.task_stale_sweep_interval_seconds", 5},
	{"terminal.node_stream_timeout_seconds", 5},
	{"terminal.token_ttl_seconds", 60},
}

const (
	nodeAPIURL      = "https://" + nodeAPIHost
	nodeTerminalURL = "https://" + termHost + ":18443"

	recoveryCA         = "/etc/gpuaas/recovery-ca.crt"
	environmentProfile = "lab"
)

// values returns the template values that all machines share.
func (l *Lab) values() values {
	return values{
		"PrefixLen": strconv.Itoa(prefixLen), "EdgeAddress": edgeAddress, "NodeAddress": nodeAddress,
		"APIHost": apiHost, "TermHost": termHost, "NodeAPIHost": nodeAPIHost, "AppsDomain": appsDomain,
		"AppPort": strconv.Itoa(appPort), "NodeAPIURL": nodeAPIURL, "NodeTerminalURL": nodeTerminalURL,
		"RecoveryCA": recoveryCA, "Profile": environmentProfile, "GPUDir": gpuDir,
	}
}

func (m Machine) values() values {
	return values{"Name": m.Name, "Address": m.Address(), "Allocation": m.Allocation(), "AppUnit": m.AppUnit()}
}

// lists returns the lists that templates iterate over.
func (l *Lab) lists(m Machine) map[string][]values {
	lists := map[string][]values{"GPUs": nil}
	for _, a := range m.Addresses {
		lists["Addresses"] = append(lists["Addresses"], values{"Address": a})
	}
	for _, each := range l.Machines() {
		lists["Machines"] = append(lists["Machines"], each.values())
	}
	lists["Nodes"] = lists["Machines"][1 : 1+l.state.Nodes]
	for _, row := range policy {
		lists["Policy"] = append(lists["Policy"], values{"Key": row.Key, "Value": strconv.FormatInt(row.Value, 10)})
	}
	if n := l.gpus(); n > 0 {
		lists["GPUs"] = []values{{"GPUs": strconv.Itoa(n)}}
	}
	return lists
}

// A node's GPUs are a fake library that returns the values in /run/gpuaas-lab/nvml, see nvml/fake.c. Building it
// requires a C compiler.
const (
	gpuDir     = "/usr/local/lib/gpuaas-lab"
	gpuLibrary = "libnvidia-ml-fake.so"
	gpuReader  = "nvml-read"
)

// gpus returns the number of GPUs of each node: that of gpuProfile if all programs that watch and judge GPUs were
// built, otherwise 0.
func (l *Lab) gpus() int {
	for _, name := range [...]string{gpuLibrary, gpuReader, "gpuaas-gpu-probe", "gpuaas-gpu-policy"} {
		if !l.built(name) {
			return 0
		}
	}
	return 2
}

// fileSet creates the files of a machine, and collects errors.
type fileSet struct {
	l     *Lab
	m     Machine
	fill  values
	lists map[string][]values
	err   error
}

// text returns a file with a rendered template.
func (fs *fileSet) text(path, tmpl, unit string, mode os.FileMode) file {
	text, err := templates.ReadFile("templates/" + tmpl)
	data, err2 := render(string(text), fs.fill, fs.lists)
	fs.err = errors.Join(fs.err, err, err2)
	return file{path: path, data: []byte(data), mode: mode, unit: unit}
}

// secret returns a copy of a file in the secrets folder.
func (fs *fileSet) secret(path, name string, mode os.FileMode, uid int) file {
	data, err := os.ReadFile(fs.l.secret(name))
	fs.err = errors.Join(fs.err, err)
	return file{path: path, data: data, mode: mode, uid: uid}
}

// copies returns copies of secrets under their own names in a folder.
func (fs *fileSet) copies(dir string, mode os.FileMode, uid int, unit string, names ...string) (files []file) {
	for _, name := range names {
		f := fs.secret(dir+name, name, mode, uid)
		f.unit = unit
		files = append(files, f)
	}
	return files
}

// binary returns one of our own programs; a program that was not built is left out, which Up reports.
func (fs *fileSet) binary(name, unit string) file { return fs.builtFile("/usr/local/bin", name, unit) }

func (fs *fileSet) builtFile(dir, name, unit string) file {
	data, err := os.ReadFile(filepath.Join(fs.l.opts.Libexec, name))
	if errors.Is(err, os.ErrNotExist) {
		return file{}
	}
	fs.err = errors.Join(fs.err, err)
	return file{path: dir + "/" + name, data: data, mode: 0o755, unit: unit}
}

const systemUnits = "/etc/systemd/system/"

// enabled returns the link that `systemctl enable` would make.
func enabled(unit, target string) file {
	return file{path: systemUnits + target + ".wants/" + unit, link: systemUnits + unit}
}

// masked returns the link that `systemctl mask` would make.
func masked(unit string) file { return file{path: systemUnits + unit, link: "/dev/null"} }

// generators are the programs of the image that systemd runs at each boot and each reload of its units, for hardware
// and files that no machine of a lab has. Every change of a unit is followed by a reload, so they took a fifth of a
// drill's processor time.
var generators = [...]string{"cryptsetup", "debug", "fstab", "getty", "gpt-auto", "hibernate-resume", "integritysetup",
	"rc-local", "run", "system-update", "sysv", "veritysetup"}

// withoutGenerators returns the links that mask the generators.
func withoutGenerators() []file {
	var files []file
	for _, name := range generators {
		files = append(files, file{path: "/etc/systemd/system-generators/systemd-" + name + "-generator", link: "/dev/null"})
	}
	return files
}

// machineFiles returns all files that turn the image into the machine m.
func (l *Lab) machineFiles(m Machine) ([]file, error) {
	fs := &fileSet{l: l, m: m, fill: l.values(), lists: l.lists(m)}
	maps.Copy(fs.fill, m.values())
	of := fs.node
	switch {
	case m.IsPlatform():
		of = fs.platform
	case m.IsBare():
		of = bareFiles
	}
	files := slices.Concat(fs.common(), withoutGenerators(), fs.users(), of())
	return slices.DeleteFunc(files, func(f file) bool { return f.path == "" }), fs.err
}

func (fs *fileSet) common() []file {
	return []file{
		{path: "/etc/hostname", data: []byte(fs.m.Name + "\n"), mode: 0o644},
		fs.text("/etc/hosts", "common/hosts", "", 0o644),
		fs.text("/etc/resolv.conf", "common/resolv.conf", "", 0o644),
		fs.text(systemUnits+"lab-machine.service", "common/lab-machine.service", "", 0o644),
		enabled("lab-machine.service", "sysinit.target"),
		fs.text("/etc/systemd/journald.conf.d/lab.conf", "common/journald.conf", "", 0o644),
		fs.text("/etc/gpuaas/chaos.allow", "common/chaos.allow", "", 0o644),
		fs.text("/etc/tmpfiles.d/lab.conf", "common/lab-tmpfiles.conf", "", 0o644),
		fs.text("/etc/ssh/sshd_config.d/lab.conf", "common/sshd.conf", "", 0o644),
		fs.text("/etc/sudoers.d/ops", "common/sudoers", "", 0o440),
		masked("systemd-logind.service"), // no local seats or sessions to manage: sshd works without pam_systemd
		masked("console-getty.service"),
		fs.secret("/etc/ssh/ssh_host_ed25519_key", "host-"+fs.m.Name+".key", 0o600, 0),
		fs.secret("/root/.ssh/authorized_keys", fileSSHPub, 0o600, 0),
		{path: "/home/ops", mode: os.ModeDir | 0o755, uid: uidOps},
		{path: "/home/ops/.ssh", mode: os.ModeDir | 0o700, uid: uidOps},
		fs.secret("/home/ops/.ssh/authorized_keys", fileSSHPub, 0o600, uidOps),
	}
}

// bareFiles masks what is in the shared image: a bare machine has an SSH server, and serves nothing else.
func bareFiles() []file { return []file{masked("nginx.service"), masked("redis-server.service")} }

func (fs *fileSet) platform() []file {
	const nginx, dns, redis, own = "nginx.service", "dnsmasq.service", "redis-server.service", "gpuaas-platform.service"
	const tls, etc = "/etc/nginx/tls/", "/etc/gpuaas-platform/"
	ingress, err1 := os.ReadFile(fs.l.secret(fileIngress))
	password, err2 := os.ReadFile(fs.l.secret(fileRedis))
	fs.err = errors.Join(fs.err, err1, err2)
	fs.fill["IngressSecret"] = string(bytes.TrimSpace(ingress))
	// Redis only needs the password's sha256
	fs.fill["RedisDigest"] = fmt.Sprintf("%x", sha256.Sum256(bytes.TrimSpace(password)))
	var tokens []file
	for _, n := range fs.l.nodes() {
		tokens = append(tokens,
			fs.secret(etc+"enroll/"+n.Name+".token", "enroll-"+n.Name+".token", 0o600, uidPlatform))
	}
	return slices.Concat([]file{
		fs.text(systemUnits+"redis-server.service.d/lab.conf", "platform/redis-dropin.conf", "", 0o644),
		fs.text("/etc/redis/redis.conf", "platform/redis.conf", redis, 0o644),
		fs.text(systemUnits+dns, "platform/dnsmasq.service", "", 0o644),
		enabled(dns, "multi-user.target"),
		fs.text("/etc/dnsmasq.conf", "platform/dnsmasq.conf", dns, 0o644),
		fs.text(systemUnits+"nginx.service.d/lab.conf", "platform/nginx-dropin.conf", "", 0o644),
		fs.text("/etc/nginx/nginx.conf", "platform/nginx.conf", nginx, 0o644),
		fs.text("/etc/nginx/edge.d/api.conf", "platform/edge-api.conf", nginx, 0o644),
		fs.text("/etc/nginx/edge.d/term.conf", "platform/edge-term.conf", nginx, 0o644),
		fs.text("/etc/nginx/edge.d/app.conf", "platform/edge-app.conf", nginx, 0o644),
		fs.text("/etc/nginx/node-ingress.d/node-api.conf", "platform/node-ingress.conf", nginx, 0o644),
		fs.text("/etc/nginx/node-ingress.secret", "platform/node-ingress.secret", nginx, 0o600),
		fs.secret(tls+"ingress-ca.crt", fileSigningCA, 0o644, 0),
	},
		fs.copies(tls, 0o644, 0, "", fileEdgeCert, fileNodeAPICert),
		fs.copies(tls, 0o600, 0, "", fileEdgeKey, fileNodeAPIKey),
		fs.copies(etc+"pki/", 0o600, uidPlatform, "", fileSigningCA, fileSigningKey, fileTerminalCert, fileTerminalKey,
			fileNodeBundle),
		fs.copies(etc, 0o600, uidPlatform, "", fileTaskKey, fileToken),
		fs.copies(etc, 0o600, uidPlatform, own, fileIngress, fileRedis), // for machines of an older build as well
		tokens,
		[]file{
			fs.text(etc+"platform.yaml", "platform/platform.yaml", own, 0o644),
			fs.text(etc+"seed.yaml", "platform/seed.yaml", own, 0o644),
			fs.text(systemUnits+own, "platform/gpuaas-platform.service", "", 0o644),
			enabled(own, "multi-user.target"),
			fs.binary("gpuaas-platform", own),
			fs.binary("gpuaas-gpu-policy", own),
		})
}

func (fs *fileSet) node() []file {
	const agent = "gpuaas-node-agent.service"
	app := fs.m.AppUnit()
	token, err1 := os.ReadFile(fs.l.secret("enroll-" + fs.m.Name + ".token"))
	taskKey, err2 := os.ReadFile(fs.l.secret(fileTaskKey))
	pubkeys, err3 := taskPubkeys(taskKey)
	fs.err = errors.Join(fs.err, err1, err2, err3)
	fs.fill["EnrollToken"], fs.fill["TaskPubkeys"] = strings.TrimSpace(string(token)), pubkeys
	files := []file{
		fs.text("/etc/gpuaas/agent.env", "node/agent.env", "", 0o600),
		fs.secret("/etc/gpuaas/ca-bundle.crt", fileNodeBundle, 0o644, 0),
		fs.secret(recoveryCA, fileNodeBundle, 0o644, 0), // a separate file, so that drift of the bundle does not affect it
		fs.text(systemUnits+agent, "node/gpuaas-node-agent.service", "", 0o644),
		fs.text(systemUnits+"gpuaas-sessions.slice", "node/gpuaas-sessions.slice", "", 0o644),
		enabled(agent, "multi-user.target"),
		fs.binary("gpuaas-agent", agent),
		fs.binary("gpuaas-agent-oldterminal", ""), // if built: drills run it in place of the agent
		masked("nginx.service"),                   // in the shared image, but not for a node
		masked("redis-server.service"),
		fs.text(systemUnits+app, "node/app.service", "", 0o644),
		fs.binary("gpuaas-platform", app), // its sample workload
		enabled(app, "multi-user.target"),
		fs.text("/srv/"+fs.m.Allocation()+"/index.html", "node/index.html", "", 0o644),
	}
	if fs.l.gpus() > 0 {
		files = append(files,
			fs.builtFile(gpuDir, gpuLibrary, agent),
			file{path: gpuDir + "/nvml", data: gpuProfile, mode: 0o644},
			fs.text("/etc/tmpfiles.d/gpus.conf", "node/gpus-tmpfiles.conf", "", 0o644),
			fs.binary(gpuReader, ""),
			fs.binary("gpuaas-gpu-probe", agent))
	}
	return files
}

// users returns the lab's accounts, in addition to the image's. Password login is disabled ("*"), key login is
// not.
func (fs *fileSet) users() []file {
	type account struct {
		name, home, shell string
		uid               int
	}
	accounts := []account{{"ops", "/home/ops", "/bin/bash", uidOps}}
	var files []file
	switch {
	case fs.m.IsPlatform():
		accounts = append(accounts, account{"gpuaas", "/var/lib/gpuaas-platform", "/usr/sbin/nologin", uidPlatform})
	case fs.m.IsNode():
		accounts = append(accounts, account{"tenant01", "/home/tenant01", "/bin/bash", uidTenant})
		files = append(files, file{path: "/home/tenant01", mode: os.ModeDir | 0o750, uid: uidTenant})
	}
	var passwd, group, shadow strings.Builder
	for _, r := range accounts {
		fmt.Fprintf(&passwd, "%s:x:%d:%d::%s:%s\n", r.name, r.uid, r.uid, r.home, r.shell)
		fmt.Fprintf(&group, "%s:x:%d:\n", r.name, r.uid)
		fmt.Fprintf(&shadow, "%s:*:19000:0:99999:7:::\n", r.name)
	}
	for _, f := range [...]struct {
		path, more string
		mode       os.FileMode
	}{{"/etc/passwd", passwd.String(), 0o644}, {"/etc/group", group.String(), 0o644},
		{"/etc/shadow", shadow.String(), 0o640}} {
		data, err := os.ReadFile(filepath.Join(fs.l.state.Image, f.path))
		fs.err = errors.Join(fs.err, err)
		files = append(files, file{path: f.path, data: append(data, f.more...), mode: f.mode})
	}
	return files
}

// put writes f below root, a machine's root folder.
func (f file) put(root *os.Root) error {
	name := inRoot(f.path)
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch {
	case f.link != "":
		if err := root.RemoveAll(name); err != nil {
			return err
		}
		return root.Symlink(f.link, name)
	case f.mode.IsDir():
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
	default:
		// Write a new file and rename it: a running program's file cannot be written in place.
		tmp := name + ".lab-new"
		if err := root.WriteFile(tmp, f.data, 0o600); err != nil {
			return err
		}
		if err := root.Rename(tmp, name); err != nil {
			return err
		}
	}
	return errors.Join(root.Lchown(name, f.uid, f.uid), root.Chmod(name, f.mode.Perm()))
}

// differs reports whether the machine's file has a different content.
func (f file) differs(root *os.Root) bool {
	have, err := root.ReadFile(inRoot(f.path))
	return err != nil || sha256.Sum256(have) != sha256.Sum256(f.data)
}
