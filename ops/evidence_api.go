package ops

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/profile"
)

// askReadModel reads the mapped fields of the node and the allocation, and keeps nothing else of the answers.
func (c *collector) askReadModel(ctx context.Context) {
	e := &c.s.env
	var wg sync.WaitGroup
	for _, r := range [...]struct {
		into   *diag.Fact
		path   string
		wanted bool
	}{
		{&c.measured.Node, profile.PathNode, true},
		{&c.measured.Allocation, profile.PathAllocation, e.Subject.AllocationID != ""},
	} {
		req := e.API(r.path, nil, mappedFields(e.Profile.Mapping, r.path)...)
		if !r.wanted || req.Op == "" {
			continue
		}
		req.ID = r.path
		wg.Go(func() {
			c.around(ctx, func(ctx context.Context) (bool, func()) {
				f := c.ask(ctx, hop.Operator, apiTime, req)[0]
				return f.Passed(), func() { *r.into = f }
			})
		})
	}
	wg.Wait()
}

// mappedFields returns the names of a thing's fields in the mapping, sorted.
func mappedFields(m profile.Mapping, thing string) []string {
	var names []string
	for name := range m.Fields {
		if strings.HasPrefix(name, thing+".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// askEvidence requests what the platform recorded about the failing request, this walk, the node, and then its tasks.
func (c *collector) askEvidence(ctx context.Context) {
	e := &c.s.env
	var reqs []diag.Request
	add := func(path, what string, vars map[string]string) {
		req := e.API(path, vars, evidenceItems, evidenceTruncated)
		if req.Op != "" && req.Extract[evidenceItems] != "" { // only the items of an answer would be kept
			req.ID = "evidence " + what
			reqs = append(reqs, req)
		}
	}
	for _, id := range [...]string{e.Subject.CorrelationID, e.CorrelationID} {
		if id != "" {
			add(profile.PathEvidence, id, map[string]string{"correlation_id": id})
		}
	}
	since, _ := diag.At(c.since).MarshalText()
	add(profile.PathNodeEvidence, "of the node", map[string]string{"since": string(since)})
	c.around(ctx, func(ctx context.Context) (bool, func()) {
		facts := c.ask(ctx, hop.Operator, apiTime, slices.Clone(reqs)...)
		var items []evidence.Item
		good := true
		for i := range facts {
			items = append(items, takeItems(&facts[i])...)
			good = good && facts[i].Passed()
		}
		tasks := c.askTasks(ctx, items)
		return good, func() { c.measured.Evidence, c.measured.Items, c.measured.Tasks = facts, items, tasks }
	})
}

// Fields of the mapping for the platform's evidence.
const evidenceItems, evidenceTruncated = "evidence.items", "evidence.truncated"

// takeItems moves the evidence out of an answer; the answer keeps nothing of it.
func takeItems(f *diag.Fact) []evidence.Item {
	if f.HTTP == nil {
		return nil
	}
	raw, there := f.HTTP.Fields[evidenceItems]
	items, err := evidence.ParseItems(raw)
	if !there {
		err = errors.New("the answer has no list of evidence, or is longer than can be read")
	}
	if err != nil && f.Passed() {
		f.Failure, f.Phase, f.Detail = diag.Unknown, "http", err.Error()
	}
	delete(f.HTTP.Fields, evidenceItems)
	return items
}

// askTasks reads the node's newest tasks that the evidence names. It skips status probes, which come every few seconds
// and whose results are observations rather than tasks.
func (c *collector) askTasks(ctx context.Context, items []evidence.Item) []diag.Fact {
	var ids []string
	for _, i := range slices.Backward(items) {
		if i.TaskID != "" && len(ids) < maxTasks && !slices.Contains(ids, i.TaskID) &&
			i.Detail["type"] != "status.probe" {
			ids = append(ids, i.TaskID)
		}
	}
	var reqs []diag.Request
	for _, id := range ids {
		req := c.s.env.API(profile.PathTask, map[string]string{"task_id": id},
			mappedFields(c.s.env.Profile.Mapping, "task")...)
		if req.Op != "" {
			req.ID = id
			reqs = append(reqs, req)
		}
	}
	return c.ask(ctx, hop.Operator, apiTime, reqs...)
}
