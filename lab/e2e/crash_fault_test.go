//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	onnode "github.com/gpuaas/gpuaasctl/chaos/node"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// fault runs gpuaas-fault on the machine without installing it there: from an open file of the host. It sees the
// cgroups like a process of the machine, since the fingerprint includes their mount.
func (c *crashTrial) fault(args ...string) ([]byte, error) {
	f, err := os.Open(c.matrix.fault)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd, err := c.matrix.lab.Command(ctx, c.machine,
		append([]string{"nsenter", "-t", "1", "-C", "--", "/proc/self/fd/3"}, args...)...)
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.WaitDelay = &out, &errs, []*os.File{f}, 20*time.Second
	if err := cmd.Run(); err != nil && out.Len() == 0 {
		return nil, fmt.Errorf("gpuaas-fault %s: %w: %s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out.Bytes(), nil
}

// ask is fault for commands that reply with one line.
func (c *crashTrial) ask(args ...string) (step.Reply, error) {
	out, err := c.fault(args...)
	var r step.Reply
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	return r, err
}

func (c *crashTrial) fingerprint() (onnode.Fingerprint, error) {
	out, err := c.fault("fingerprint")
	var f onnode.Fingerprint
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	return f, err
}

// traces lists what a drill may have on the machine until it is closed, and the tool while it works.
func (c *crashTrial) traces() []step.Allow {
	const why = "the drill's own"
	var all []step.Allow
	dir, reaper, watchdog := "/var/lib/gpuaasctl/drill", "gpuaasctl-reaper-"+c.run+".service",
		"gpuaasctl-watch-"+c.run+".service"
	for _, p := range []string{dir, dir + "/" + c.run, dir + "/" + c.run + "/*", "/var/lib/gpuaasctl/.drill.lock",
		"/etc/systemd/system/" + reaper, "/etc/systemd/system/sysinit.target.wants/" + reaper,
		"/etc/systemd/system/sysinit.target.wants", "/run/gpuaasctl/*", "/run/gpuaasctl/.*",
		"/run/systemd/transient/" + watchdog} {
		all = append(all, step.Allow{Class: step.ClassOwn, Key: p, Why: why},
			step.Allow{Class: step.ClassFile, Key: p, Why: why})
	}
	for _, u := range []string{reaper, watchdog} {
		all = append(all, step.Allow{Class: step.ClassUnit, Key: u + "*", Why: why},
			step.Allow{Class: step.ClassOwn, Key: u, Why: why})
	}
	return all
}

// differs returns the differences from the earlier state, one line each, without the allowed ones.
func (c *crashTrial) differs(allowed []step.Allow) ([]string, error) {
	now, err := c.fingerprint()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, r := range step.Unexplained(onnode.Diff(c.before, now, step.Scope{}, allowed)) {
		all = append(all, r.String())
	}
	return all, nil
}

// snapshot is the output of the machine's standard tools about everything that these drills change, and that
// drills leave behind. It leaves out sessions, which come and go, and mounts whose names differ after each boot.
// While systemd reloads its units, it is asked again.
const snapshot = `
ask() { for i in 1 2 3 4 5 6; do x=$(systemctl "$@" 2>/dev/null) && [ -n "$x" ] && { echo "$x"; return; }; sleep 0.5; done; exit 9; }
echo == packet filter; nft -s list ruleset
echo == mounts; findmnt -rn -o TARGET,SOURCE,FSTYPE,OPTIONS | grep -v -e '^/run/credentials/' -e '^/run/user/' -e '^/run/gpuaasctl ' | sed 's/\[[^]]*\/\/deleted\]/[deleted]/' | sort
for u in gpuaas-node-agent nginx gpuaas-platform; do p=$(systemctl show -P MainPID $u); if [ "$p" != 0 ]; then
 echo == mounts of $u; findmnt -N $p -rn -o TARGET,FSTYPE | grep -v -e '^/run/credentials' -e '^/run/user' -e '^/run/gpuaasctl ' | sort; fi; done
echo == unit files; all=$(ask list-unit-files --no-legend --no-pager --full); echo "$all" | grep -v -e '^session-' -e '^user-' -e '^user@' | sort
echo == masked or failed; all=$(ask list-units --all --no-legend --no-pager --plain --full); echo "$all" | grep -e ' masked ' -e ' failed ' | sort
echo == units; ask show -p Id,DropInPaths,FreezerState,ActiveState,UnitFileState gpuaas-node-agent nginx gpuaas-platform ssh
echo == systemd; find /etc/systemd /run/systemd/system /run/systemd/system.control /run/systemd/transient ! -name 'session-*' ! -path /run/systemd/transient -printf '%p %y %m %U:%G %l\n' 2>/dev/null | sort
echo == accounts; getent passwd; getent group
echo == files; find /etc/gpuaas /etc/gpuaas-platform /etc/nginx /etc/hosts /etc/nsswitch.conf /etc/passwd /etc/resolv.conf -type f -exec stat -c '%n %a %u:%g %s %y %i' {} + -exec sha256sum {} + | sort
echo == stopped; ps -eo stat=,comm= | grep '^[Tt]' || true
echo == ours; find /var/lib/gpuaasctl /run/gpuaasctl -mindepth 1 ! -name 'gpuaas-agent*' 2>/dev/null | sort; pgrep -x -l gpuaas-fault || true; ls -d ` + foreign + ` 2>/dev/null || true
echo == environment; p=$(systemctl show -P MainPID gpuaas-node-agent); [ "$p" = 0 ] || tr '\0' '\n' </proc/$p/environ | grep -c '^GPUAAS_CRASH_MATRIX=' || true
`

// lost returns the lines that only one of two texts has.
func lost(before, after string) string {
	count := map[string]int{}
	for line := range strings.Lines(before) {
		count[line]++
	}
	var b strings.Builder
	for line := range strings.Lines(after) {
		if count[line]--; count[line] < 0 {
			b.WriteString("  + " + line)
		}
	}
	for line := range strings.Lines(before) {
		if count[line] > 0 {
			count[line]--
			b.WriteString("  - " + line)
		}
	}
	return b.String()
}
