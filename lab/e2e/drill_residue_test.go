//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/lab"
)

// leftover is something that standard tools create, in one class of a fingerprint and, if it implies others, in
// those as well.
type leftover struct {
	class    step.Class
	key      string // is in the key of what is found
	do, undo string
	also     []step.Class
}

const inAgent = "nsenter -m -t $(systemctl show -P MainPID gpuaas-node-agent) -- "

// leftovers returns the leftovers for a node, whose workload is this unit.
func leftovers(workload string) []leftover {
	leftDropIn, leftMask := "/run/systemd/system/"+workload+".d", "/run/systemd/system.control/"+workload
	alsoFile, alsoUnit := []step.Class{step.ClassFile}, []step.Class{step.ClassUnit}
	return []leftover{
		{step.ClassNft, "inet left", "nft add table inet left", "nft delete table inet left", nil},
		{step.ClassNet, "route blackhole 198.51.100.0/24", "ip route add blackhole 198.51.100.0/24",
			"ip route del blackhole 198.51.100.0/24", nil},
		{step.ClassFile, "/etc/gpuaas/left", "touch /etc/gpuaas/left", "rm /etc/gpuaas/left", nil},
		{step.ClassFile, "/etc/hosts", "chmod 600 /etc/hosts", "chmod 644 /etc/hosts", nil},
		{step.ClassMount, "host /etc/hostname", "mount --bind /etc/group /etc/hostname", "umount /etc/hostname", nil},
		{step.ClassMount, "gpuaas-node-agent.service /etc/hostname", inAgent + "mount --bind /etc/group /etc/hostname",
			inAgent + "umount /etc/hostname", nil},
		{step.ClassUnit, workload, "systemctl stop " + workload, "systemctl start " + workload,
			[]step.Class{step.ClassSocket}},
		{step.ClassUnit, workload, "systemctl freeze " + workload, "systemctl thaw " + workload, nil},
		{step.ClassUnit, workload, "mkdir " + leftDropIn + "; printf '[Unit]\\nDescription=left\\n' >" + leftDropIn +
			"/left.conf; systemctl daemon-reload",
			"rm -r " + leftDropIn + "; systemctl daemon-reload", alsoFile},
		{step.ClassUnit, workload, "mkdir -p /run/systemd/system.control; ln -s /dev/null " + leftMask +
			"; systemctl daemon-reload",
			"rm " + leftMask + "; rmdir /run/systemd/system.control; systemctl daemon-reload", alsoFile},
		// without a daemon-reload
		{step.ClassFile, leftDropIn + "/left.conf", "mkdir " + leftDropIn + "; touch " + leftDropIn + "/left.conf",
			"rm -r " + leftDropIn, nil},
		{step.ClassUnit, "left.service", "systemd-run -q --unit=left sleep 600", "systemctl stop left", nil},
		{step.ClassUnit, "left.service", "systemd-run -q --unit=left false; " + eventually("systemctl is-failed -q left"),
			"systemctl reset-failed left", nil},
		{step.ClassAccount, "group left", "cp /etc/group /root/group; echo left:x:4242: >>/etc/group",
			"cat /root/group >/etc/group; rm /root/group", nil},
		{step.ClassSocket, "tcp 127.0.0.1:4711", "systemd-run -q --unit=left nc -l -s 127.0.0.1 -p 4711; " +
			eventually("ss -Hltn 'sport = 4711' | grep -q ."),
			"systemctl stop left; systemctl reset-failed left 2>/dev/null || true", alsoUnit},
		{step.ClassDisk, "/ bytes", "fallocate -l 100M /var/left", "rm /var/left", nil},
		{step.ClassProcess, "sleep",
			"systemd-run -q --unit=left sleep 600; p=$(systemctl show -P MainPID left); " +
				eventually("grep -qx sleep /proc/$p/comm") + "; kill -STOP $p; " +
				eventually("grep -q '^State:.T' /proc/$p/status"),
			"systemctl kill -s KILL left; " + eventually("! systemctl is-active -q left") +
				"; systemctl reset-failed left 2>/dev/null || true", alsoUnit},
		{step.ClassOwn, "/etc/.gpuaasctl-left", "touch /etc/.gpuaasctl-left", "rm /etc/.gpuaasctl-left", nil},
		{step.ClassOwn, "/dev/shm/gpuaasctl-left", "touch /dev/shm/gpuaasctl-left", "rm /dev/shm/gpuaasctl-left", nil},
		{step.ClassOwn, "mount /etc/hostname, as process",
			"touch /run/gpuaasctl-left; " + inAgent + "mount --bind /run/gpuaasctl-left /etc/hostname",
			inAgent + "umount /etc/hostname; rm /run/gpuaasctl-left", []step.Class{step.ClassMount}},
		{step.ClassOwn, "gpuaasctl-reaper-left.service", "touch /etc/systemd/system/gpuaasctl-reaper-left.service",
			"rm /etc/systemd/system/gpuaasctl-reaper-left.service", alsoFile},
	}
}

