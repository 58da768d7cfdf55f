package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/status"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// coordinatorTime bounds a request to the coordinator, since an operator waits for it. For coordinatorPause after one
// that was not answered, the next ones get coordinatorBrief.
const (
	coordinatorTime  = 10 * time.Second
	coordinatorPause = 30 * time.Second
	coordinatorBrief = time.Second
)

// tell locks the notices about one node: the coordinator gets its decisions in the order in which they were made.
func (g *gpuJudge) tell(nodeID string) (unlock func()) {
	g.mu.Lock()
	if g.telling == nil {
		g.telling = map[string]*sync.Mutex{}
	}
	if g.telling[nodeID] == nil {
		g.telling[nodeID] = &sync.Mutex{}
	}
	lock := g.telling[nodeID]
	g.mu.Unlock()
	lock.Lock()
	return lock.Unlock
}

// patience is how long the coordinator has for a request.
func (g *gpuJudge) patience(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.silent) {
		return coordinatorBrief
	}
	return coordinatorTime
}

// answered notes whether the coordinator answered a request.
func (g *gpuJudge) answered(yes bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = time.Time{}
	if !yes {
		g.silent = now.Add(coordinatorPause)
	}
}

// statusAsk is an operator's request for a node's status.
type statusAsk func(status.Node) (status.Node, status.Change)

// askStatus executes an operator's request and responds with the admission document. If there is a coordinator,
// which places work, the platform changes its own state first; if the coordinator does not accept that, the change
// is reverted, and the coordinator is notified of the reversal: it may have acted on the request before its
// response was lost.
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
		defer p.gpus.tell(p.knownNode(ctx, d.NodeID))() // one lock for all names that are no node's
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
			if err := p.store.RevertStatus(undo, d, notice, was, backTo(was.Status)); err != nil {
				return err
			}
			return web.Errorf(http.StatusBadGateway, "coordinator_failed", "nothing has changed: %s", failed)
		}
		return p.getGPU(w, r)
	}
}

// backTo returns the request that restores a node's earlier status, even if the node has become unhealthy since.
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
	return status.Node.Cordon // also if the response was not stored: no new work until an uncordon
}

// NotifyCoordinator sends the due notices to the coordinator: status changes by a policy, and requests of
// operators if the platform ended before the coordinator had accepted them. The platform runs it when a status
// changes, and retries until the coordinator accepts.
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
			break // it would not accept the others now either
		}
	}
	return errors.Join(errs...)
}

// notifyOf sends the coordinator the due notice of one node.
func (p *Platform) notifyOf(ctx context.Context, nodeID string) error {
	defer p.gpus.tell(nodeID)()
	n, err := p.store.GPUNode(ctx, nodeID)
	if err != nil || n.Due == (store.Notice{}) {
		return err
	}
	if err := p.notify(ctx, nodeID, n.Due); err != nil {
		return fmt.Errorf("node %s is %s: %w", nodeID, n.Due.To, err)
	}
	return nil
}

// notify sends a notice to the coordinator, if there is one, and records that it was accepted.
func (p *Platform) notify(ctx context.Context, nodeID string, n store.Notice) error {
	if p.cfg.GPU.Coordinator != "" {
		if err := p.coordinate(ctx, nodeID, n); err != nil {
			return err
		}
	}
	noted, cancel := detached(ctx)
	defer cancel()
	return p.store.NoticeAccepted(noted, nodeID, n)
}

// coordinate sends one notice to the coordinator.
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
	ctx, cancel := context.WithTimeout(ctx, p.gpus.patience(time.Now()))
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
	p.gpus.answered(!errors.Is(err, context.DeadlineExceeded), time.Now())
	if err != nil {
		return fmt.Errorf("ask the coordinator: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 { // the coordinator's response body is not trusted
		return fmt.Errorf("%w: it answers %d", errNotTaken, resp.StatusCode)
	}
	return nil
}

// errNotTaken means that the coordinator refused the request.
var errNotTaken = errors.New("the coordinator does not take it")
