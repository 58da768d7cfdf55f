package ops

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// canary is a token that no message may contain.
const canary = "grt1.canary"

// TestReadBundle: a bundle that cannot be used on this node is refused, and never quoted.
func TestReadBundle(t *testing.T) {
	for name, text := range map[string]string{
		"no bundle":      canary,
		"no token":       `{"node_id":"n1","api_url":"u","ca_bundle":"c"}`,
		"no CA":          `{"node_id":"n1","api_url":"u","token":"` + canary + `"}`,
		"another node's": `{"node_id":"n2","api_url":"u","ca_bundle":"c","token":"` + canary + `"}`,
	} {
		if _, err := readBundle([]byte(text), "n1"); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// toldVantage answers for the platform about a node, with other fields each time.
type toldVantage struct {
	fields func(asked int) map[string]string
	asked  int
}

func (v *toldVantage) Name() string { return hop.Operator }
func (v *toldVantage) Close() error { return nil }
func (v *toldVantage) Probe(context.Context, []diag.Request) []diag.Fact {
	v.asked++
	return []diag.Fact{{HTTP: &diag.HTTPFacts{Fields: v.fields(v.asked)}}}
}

// TestReenrollHeard: only a heartbeat sent after the restart counts, whether or not the platform sends its time.
func TestReenrollHeard(t *testing.T) {
	for name, now := range map[string]string{"tells the time": "2026-11-21T12:00:01.000Z", "tells no time": ""} {
		for _, comes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, comes back %t", name, comes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					platform := toldVantage{fields: func(asked int) map[string]string {
						seen := "2026-11-21T12:00:00.000Z" // from before the restart
						if comes && asked > 1 {
							seen = "2026-11-21T12:00:02.000Z"
						}
						return map[string]string{"node.now": now, "node.last_seen_at": seen}
					}}
					ctx, cancel := context.WithTimeout(t.Context(), 3*nodePoll/2)
					defer cancel()
					err := New(Site{}).Node("n1", "").awaitNode(ctx, &platform, nodeCert{}, &Reenrollment{Node: "n1"})
					if (err == nil) != comes {
						t.Errorf("after %d looks: %v", platform.asked, err)
					}
				})
			})
		}
	}
}