// TestDrillResidue leaves something behind after a drill, in every class of the fingerprint. The comparison must
// find exactly that, and nothing after its removal. Each node handles one leftover after the other.
func TestDrillResidue(t *testing.T) {
	l := needLab(t)
	t.Parallel()
	table := leftovers("")
	for _, c := range step.Classes() {
		if !slices.ContainsFunc(table, func(p leftover) bool { return p.class == c }) {
			t.Errorf("nothing is left in class %s", c)
		}
	}
	lanes := cap(free)
	for lane := range lanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			machine := ownNode(t, l)
			green(t, machine)
			f := pushFault(t, l, machine)
			f.reply(t, aDrill(t, machine), "arm")
			t.Cleanup(func() { f.reply(t, nil, "close", "--force"); f.clean(t) })
			f.reply(t, nil, "revert")
			if r := f.reply(t, nil, "verify"); !*r.Clean {
				t.Fatalf("before anything is left: %v", r.Residue)
			}
			for i, p := range leftovers(lab.Machine{Name: machine}.AppUnit()) {
				if i%lanes == lane {
					t.Run(string(p.class)+" "+p.key, func(t *testing.T) { f.plant(t, p) })
				}
			}
		})
	}
}

// plant creates a leftover, checks that it is found, and removes it.
func (f faultTool) plant(t *testing.T, p leftover) {
	on(t, f.l, f.machine, p.do)
	found := f.residue(t)
	on(t, f.l, f.machine, p.undo)
	seen := false
	for _, r := range found {
		seen = seen || (r.Class == p.class && strings.Contains(r.Key, p.key))
		if r.Class != p.class && !slices.Contains(p.also, r.Class) {
			t.Errorf("found as well: %s", r)
		}
	}
	if !seen {
		t.Errorf("not found in %v", found)
	}
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) { // a unit takes a moment to start
		left := f.residue(t)
		if len(left) == 0 {
			return
		}
		if time.Since(began) > settle {
			t.Fatalf("removed by %q, and still found: %v", p.undo, left)
		}
	}
}

// aDrill is a drill without effect: none of its steps is requested.
func aDrill(t *testing.T, machine string) []byte {
	t.Helper()
	d := step.Drill{Schema: step.Schema, Run: "residue", Scenario: "residue", Node: machine, By: "test", At: time.Now(),
		TTL: 60_000, Steps: []step.Step{
			{ID: "none", Fault: "file", Tier: step.TierBoot,
				Changes: []step.Change{{File: &step.File{Path: "/run/none", Text: "x"}}}},
		}}
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	return d.Encode()
}

// faultTool is gpuaas-fault on a machine, driven from the host.
type faultTool struct {
	l       *lab.Lab
	machine string
}

const faultOnNode = "/root/gpuaas-fault"

func pushFault(t *testing.T, l *lab.Lab, machine string) faultTool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(tool()), "gpuaas-fault"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, l, machine, faultOnNode, b, 0o755)
	t.Cleanup(func() { on(t, l, machine, "rm -f "+faultOnNode) })
	return faultTool{l, machine}
}

// reply runs one command, which must succeed.
func (f faultTool) reply(t *testing.T, in []byte, args ...string) step.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	cmd, err := f.l.Command(ctx, f.machine, append([]string{faultOnNode}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	err = cmd.Run()
	var r step.Reply
	if bad := json.Unmarshal(out.Bytes(), &r); err != nil || bad != nil {
		t.Fatalf("gpuaas-fault %v: %v %v\n%s%s", args, err, bad, out.Bytes(), errs.Bytes())
	}
	return r
}

// residue returns what verify finds, except for what the drill needs until it is closed.
func (f faultTool) residue(t *testing.T) []step.Residue {
	t.Helper()
	return step.Unexplained(f.reply(t, nil, "verify").Residue)
}

// clean checks that the machine has nothing of ours.
func (f faultTool) clean(t *testing.T) {
	t.Helper()
	if r := f.reply(t, nil, "residue"); !*r.Clean {
		t.Errorf("after it was closed: %v", r.Residue)
	}
}
