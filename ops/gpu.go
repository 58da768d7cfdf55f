package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// gpuTime bounds one request to the API.
const gpuTime = 10 * time.Second

// nodeNotFound is the platform's error code for a node that it does not know.
const nodeNotFound = "node_not_found"

// NotJudgedError means that the platform judges no GPUs, or that the profile lacks the path.
type NotJudgedError struct{ Why string }

func (e *NotJudgedError) Error() string { return e.Why }

// GPUs returns what the platform knows about the GPUs of the node, and by which policy. If the profile lets this tool
// judge, it queries the node, and the document is this tool's. An UnreadError means that nothing was read, so nothing
// is known.
func (s *Session) GPUs(ctx context.Context) (*reading.GPUAdmission, error) {
	ctx, cancel := context.WithTimeout(ctx, gpuTime)
	defer cancel()
	if s.env.Profile.GPU.Policy != "" {
		return s.ownGPUs(ctx)
	}
	req := s.env.API(profile.PathNodeGPU, nil, mappedFields(s.env.Profile.Mapping, "gpu")...)
	if req.Op == "" {
		return nil, &NotJudgedError{hops.WhyGPUsUnjudged()}
	}
	req.ID = profile.PathNodeGPU
	here := s.open()[hop.Operator]
	at := places{hop.Operator: here}
	defer at.close(ctx)
	f := here.Probe(ctx, []diag.Request{req})[0]
	if err := s.unjudged(&f); err != nil {
		return nil, err
	}
	if a := reading.AdmissionOf(s.of.Node, &f); a != nil {
		return a, nil
	}
	why := string(f.Failure)
	switch {
	case f.Passed():
		why = "the answer has no health (mapping.fields.gpu.health)"
	case f.HTTP != nil && f.HTTP.Status != 0:
		why = fmt.Sprintf("HTTP %d %s", f.HTTP.Status, f.HTTP.ErrorCode)
	}
	return nil, &UnreadError{fmt.Errorf("read what is known about the GPUs of %s from %s: %s", s.of.Node,
		s.env.Profile.APIBase, why)}
}

// unjudged is an error if the platform does not know the node, or does not judge GPUs.
func (s *Session) unjudged(f *diag.Fact) error {
	switch {
	case !hops.HasNoAdmission(f):
		return nil
	case f.HTTP.ErrorCode == nodeNotFound:
		p := s.site.Profile
		return &UnknownNodeError{Node: s.of.Node, Platform: p.APIBase, Others: p.OtherNodes(s.of.Node)}
	}
	return &NotJudgedError{fmt.Sprintf("the platform at %s judges no GPUs, or has no node_gpu path: HTTP %d %s",
		s.env.Profile.APIBase, f.HTTP.Status, f.HTTP.ErrorCode)}
}
