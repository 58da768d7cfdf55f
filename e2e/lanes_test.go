//go:build linux

package e2e

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/internal/goldentest"
	"github.com/gpuaas/gpuaasctl/lab"
)

// labNodes is how many nodes the suite's lab has. What breaks one node is not seen from another, so that such tests run
// at once, each with a node for itself; make test-lab says how many (-parallel). What breaks the platform is seen by
// everybody, and runs while nothing else does: go test begins a parallel test only when those before it that are not
// parallel are over.
const labNodes = "6"

// free are the nodes that no test has. The one with the small root file system is not among them: it is broken by tests
// that want it. All recordings are of one node.
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

// ownNode makes t parallel, and gives it a node that is its own until it is over. The test that had it before may have
// killed its agent, which is a crash loop to a walk for ten minutes.
func ownNode(t *testing.T, l *lab.Lab) string {
	t.Helper()
	t.Parallel()
	n := <-free
	t.Cleanup(func() { free <- n })
	on(t, l, n, startedByHand)
	return n
}
