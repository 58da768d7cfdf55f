package platform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

// refuse notes a file that is not taken, for the admission documents; no reason: it is.
func (g *gpuJudge) refuse(digest string, why ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.refused = digest, why
}

func (g *gpuJudge) mistakes() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// loadPolicy takes the policy's file as it is now. One that is refused, or cannot be checked, replaces none.
func (p *Platform) loadPolicy(ctx context.Context) {
	g := &p.gpus
	path := p.cfg.GPU.Policy
	file := policy.File{Path: path}
	text, builtin := policy.BuiltinText(path)
	if !builtin {
		var err error
		if text, err = readPolicy(path); err != nil {
			g.refuse("", err.Error())
			return
		}
		file.Text = text
	}
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	switch digest {
	case g.digest:
		g.refuse("")
		return
	case g.last:
		return
	}
	r, err := p.askPolicy(ctx, policy.Request{Op: policy.OpCheck, Policy: file})
	switch {
	case err != nil: // of the file nothing is known yet
		g.refuse("", err.Error())
		return
	case len(r.Mistakes) > 0:
		var why []string
		for _, m := range r.Mistakes {
			why = append(why, m.Error())
		}
		g.refuse(digest, why...)
		p.log.Error("a GPU policy is refused, and the one before goes on", "mistakes", why)
		p.metrics.add("gpu_policies_refused_total")
		return
	}
	g.file, g.digest = file, digest
	g.refuse("")
	p.log.Info("GPUs are judged by", "policy", path, "sha256", digest, "mode", string(p.cfg.GPU.Mode))
}

func readPolicy(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxGPUPolicy+1))
	if err == nil && len(text) > maxGPUPolicy {
		err = fmt.Errorf("%s: is longer than %d bytes", path, maxGPUPolicy)
	}
	return text, err
}

// askPolicy runs the program.
func (p *Platform) askPolicy(ctx context.Context, q policy.Request) (policy.Reply, error) {
	if p.cfg.GPU.Program == "" {
		return policy.Reply{}, fmt.Errorf("there is no %s beside this platform's program", policy.Program)
	}
	ctx, cancel := context.WithTimeout(ctx, gpuJudgeTime)
	defer cancel()
	return policy.Ask(ctx, p.cfg.GPU.Program, p.version, q)
}
