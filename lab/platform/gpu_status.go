package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/status"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// coordinatorTime bounds a call of the coordinator: an operator waits for it.
const coordinatorTime = 10 * time.Second

// statusAsk is one of an operator's words on a node's status.
type statusAsk func(status.Node) (status.Node, status.Change)

// askStatus answers with the admission document after what an operator asked for. Where there is a coordinator, which
// places work, the platform's own state is first; when the coordinator does not take it, it is taken back.
func (p *Platform) askStatus(action string, ask statusAsk) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if p.cfg.GPU.Policy == "" {
			return web.Errorf(http.StatusNotFound, "gpu_not_judged", "this platform judges no GPUs")
		}
		d, _, err := p.decisionOf(w, r, "node."+action)
		if err != nil {
			return err
		}
		ctx := r.Context()
		was, c, err := p.store.AskStatus(ctx, d, ask)
		switch {
		case err != nil:
			return notFound(err, "node")
		case c.Refused:
			return web.Errorf(http.StatusConflict, "status_refused", "%s", c.Why)
		}
		p.log.Info("operator decided on a node's status", "node_id", d.NodeID, "action", action, "from", string(c.From), "to",
			string(c.To), "correlation_id", d.CorrelationID)
		if failed := p.coordinate(ctx, d, c); failed != nil {
			undo, cancel := detached(ctx)
			defer cancel()
			d.Reason, d.At = "taken back: "+failed.Error(), p.now()
			if _, _, err := p.store.AskStatus(undo, d, backTo(was)); err != nil {
				return err
			}
			return web.Errorf(http.StatusBadGateway, "coordinator_failed", "nothing has changed: %s", failed)
		}
		return p.getGPU(w, r)
	}
}

// backTo asks for what a node was, also where it has become unhealthy meanwhile.
func backTo(was status.Node) statusAsk {
	to := was.Now()
	if to == status.Unhealthy {
		to = was.Before
	}
	switch to {
	case status.Active:
		return status.Node.Uncordon
	case status.Draining:
		return status.Node.Drain
	}
	return status.Node.Cordon // also where that was not kept: no new work until somebody asks
}

// coordinate tells the coordinator, where there is one.
func (p *Platform) coordinate(ctx context.Context, d store.Decision, c status.Change) error {
	if p.cfg.GPU.Coordinator == "" {
		return nil
	}
	body, err := json.Marshal(map[string]any{"apiVersion": gpuAPIVersion, "kind": "NodeStatusAsked", "node": d.NodeID,
		"asked": c.Asked, "from": c.From, "to": c.To, "by": d.By, "reason": d.Reason, "correlation_id": d.CorrelationID})
	if err != nil {
		return fmt.Errorf("write what the coordinator is asked: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, coordinatorTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.cfg.GPU.Coordinator, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the coordinator: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the coordinator: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the coordinator answers %s", resp.Status)
	}
	return nil
}
