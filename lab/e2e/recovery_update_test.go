//go:build linux

package e2e

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

const (
	killAgent = "systemctl kill -s KILL gpuaas-node-agent"
	artifacts = "/var/lib/gpuaas-platform/artifacts/"
)

// slowPackages throttles what the ingress sends to the node, so that the agent can be killed in the middle of a
// download, even on a slow machine: a build takes 16 s.
const (
	slowPackages = "nft -f - <<'X'\nadd table inet slow\nadd chain inet slow c { type filter hook input priority 0; }\n" +
		"add rule inet slow c ip saddr 10.231.77.11 tcp sport 443 limit rate over 500 kbytes/second burst 256 kbytes drop\nX"
	fastPackages = "nft delete table inet slow"
)

// killedUpdate: the agent is killed while it fetches its next build, and again while that build soaks. The update
// continues from there, is done once, and the node keeps its identity. A build that crashes at once is reverted,
// and never tried again.
func killedUpdate(c *trial) {
	t, l := c.t, c.l
	installed := c.build().Package.SHA256
	t.Cleanup(func() { // reinstall the lab's program, by another update
		if c.build().Running.SHA256 != installed {
			c.ends(c.update(installed), "converged")
		}
	})
	agent, err := os.ReadFile(filepath.Join(filepath.Dir(tool()), "gpuaas-agent"))
	if err != nil {
		t.Fatal(err)
	}
	good := c.offer(agent)
	fast := broken(c, c.node, slowPackages, fastPackages)
	id := c.update(good)
	c.says(diag.RecSelfUpdateStarted, "accept")
	c.on(killAgent)
	c.says(diag.RecBootRecovery, "recover")
	fast()
	c.says(diag.RecSelfUpdateStarted, "update")
	c.says(diag.RecSelfUpdateCommitted, "commit")
	c.on(killAgent)
	c.says(diag.RecSelfUpdateCommitted, "converge")
	c.ends(id, "converged")
	if now := c.build().Running.SHA256; now != good || c.running() != good {
		t.Errorf("the platform names %.12s, the process is %.12s; want %.12s", now, c.running(), good)
	}
	if n := c.count("task.completed", id); n != 1 {
		t.Errorf("the task was completed %d times", n)
	}
	c.on(startedByHand)
	c.well()

	dead, err := readFile(l, c.node, "/usr/bin/false")
	if err != nil {
		t.Fatal(err)
	}
	bad := c.offer(dead)
	id = c.update(bad)
	c.says(diag.RecSelfUpdateReverted, "revert")
	c.ends(id, "reverted")
	if c.running() != good {
		t.Error("the build before does not run")
	}
	c.on(startedByHand)
	c.well()
	if out, err := l.Exec(t.Context(), platform, "sh", "-c", order(c, bad)); err == nil {
		t.Errorf("a build that was left can be ordered again: %s", out)
	}
	c.enrolled(0, 0)
	c.sameCert(c.serial)
}

// build returns what the platform knows about the node's builds.
func (c *trial) build() (b struct{ Running, Package struct{ SHA256 string } }) {
	c.t.Helper()
	var n struct {
		Boot struct{ Running, Package struct{ SHA256 string } }
	}
	c.get("/v1/admin/nodes/"+c.node, &n)
	return n.Boot
}

// running returns the digest of the agent process's program.
func (c *trial) running() string {
	c.t.Helper()
	return strings.Fields(c.on("sha256sum /proc/$(systemctl show -P MainPID gpuaas-node-agent)/exe"))[0]
}

// offer stores a program, made unique by a few bytes at its end, where the platform serves packages.
func (c *trial) offer(program []byte) (sha string) {
	c.t.Helper()
	program = append(program[:len(program):len(program)], rand.Text()...)
	sum := sha256.Sum256(program)
	sha = hex.EncodeToString(sum[:])
	putOn(c.t, c.l, platform, artifacts+sha, program)
	on(c.t, c.l, platform, "chmod 644 "+artifacts+sha)
	c.t.Cleanup(func() { on(c.t, c.l, platform, "rm -f "+artifacts+sha) })
	return sha
}

// order returns the call that orders a self-update, as a script for the platform's machine.
func order(c *trial, sha string) string {
	return `curl -sSf -X POST -H "Authorization: Bearer $(cat /etc/gpuaas-platform/operator.token)" -H 'Content-Type: application/json' -d '{"version":"drill-` + sha[:8] +
		`","sha256":"` + sha + `","soak_seconds":3}' http://127.0.0.1:8080/v1/admin/nodes/` + c.node + `/rollouts`
}

// update orders a self-update and gives its id.
func (c *trial) update(sha string) string {
	c.t.Helper()
	var task struct{ ID string }
	out := on(c.t, c.l, platform, order(c, sha))
	if err := json.Unmarshal([]byte(out), &task); err != nil || task.ID == "" {
		c.t.Fatalf("order a self-update: %v: %s", err, out)
	}
	return task.ID
}

// ends waits until the platform reports a rollout in its final state.
func (c *trial) ends(id, state string) {
	c.t.Helper()
	var r struct{ State, Result string }
	for began := time.Now(); time.Since(began) < agentPatience; time.Sleep(200 * time.Millisecond) {
		if c.get("/v1/admin/rollouts/"+id, &r); r.State == state {
			c.step("%s: %s", state, r.Result)
			return
		}
	}
	c.t.Errorf("rollout %s is %s (%s), want %s", id, r.State, r.Result, state)
}

// count counts the platform's evidence of one kind about one task.
func (c *trial) count(kind, task string) (n int) {
	c.t.Helper()
	var doc struct {
		Items []struct {
			Kind string
			Task string `json:"task_id"`
		}
	}
	c.get("/v1/admin/evidence?node_id="+c.node+"&since="+c.since, &doc)
	for _, e := range doc.Items {
		if e.Kind == kind && e.Task == task {
			n++
		}
	}
	return n
}
