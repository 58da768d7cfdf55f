// Package queue delivers tasks to nodes: it stores and signs them, wakes the waiting node, accepts results, and
// expires overdue tasks. It is the only place where a task changes its status.
package queue

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// Signer signs tasks. KeyID is the first 8 hex digits of the sha256 of the public key.
type Signer struct {
	KeyID string
	key   ed25519.PrivateKey
}

// NewSigner returns a signer with a private key.
func NewSigner(key ed25519.PrivateKey) Signer {
	pub, _ := key.Public().(ed25519.PublicKey) // the public half of an ed25519 key has this type
	return Signer{KeyID: fmt.Sprintf("%.4x", sha256.Sum256(pub)), key: key}
}

// Pubkeys returns the value of GPUAAS_TASK_SIGNING_PUBKEYS for this signer.
func (s Signer) Pubkeys() string {
	pub, _ := s.key.Public().(ed25519.PublicKey)
	return s.KeyID + ":" + base64.StdEncoding.EncodeToString(pub)
}

// Queue holds the nodes' tasks. Use New.
type Queue struct {
	store   *store.Store
	signer  Signer
	now     func() time.Time
	settled func(context.Context, store.Task)
	wake    wakeups
}

// New returns a queue. settled is called once for every task that completed, failed or expired, after that was
// stored; and once more for the result of an expired task, which then has LateAt set.
func New(s *store.Store, signer Signer, now func() time.Time, settled func(context.Context, store.Task)) *Queue {
	return &Queue{store: s, signer: signer, now: now, settled: settled}
}

// Spec describes a task to create.
type Spec struct {
	NodeID        string
	Type          string
	Payload       []byte // JSON
	TTL           time.Duration
	CorrelationID string
	SessionID     string
	AllocationID  string
}

// Pubkeys returns the value of GPUAAS_TASK_SIGNING_PUBKEYS that verifies this queue's tasks.
func (q *Queue) Pubkeys() string { return q.signer.Pubkeys() }

// Enqueue stores the task and wakes the node. It returns store.ErrNotFound for an unknown node.
func (q *Queue) Enqueue(ctx context.Context, spec Spec) (store.Task, error) {
	t := q.NewTask(spec)
	if err := q.store.Enqueue(ctx, t, spec.Type == wire.TaskStatusProbe); err != nil {
		return store.Task{}, fmt.Errorf("enqueue %s for node %s: %w", spec.Type, spec.NodeID, err)
	}
	q.wake.Wake(spec.NodeID)
	return t, nil
}

// NewTask returns the row of a task that is queued now, for a caller that stores it together with other rows; the
// caller then calls Wake.
func (q *Queue) NewTask(spec Spec) store.Task {
	now := q.now().UTC().Truncate(time.Millisecond)
	return store.Task{
		ID: store.NewID("task-"), NodeID: spec.NodeID, Type: spec.Type, Payload: spec.Payload,
		CorrelationID: spec.CorrelationID, SessionID: spec.SessionID, AllocationID: spec.AllocationID,
		Status: wire.TaskQueued, QueuedAt: now, ExpiresAt: now.Add(spec.TTL),
	}
}

// Wake ends the wait of a node's long poll.
func (q *Queue) Wake(nodeID string) { q.wake.Wake(nodeID) }

// Reclaim returns observations that were handed out before a time, and have no result, to the queue, once each.
func (q *Queue) Reclaim(ctx context.Context, claimedBefore time.Time) ([]store.Task, error) {
	tasks, err := q.store.Reclaim(ctx, claimedBefore, q.now())
	for _, t := range tasks {
		q.wake.Wake(t.NodeID)
	}
	return tasks, err
}

// Wait claims the node's next tasks, at most so many. It waits for one until the timeout, and returns none if none
// came. A caller that has disconnected claims nothing.
func (q *Queue) Wait(ctx context.Context, nodeID string, timeout time.Duration, most int) ([]store.Task, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		woken := q.wake.C(nodeID) // before reading the queue, so that no enqueue is missed
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if tasks, err := q.claim(ctx, nodeID, most); len(tasks) > 0 || err != nil {
			return tasks, err
		}
		select {
		case <-woken:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// claim claims the node's queued tasks. If a claim fails, the tasks claimed before it are still handed out.
func (q *Queue) claim(ctx context.Context, nodeID string, most int) (tasks []store.Task, err error) {
	for size := 0; len(tasks) < most && size < batchBytes; {
		t, err := q.store.Claim(ctx, nodeID, q.now())
		switch {
		case errors.Is(err, store.ErrNotFound), err != nil && len(tasks) > 0:
			return tasks, nil
		case err != nil:
			return nil, fmt.Errorf("claim a task for node %s: %w", nodeID, err)
		}
		tasks, size = append(tasks, t), size+len(t.Payload)
	}
	return tasks, nil
}

// batchBytes bounds the payload of one response's tasks; further tasks follow with the next wait.
const batchBytes = 64 << 10

// Sign returns the task as it is sent to the node.
func (q *Queue) Sign(t store.Task) wire.Task {
	w := wire.Task{ID: t.ID, NodeID: t.NodeID, Type: t.Type, Payload: t.Payload, CorrelationID: t.CorrelationID,
		QueuedAt: t.QueuedAt, ExpiresAt: t.ExpiresAt}
	w.Sign(q.signer.KeyID, q.signer.key)
	return w
}

// Return takes back claims whose response could not be delivered, and wakes waiters.
func (q *Queue) Return(ctx context.Context, tasks ...store.Task) error {
	var errs []error
	for _, t := range tasks {
		if err := q.store.Requeue(ctx, t, q.now()); err != nil {
			errs = append(errs, fmt.Errorf("requeue task %s: %w", t.ID, err))
			continue
		}
		q.wake.Wake(t.NodeID)
	}
	return errors.Join(errs...)
}

// Finish accepts a result; a second one for the same task changes nothing.
func (q *Queue) Finish(ctx context.Context, nodeID, taskID string, r wire.TaskResult) error {
	t, news, err := q.store.Finish(ctx, nodeID, taskID, r, q.now())
	if err == nil && news {
		q.settled(ctx, t)
	}
	return err
}

// Sweep expires overdue tasks.
func (q *Queue) Sweep(ctx context.Context) (int, error) {
	tasks, err := q.store.Expire(ctx, q.now())
	q.settleAll(ctx, tasks)
	return len(tasks), err
}

// Withdraw expires an unclaimed task that no caller waits for any more.
func (q *Queue) Withdraw(ctx context.Context, taskID string) error {
	tasks, err := q.store.Withdraw(ctx, taskID, q.now())
	q.settleAll(ctx, tasks)
	return err
}

func (q *Queue) settleAll(ctx context.Context, tasks []store.Task) {
	for _, t := range tasks {
		q.settled(ctx, t)
	}
}
