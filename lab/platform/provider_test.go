package platform_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

// TestTheGuestAgentsStatusChanges: the provider's status of a machine can change, with audit and evidence; an unknown
// status or a missing reason changes nothing.
func TestTheGuestAgentsStatusChanges(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	at := "/v1/admin/nodes/" + platformtest.NodeID + "/provider"
	read := func() (status, when string) {
		t.Helper()
		var n struct {
			Provider struct {
				GuestAgent struct {
					Status string `json:"status"`
					At     string `json:"at"`
				} `json:"guest_agent"`
			} `json:"provider"`
		}
		if code, _ := p.Do(http.MethodGet, "/v1/admin/nodes/"+platformtest.NodeID, nil, &n); code != 200 {
			t.Fatalf("read the node: %d", code)
		}
		return n.Provider.GuestAgent.Status, n.Provider.GuestAgent.At
	}
	before, _ := read()
	for want, in := range map[string]map[string]any{
		"reason_required":            {"guest_agent": map[string]string{"status": "down"}},
		"guest_agent_status_invalid": {"guest_agent": map[string]string{"status": "asleep"}, "reason": "x"},
		"guest_agent_time_invalid":   {"guest_agent": map[string]any{"status": "down", "for_seconds": 86401}, "reason": "x"},
	} {
		var e wire.ErrorBody
		if code, _ := p.Do(http.MethodPost, at, in, &e); code != 400 || e.Error.Code != want {
			t.Errorf("%v: %d %s", in, code, e.Error.Code)
		}
	}
	if now, _ := read(); now != before || len(auditRows(t, p, "")) != 0 {
		t.Errorf("something changed: %s, was %s", now, before)
	}
	var e wire.ErrorBody
	down := map[string]any{"guest_agent": map[string]string{"status": "down"}, "reason": "the provider's console",
		"by": "ada"}
	if code, _ := p.Do(http.MethodPost, strings.Replace(at, platformtest.NodeID, "nobody", 1), down, &e); code != 404 {
		t.Errorf("an unknown node: %d", code)
	}
	if code, _ := p.Do(http.MethodPost, at, down, nil, wire.HeaderCorrelationID, correlationID); code != 200 {
		t.Fatalf("down: %d", code)
	}
	if now, when := read(); now != "down" || when == "" {
		t.Errorf("the guest agent is %s at %q", now, when)
	}
	rows := auditRows(t, p, "?action=node.provider_status")
	if len(rows) != 1 || rows[0].ActorID != "ada" || rows[0].CorrelationID != correlationID {
		t.Errorf("audit %+v", rows)
	}
	wantEvidence(t, p, correlationID, "node.provider_status_changed")
}
