package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
// places work, the platform's own state is first; when the coordinator does not take it, it is taken back, and that is
// what the coordinator has to know: it may have done what it did not answer in time.
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
		p.gpus.telling.Lock() // the coordinator gets decisions in the order in which they were taken
		defer p.gpus.telling.Unlock()
		was, c, err := p.store.AskStatus(ctx, d, ask)
		switch {
		case err != nil:
			return notFound(err, "node")
		case c.Refused:
			return web.Errorf(http.StatusConflict, "status_refused", "%s", c.Why)
		}
		p.log.Info("operator decided on a node's status", "node_id", d.NodeID, "action", action, "from", string(c.From), "to",
			string(c.To), "correlation_id", d.CorrelationID)
		notice := store.NoticeOf(d, c)
		if failed := p.notify(ctx, d.NodeID, notice); failed != nil {
			undo, cancel := detached(ctx)
			defer cancel()
			d.Reason, d.At = "taken back: "+failed.Error(), p.now()
			if err := p.store.TakeBackStatus(undo, d, notice, was, backTo(was.Status)); err != nil {
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
	return status.Node.Cordon // also if the answer was not stored: no new work until an uncordon
}

// NotifyCoordinator gives the coordinator what it has to know now: what a policy made of a node, and what an operator
// asked of a platform that ended before the coordinator had it. The platform does so by itself when a status changes,
// and again until the coordinator takes it.
func (p *Platform) NotifyCoordinator(ctx context.Context) error {
	nodes, err := p.store.NodesWithNotice(ctx)
	if err != nil {
		return fmt.Errorf("list nodes whose status the coordinator has to know: %w", err)
	}
	var errs []error
	for _, n := range nodes {
		err := p.notifyOf(ctx, n.NodeID)
		if err != nil {
			errs = append(errs, err)
		}
		if err != nil && !errors.Is(err, errNotTaken) {
			break // nor does it take the others now
		}
	}
	return errors.Join(errs...)
}

// notifyOf gives the coordinator what it has to know of one node now.
func (p *Platform) notifyOf(ctx context.Context, nodeID string) error {
	p.gpus.telling.Lock()
	defer p.gpus.telling.Unlock()
	n, err := p.store.GPUNode(ctx, nodeID)
	if err != nil || n.Due == (store.Notice{}) {
		return err
	}
	if err := p.notify(ctx, nodeID, n.Due); err != nil {
		return fmt.Errorf("node %s is %s: %w", nodeID, n.Due.To, err)
	}
	return nil
}

// notify gives the coordinator one notice, where there is one, and notes that it took it.
func (p *Platform) notify(ctx context.Context, nodeID string, n store.Notice) error {
	if p.cfg.GPU.Coordinator != "" {
		if err := p.coordinate(ctx, nodeID, n); err != nil {
			return err
		}
	}
	noted, cancel := detached(ctx)
	defer cancel()
	return p.store.NoticeTaken(noted, nodeID, n)
}

// coordinate gives the coordinator one notice.
func (p *Platform) coordinate(ctx context.Context, nodeID string, n store.Notice) error {
	kind := "NodeStatusAsked"
	if n.Asked == status.AskReport {
		kind = "NodeStatusChanged"
	}
	body, err := json.Marshal(map[string]any{"apiVersion": gpuAPIVersion, "kind": kind, "node": nodeID, "asked": n.Asked,
		"from": n.From, "to": n.To, "by": n.By, "reason": n.Reason, "correlation_id": n.CorrelationID})
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
	if sent, ok := errors.AsType[*url.Error](err); ok {
		err = sent.Err // its URL may have a secret
	}
	if err != nil {
		return fmt.Errorf("ask the coordinator: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 { // the text beside the code is the coordinator's
		return fmt.Errorf("%w: it answers %d", errNotTaken, resp.StatusCode)
	}
	return nil
}

// errNotTaken means that the coordinator refused the request.
var errNotTaken = errors.New("the coordinator does not take it")
