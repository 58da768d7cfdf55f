package host

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"GPUAAS_API_URL": "https://node-api.gpuaas.test", "GPUAAS_NODE_ID": "n-1",
		"GPUAAS_ENROLLMENT_TOKEN": kit.Canary}
	req := diag.Request{
		Target: "${GPUAAS_API_URL}/nodes/${GPUAAS_NODE_ID}", Body: `{"n":"${GPUAAS_NODE_ID}"}`, NodeID: "${GPUAAS_NODE_ID}",
		Header: map[string]string{"X-Node": "${GPUAAS_NODE_ID}"}, Resolve: "10.0.0.1",
	}
	agent := &AgentView{Env: env}
	got, err := Expand(req, agent, false)
	if err != nil {
		t.Fatal(err)
	}
	if got.Target != "https://node-api.gpuaas.test/nodes/n-1" || got.Body != `{"n":"n-1"}` || got.NodeID != "n-1" ||
		got.Header["X-Node"] != "n-1" {
		t.Errorf("%+v", got)
	}
	if req.Header["X-Node"] != "${GPUAAS_NODE_ID}" {
		t.Error("the caller's header was written to")
	}
	for target, want := range map[string]string{
		"${GPUAAS_TERMINAL_API_URL}/x": "GPUAAS_TERMINAL_API_URL is not set in the agent's environment",
		"${GPUAAS_ENROLLMENT_TOKEN}/x": "GPUAAS_ENROLLMENT_TOKEN is not a name that requests may use",
		"${HOME}/${GPUAAS_API_URL}":    "HOME is not a name that requests may use",
	} {
		if _, err := Expand(diag.Request{Target: target}, agent, false); err == nil || err.Error() != want {
			t.Errorf("%s: %v", target, err)
		}
	}
	const plain = "$HOME ${} $(x)"
	if got, err := Expand(diag.Request{Body: plain}, &AgentView{}, false); err != nil || got.Body != plain {
		t.Errorf("what is no name stays: %q %v", got.Body, err)
	}
}
