package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
)

// maxGPUPolicy bounds the file of a policy.
const maxGPUPolicy = 1 << 20

// ownGPUs queries the node and judges its GPUs here, as a walk does.
func (s *Session) ownGPUs(ctx context.Context) (*reading.GPUAdmission, error) {
	if err := s.RequireHost(); err != nil {
		return nil, err
	}
	at := s.open()
	defer at.close(ctx)
	node := at[hop.Node].Probe(ctx, []diag.Request{hops.ReadGPUs(&s.env)})[0]
	req := hops.JudgeGPUs(&s.env, &node)
	if req.Op == "" {
		return nil, &UnreadError{fmt.Errorf("read what %s knows about its GPUs: %s", s.of.Node,
			errors.Join(errors.New(string(node.Failure)), errors.New(node.Detail)))}
	}
	judged := at[hop.Operator].Probe(ctx, []diag.Request{req})[0]
	if a := reading.JudgedHere(s.of.Node, &judged, &node); a != nil {
		return a, nil
	}
	return nil, &UnreadError{fmt.Errorf("judge the GPUs of %s: %s", s.of.Node, judged.Detail)}
}

// judgeGPUs is a prober's JudgeGPUs: it runs gpuaas-gpu-policy on this machine, as a platform does on its own.
func (s *Session) judgeGPUs(ctx context.Context, name string, events []json.RawMessage, now time.Time) (
	j diag.GPUJudged, err error) {
	program, err := policy.Find(vantage.HelperDirs(s.site.Libexec), s.site.Build)
	if err != nil {
		return j, err
	}
	by := policy.File{Path: name}
	if (profile.GPU{Policy: name}).IsFile() {
		if by.Text, err = readPolicy(name); err != nil {
			return j, err
		}
	}
	var lines bytes.Buffer
	for _, e := range events {
		lines.Write(e)
		lines.WriteByte('\n')
	}
	now = now.UTC()
	r, err := policy.Ask(ctx, program, s.site.Tool, policy.Request{Op: policy.OpJudge, Policy: by, Now: &now,
		Events: &policy.File{Path: "events", Text: lines.Bytes()}})
	if err != nil {
		return j, err
	}
	judged, err := r.Judged()
	if err != nil {
		return j, err
	}
	doc, err := json.Marshal(judged)
	if err != nil {
		return j, fmt.Errorf("write the judgement: %w", err)
	}
	return diag.GPUJudged{Health: string(judged.Health), Policy: judged.Policy, SHA256: judged.Digest,
		Tables: judged.Catalogue, Document: doc}, nil
}

func readPolicy(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	defer f.Close() // it was read only
	if err := owned.Check(f, owned.Caller()); err != nil {
		return nil, fmt.Errorf("read the policy, which decides what is healthy: %w", err)
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("read the policy: %s is not a regular file", path))
	}
	text, err := bounded.Read(f, maxGPUPolicy)
	if err != nil {
		return nil, fmt.Errorf("read the policy %s: %w", path, err)
	}
	return text, nil
}
