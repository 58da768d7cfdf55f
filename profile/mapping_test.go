package profile

import (
	"slices"
	"testing"
)

func TestPathEscapesByPlace(t *testing.T) {
	m := DefaultMapping()
	for _, c := range []struct {
		name string
		vars map[string]string
		want string
	}{
		{PathNode, map[string]string{"node_id": "a/b?c d"}, "/v1/admin/nodes/a%2Fb%3Fc%20d"},
		{PathEvidence, map[string]string{"correlation_id": "x&y=z w"}, "/v1/admin/evidence?correlation_id=x%26y%3Dz+w"},
		{PathTaskWait, map[string]string{"node_id": "${GPUAAS_NODE_ID}"},
			"/internal/v1/nodes/${GPUAAS_NODE_ID}/tasks/wait?timeout=0&peek=1"},
		{PathNode, map[string]string{"node_id": "${A}/../${B}"}, "/v1/admin/nodes/$%7BA%7D%2F..%2F$%7BB%7D"},
		{PathHealthz, nil, "/healthz"},
		{"unknown", nil, ""},
	} {
		if got := m.Path(c.name, c.vars); got != c.want {
			t.Errorf("%s %v: got %s, want %s", c.name, c.vars, got, c.want)
		}
	}
}

func TestAnotherDialect(t *testing.T) {
	p := Profile{Mapping: Mapping{
		Paths:  map[string]string{PathNode: "/api/hosts/{node_id}?full=1", PathTrust: Absent},
		Fields: map[string]string{"node.status": "data.host.state", "node.health": Absent, "error.code": "fault.kind"},
	}}
	for _, m := range []Mapping{p.Mapping, p.WithDefaults().Mapping} {
		if got := m.Path(PathNode, map[string]string{"node_id": "n1"}); got != "/api/hosts/n1?full=1" {
			t.Errorf("node: %s", got)
		}
		if got := m.Path(PathTrust, nil); got != "" {
			t.Errorf("an absent path gives %q", got)
		}
		if got := m.Path(PathHealthz, nil); got != "/healthz" {
			t.Errorf("an unmapped path gives %q", got)
		}
		got := m.Extract("node.status", "node.health", "node.hostname", "error.code")
		want := map[string]string{"node.status": "data.host.state", "node.hostname": "hostname", "error.code": "fault.kind"}
		if len(got) != len(want) {
			t.Errorf("extract %v, want %v", got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %q, want %q", k, got[k], v)
			}
		}
		if !m.CanPeek() {
			t.Error("peek is lost")
		}
	}
}

func TestDefaultsPassTheirOwnChecks(t *testing.T) {
	p := Profile{}.WithDefaults()
	for _, pr := range problems(&p) {
		t.Errorf("%s: %v", pr.key, pr.err)
	}
	for _, names := range [][]string{pathNames(), fieldNames(), PolicyKeys()} {
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("a name is there twice in %v", names)
		}
	}
	for _, r := range PolicyRows {
		if p.PolicyValue(r.Key) != r.Default || (Profile{}).PolicyValue(r.Key) != r.Default {
			t.Errorf("%s has not its default", r.Key)
		}
	}
	if got := p.PolicyValue("no.such.key"); got != 0 {
		t.Errorf("an unknown key has %d", got)
	}
}

func TestDefaultsAreTheCallersOwn(t *testing.T) {
	DefaultPolicy()[PolicyTaskWait] = 1
	*DefaultMapping().Peek = false
	DefaultMapping().Paths[PathNode] = "/x"
	if DefaultPolicy()[PolicyTaskWait] != 25 || !*DefaultMapping().Peek || DefaultMapping().Paths[PathNode] == "/x" {
		t.Error("a caller changed the defaults")
	}
	p := Profile{Policy: map[string]int64{PolicyTaskWait: 5}}
	p.WithDefaults().Policy[PolicyTaskWait] = 9
	if p.Policy[PolicyTaskWait] != 5 {
		t.Error("WithDefaults shares its map")
	}
}
