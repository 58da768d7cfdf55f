package world

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// traffic counts the requests of a vantage over its network, and those of which packets were lost: segments were sent
// again, or the request was lost in transit one time and answered another time. One request may lose a packet on any
// network, which forbids a proof (LossSeen) and is no more than that; see loses.
type traffic struct {
	vantage     string
	sent, lossy int
	first       *diag.Fact // the first lossy request, in chain order; a step's own
	again       int64      // segments that were sent again
	stalled     bool       // a login got no further for it
}

var trafficMemo = hop.NewMemo(func(c *hop.Case) []traffic {
	all := []traffic{{vantage: hop.Operator}, {vantage: hop.Node}}
	for i := range all {
		all[i].count(c)
	}
	return all
})

// trafficOf returns the counts of a vantage; zero for one whose requests are not counted.
func trafficOf(c *hop.Case, vantage string) traffic {
	for _, t := range *trafficMemo.Of(c) {
		if t.vantage == vantage {
			return t
		}
	}
	return traffic{vantage: vantage}
}

func (t *traffic) count(c *hop.Case) {
	if ssh := c.Fact(diag.HopNodeOpsAccess, hop.StepSSH); ssh != nil && ssh.Vantage == t.vantage &&
		(ssh.Passed() || stalled(ssh)) {
		t.sent, t.stalled = 1, stalled(ssh)
		t.add(ssh)
	}
	for q := range c.AllStepFacts() {
		for runs := range hop.ByRequest(q.Runs) {
			for f := range seen(runs, t.vantage, answeredOverNetwork) {
				t.sent++
				t.add(f)
			}
			if silent := seenFrom(runs, t.vantage, reading.GotNoAnswer); len(silent) > 0 {
				lost := howMany(waited(silent, seenFrom(runs, t.vantage, answeredOverNetwork)), lostOnTheWay)
				t.sent, t.lossy = t.sent+lost, t.lossy+lost
			}
		}
	}
}

func answeredOverNetwork(f *diag.Fact) bool { return AnsweredRemotely(f) && !reading.Loopback(f) }

// add counts a request, or a login, if segments of it were sent again.
func (t *traffic) add(f *diag.Fact) {
	if !reading.Resent(f) {
		return
	}
	t.lossy, t.again = t.lossy+1, t.again+*f.TCP.Resent
	if t.first == nil && !strings.Contains(f.ID, "~") {
		t.first = f
	}
}

// loses reports whether the counts show a network that loses packets: one packet may be unlucky on any.
func (t *traffic) loses() bool { return t.lossy > 1 || t.again > 2 || t.stalled }

// words describes the counts.
func (t *traffic) words() string {
	from := "from the " + t.vantage
	if t.vantage == hop.Node {
		from = "from the node, or to it,"
	}
	return fmt.Sprintf("packets of %d of %d requests %s were lost or much delayed (%d segments were sent again)", t.lossy,
		t.sent, from, t.again)
}

// stalled reports whether a login got no further because segments of its connection were lost: a server that hangs
// still has a kernel that acknowledges them.
func stalled(f *diag.Fact) bool {
	return f.Request.Op == diag.OpSSH && f.Failure.Silent() && reading.Resent(f) && *f.TCP.Resent > 1
}
