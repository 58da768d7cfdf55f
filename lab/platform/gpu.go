package platform

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	gpureport "github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// Intervals and time limits of judging GPUs.
const (
	// gpuRound is how often a policy's file is checked, and failed judgements are retried.
	gpuRound = 15 * time.Second
	// gpuRejudge is the age at which a silent node is judged again: its samples may be stale.
	gpuRejudge = time.Minute
	// gpuTimeout bounds one run of the program, in seconds.
	gpuTimeout = 30
	// gpuJudgementAge is the age at which a judgement is stale, since judging must have stopped.
	gpuJudgementAge = 3 * gpuRejudge
	maxGPUPolicy    = 1 << 20 // bytes of a file
)

// gpuJudge is the state of judging nodes' GPUs.
type gpuJudge struct {
	wake     chan struct{}  // holds a token while there is new evidence
	changed  chan struct{}  // holds a token while there is a notice for the coordinator
	expected map[string]int // expected number of GPUs of each node, from the seed

	round  sync.Mutex // serializes rounds; guards file, digest and last
	file   policy.File
	digest string // of file; "": none was accepted yet
	last   string // digest of the rejected text

	mu      sync.Mutex             // guards what follows
	refused []string               // problems of the current file
	telling map[string]*sync.Mutex // by node: held from an operator's decision until the coordinator has answered
	silent  time.Time              // until when the coordinator, which has not answered, is given less time
}

// openGPUs prepares the judging. If a part is missing, the judgements say so: no node is healthy without it.
func (p *Platform) openGPUs() {
	p.gpus.wake, p.gpus.changed = make(chan struct{}, 1), make(chan struct{}, 1)
	p.cfg.GPU.Mode = cmp.Or(p.cfg.GPU.Mode, policy.Enforce)
	if p.version = cmp.Or(p.version, "dev"); p.cfg.GPU.Program != "" {
		return
	}
	self, err := os.Executable()
	if err != nil {
		p.log.Error("this program's own folder is not known", "error", err)
		return
	}
	if p.cfg.GPU.Program, err = policy.Find([]string{filepath.Dir(self)}, nil); err != nil && p.cfg.GPU.Policy != "" {
		p.log.Error("GPUs cannot be judged", "error", err)
	}
}

// wakeGPUs schedules a round of judging.
func (p *Platform) wakeGPUs(events []wire.Event) {
	if !slices.ContainsFunc(events, func(e wire.Event) bool { return gpureport.IsWireKind(e.Kind) }) {
		return
	}
	wake(p.gpus.wake)
}

func wake(loop chan<- struct{}) {
	select {
	case loop <- struct{}{}:
	default: // it is awake
	}
}

// JudgeGPUs judges every node with a new event, a new policy, or an old judgement. The platform runs it when
// events arrive.
func (p *Platform) JudgeGPUs(ctx context.Context) error {
	g := &p.gpus
	g.round.Lock()
	defer g.round.Unlock()
	p.loadPolicy(ctx)
	nodes, err := p.store.GPUNodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes with GPUs: %w", err)
	}
	var errs []error
	for _, n := range nodes {
		j := n.Judged
		if j.Policy != "" && j.Policy == g.digest && j.Seq == n.Seq && j.Judgement.Mode == p.cfg.GPU.Mode &&
			p.now().Sub(j.At) < gpuRejudge {
			continue
		}
		if err := p.judgeNode(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("judge the GPUs of node %s: %w", n.NodeID, err))
		}
	}
	return errors.Join(errs...)
}

// judgeNode judges one node and stores the consequences.
func (p *Platform) judgeNode(ctx context.Context, n store.GPUNode) error {
	kept, err := p.store.GPUEvents(ctx, n.NodeID)
	if err != nil {
		return err
	}
	now := p.now().UTC()
	ev := policy.Evidence{Now: now}
	if count, known := p.gpus.expected[n.NodeID]; known {
		ev.Expected = &count
	}
	j := store.GPUJudged{Seq: n.Seq, At: now}
	for _, e := range kept {
		if d := e.Device; d != nil {
			if d.SampledAt.After(e.ReceivedAt) { // by a clock that is ahead
				d.SampledAt = e.ReceivedAt
			}
			if d.SampledAt.After(j.SampledAt) {
				j.SampledAt = d.SampledAt
			}
		}
		ev.Events = append(ev.Events, e.Event)
	}
	judged, err := p.judgeEvidence(ctx, ev)
	if ctx.Err() != nil { // shutting down: not a failure of the policy
		return ctx.Err()
	}
	if err != nil {
		judged = p.notJudged(ev, err)
	} else {
		j.Policy = p.gpus.digest
	}
	judged.Mode = p.cfg.GPU.Mode
	j.Judgement = judged
	change, err := p.store.JudgeGPUs(ctx, n.NodeID, j)
	if err != nil {
		return err
	}
	p.metrics.add("gpu_judgements_total", "health", string(judged.Health))
	if change.From != change.To {
		p.log.Warn("a node's status changes by what its GPUs report", "node_id", n.NodeID, "from", string(change.From),
			"to", string(change.To), "why", change.Why)
		wake(p.gpus.changed)
	}
	return nil
}

// judgeEvidence runs the program. Anything but a complete judgement is an error.
func (p *Platform) judgeEvidence(ctx context.Context, ev policy.Evidence) (j policy.Judgement, err error) {
	if p.gpus.digest == "" {
		return j, fmt.Errorf("no policy was accepted: %s", strings.Join(p.gpus.mistakes(), "; "))
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for i := range ev.Events {
		if err := enc.Encode(&ev.Events[i]); err != nil {
			return j, fmt.Errorf("write the evidence: %w", err)
		}
	}
	r, err := p.askPolicy(ctx, policy.Request{Op: policy.OpJudge, Policy: p.gpus.file, Expected: ev.Expected, Now: &ev.Now,
		Events: &policy.File{Path: "events", Text: lines.Bytes()}})
	if err != nil {
		return j, err
	}
	return r.Judged()
}

// notJudged returns the judgement for a policy that could not run: the state of every GPU is unknown.
func (p *Platform) notJudged(ev policy.Evidence, err error) policy.Judgement {
	why := policy.Finding{Subject: policy.Subject{About: policy.AboutNode, What: "the policy"}, Health: policy.Unknown,
		Why: err.Error()}
	j := policy.Judgement{Policy: p.cfg.GPU.Policy, Digest: p.gpus.digest, Health: policy.Unknown, Decided: &why,
		GPUs: []policy.GPUHealth{}, Findings: []policy.Finding{why}}
	for _, g := range policy.FactsOf(ev).GPUs {
		j.GPUs = append(j.GPUs, policy.GPUHealth{Subject: g, Health: policy.Unknown, Why: "it was not judged"})
	}
	return j
}
