//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// strike is one way to disrupt a run.
type strike struct {
	name string
	hit  func(*crashTrial) (what string, struck bool) // what was hit, and whether there was a target
	lift func(*crashTrial)                            // removes the cause again; nil if it passes by itself
	// needs is a program of this host without which the strike is skipped; make test-lab installs it.
	needs string
}

// strikes are all of them.
func strikes() []strike {
	return []strike{
		{"kill-cli", (*crashTrial).killTool, nil, ""},
		{"cut-ssh", (*crashTrial).cutSSH, nil, ""},
		{"lose-path", (*crashTrial).losePath, (*crashTrial).findPath, "nft"},
		{"kill-watchdog", (*crashTrial).killWatchdog, nil, ""},
		{"kill-both", (*crashTrial).killBoth, nil, ""},
		{"kill-agent", (*crashTrial).killAgent, nil, ""},
		{"fill-disk", (*crashTrial).fillDisk, (*crashTrial).emptyDisk, ""},
		{"reboot", (*crashTrial).reboot, nil, ""},
		{"lose-power", (*crashTrial).losePower, nil, ""},
	}
}

func strikeOf(name string) strike {
	return strikes()[slices.IndexFunc(strikes(), func(s strike) bool { return s.name == name })]
}

// killTool kills the operator's tool.
func (c *crashTrial) killTool() (string, bool) {
	c.tool.Process.Kill()
	c.killed = true
	return "tool", true
}

// sureThere reports whether the watchdog was running and the operator connected at the strike: they are at these
// steps, unless the run has continued to its end since.
func (c *crashTrial) sureThere() bool {
	c.t.Helper()
	c.read()
	return c.first(drill.Reverting) == nil &&
		slices.Contains([]drill.Kind{drill.Armed, drill.Breaking, drill.Broken}, c.at)
}

// cutSSH closes every connection of the operator at the machine's end.
func (c *crashTrial) cutSSH() (string, bool) {
	c.t.Helper()
	n := c.on(
		`main=$(systemctl show -P MainPID ssh); n=0; for p in $(pgrep -x sshd); do if [ "$p" != "$main" ]; then kill -9 $p && n=$((n+1)); fi; done; echo $n`)
	n = strings.TrimSpace(n)
	if n == "0" && c.sureThere() {
		c.t.Errorf("no session to cut at %s, and there must be one:\n%s", c.at, c.account())
	}
	return n + " sessions", n != "0"
}

// pathLost is how long packets vanish: longer than the drill's lease.
const pathLost = 12 * time.Second

// losePath drops every packet between the operator and the machine silently.
func (c *crashTrial) losePath() (string, bool) {
	c.filter(fmt.Sprintf(`table inet %[1]s {
 chain out { type filter hook output priority 0; ip daddr %[2]s drop; }
 chain in { type filter hook input priority 0; ip saddr %[2]s drop; }
}
`, c.table(), c.address))
	c.pathBack = time.Now().Add(pathLost)
	return "path", true
}

func (c *crashTrial) findPath() {
	time.Sleep(time.Until(c.pathBack))
	c.filter("add table inet " + c.table() + "\ndelete table inet " + c.table() + "\n")
}

func (c *crashTrial) table() string { return "crash_" + strings.ReplaceAll(c.machine, "-", "_") }

// filter changes the packet filter of the operator's machine.
func (c *crashTrial) filter(text string) {
	c.t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("nft: %v\n%s", err, out)
	}
}

// watchdogComes bounds the wait for a watchdog during arming.
const watchdogComes = 4 * time.Second

// killWatchdog kills the drill's watchdog; it waits for one that is about to start.
func (c *crashTrial) killWatchdog() (string, bool) {
	c.t.Helper()
	wait := "0"
	if c.at == drill.Arming {
		wait = fmt.Sprint(int(watchdogComes.Seconds()))
	}
	pid := strings.TrimSpace(c.on(`end=$(($(date +%s)+` + wait + `)); while :; do
 p=$(systemctl show -P MainPID gpuaasctl-watch-` + c.run + `.service)
 if [ "$p" != 0 ] && kill -9 $p; then echo $p; exit 0; fi
 [ $(date +%s) -lt $end ] || exit 0
done`))
	if pid == "" && c.sureThere() {
		c.t.Errorf("no watchdog at %s, and there must be one:\n%s", c.at, c.account())
	}
	if pid == "" {
		return "no watchdog there", false
	}
	return "watchdog", true
}

// killBoth kills the tool first, so that it cannot renew the lease in between.
func (c *crashTrial) killBoth() (string, bool) {
	tool, _ := c.killTool()
	watchdog, _ := c.killWatchdog()
	return tool + " and " + watchdog, true
}

// killAgent kills the agent, or on the platform's machine the platform.
func (c *crashTrial) killAgent() (string, bool) {
	unit := "gpuaas-node-agent"
	if c.machine == platform {
		unit = "gpuaas-platform"
	}
	hit := c.on(`p=$(systemctl show -P MainPID ` + unit + `); [ "$p" = 0 ] || { kill -9 $p && echo $p; } || true`)
	return unit, strings.TrimSpace(hit) != ""
}

// foreign is a file that fills the machine's disk.
const foreign = "/var/crash-foreign"

func (c *crashTrial) fillDisk() (string, bool) {
	out := c.on(`f=` + foreign + `; n=$(df --output=avail -B1 /var | tail -n 1); fallocate -l $n $f 2>/dev/null || true
dd if=/dev/zero bs=4096 2>/dev/null >>$f || true; df --output=avail -B1 /var | tail -n 1`)
	return "disk, free " + strings.TrimSpace(out), true
}

func (c *crashTrial) emptyDisk() { c.on("rm -f " + foreign) }

// reboot reboots the machine, and waits until it answers again.
func (c *crashTrial) reboot() (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	if err := c.matrix.lab.Reboot(ctx, c.machine); err != nil {
		c.t.Fatal(err)
	}
	return "machine", true
}

// losePower restarts the machine without notifying its processes, so that no watchdog can revert anything first.
func (c *crashTrial) losePower() (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	l := c.matrix.lab
	bootID := func() (string, error) { return l.Exec(ctx, c.machine, "cat", "/proc/sys/kernel/random/boot_id") }
	before, err := bootID()
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = l.Exec(ctx, c.machine, "systemctl", "reboot", "-ff") // it dies with the machine
	for {
		if now, err := bootID(); err == nil && now != before {
			return "machine", true
		}
		if ctx.Err() != nil {
			c.t.Fatalf("%s does not come back", c.machine)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// startTool starts the drill. Its log goes into a folder of its own.
func (c *crashTrial) startTool(t *testing.T) {
	t.Helper()
	c.state, c.run, c.events, c.size = t.TempDir(), "", nil, 0
	c.out.Reset()
	c.errs.Reset()
	c.tool = exec.Command(tool(), "chaos", "run", "testdata/crash-"+c.tier+".yaml", "--profile", "lab", "--node-id",
		c.walked, "-o", "json", "--quiet")
	c.tool.Env = append(c.tool.Environ(), "GPUAASCTL_HISTORY=off", "XDG_STATE_HOME="+c.state)
	c.tool.Stdout, c.tool.Stderr = &c.out, &c.errs
	if err := c.tool.Start(); err != nil {
		t.Fatal(err)
	}
	c.ended = make(chan struct{})
	go func() {
		defer close(c.ended)
		_ = c.tool.Wait() // how it ended is in its report
	}()
}
