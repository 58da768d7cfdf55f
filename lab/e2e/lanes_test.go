//go:build linux

package e2e

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// labNodes is the number of nodes in the suite's lab. A fault on one node does not affect the others, so such
// tests run in parallel, each on its own node; make test-lab says how many (-parallel). A fault of the platform
// affects all nodes, so its test runs alone: go test starts parallel tests only after the earlier sequential ones.
const labNodes = "6"

// free holds the nodes that no test uses. The node with the small root file system is not included: tests that
// need it break it. All recordings are of one node.
var free = func() chan string {
	all := []string{node, "compute-node-03", "compute-node-04", "compute-node-05", "compute-node-06"}
	if goldentest.Writing() {
		all = all[:1]
	}
	c := make(chan string, len(all))
	for _, n := range all {
		c <- n
	}
	return c
}()

// ownNode makes t parallel, and reserves a node for it. An earlier test on that node may have killed its agent,
// which counts as a crash loop for ten minutes.
func ownNode(t *testing.T, l *lab.Lab) string {
	t.Helper()
	t.Parallel()
	n := <-free
	t.Cleanup(func() { free <- n })
	on(t, l, n, startedByHand)
	return n
}
