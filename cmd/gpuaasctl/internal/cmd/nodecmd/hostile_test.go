package nodecmd

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/hostiletest"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/ops/endpoints"
)

// TestHostileHosts: a node's hosts file with control characters, for each action of node endpoints.
func TestHostileHosts(t *testing.T) {
	s := &hostiletest.Shown{T: t, Home: t.TempDir()}
	line := strings.NewReplacer("\x00", "", "\r", "").Replace(hostiletest.Hostile)
	entries := []endpoints.Entry{{Name: "node-api.test", Address: "10.0.0.11"}}
	text := "127.0.0.1 localhost " + line + "\n# BEGIN gpuaasctl\n10.9.9.9 node-api.test " + line + "\n# END gpuaasctl\n"
	apply, err := endpoints.Make(text, entries)
	if err != nil {
		t.Fatal(err)
	}
	remove, err := endpoints.Restore(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for action, p := range map[ops.EndpointsAction]endpoints.Plan{
		ops.EndpointsPlan: apply, ops.EndpointsApply: apply, ops.EndpointsRemove: remove,
	} {
		d := &ops.Endpoints{Node: "n1", Action: action, File: endpoints.HostsFile, Plan: p, Diff: p.Diff(),
			Changed: p.Changed, Error: line}
		for _, format := range []string{cmdutil.FormatTable, cmdutil.FormatJSON} {
			s.Shows(string(action), format, func(a *cmdutil.App) error { return a.ShowPage(d, format, endpointsPage(d)...) })
		}
	}
	hostiletest.PlantedIn(t, []byte(`{"names":[{"name":"a"}]}`), func(field string, d *ops.Endpoints) bool {
		s.Shows(field, cmdutil.FormatTable, func(a *cmdutil.App) error {
			return a.ShowPage(d, cmdutil.FormatTable, endpointsPage(d)...)
		})
		return s.Shows(field, cmdutil.FormatJSON, func(a *cmdutil.App) error {
			return a.ShowPage(d, cmdutil.FormatJSON, endpointsPage(d)...)
		})
	})
	s.Enough()
}
