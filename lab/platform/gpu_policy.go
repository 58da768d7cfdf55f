package platform

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// GPU configures the judging of nodes' GPUs.
type GPU struct {
	// the name of a built-in policy, or the absolute path of a file, which is read again when it changes; "": GPUs
	// are not judged
	Policy string `yaml:"policy"`
	// enforce (the default), or shadow: judgements do not change a node's status
	Mode policy.Mode `yaml:"mode,omitempty"`
	// absolute path of gpuaas-gpu-policy; default: next to the platform's own program
	Program string `yaml:"program,omitempty"`
	Timeout int64  `yaml:"timeout_seconds,omitempty"` // of one run of the program, which takes milliseconds; default 30
	// URL of the scheduler of nodes, which is notified when an operator cordons, uncordons or drains a node; "":
	// none
	Coordinator string `yaml:"coordinator,omitempty"`
	// allows http to a coordinator on another machine: anybody on the way can read and change the notices
	InsecureHTTP bool `yaml:"coordinator_insecure_http,omitempty"`
}

func (g GPU) check() (errs []error) {
	if !slices.Contains(append(policy.Builtins(), ""), g.Policy) && !filepath.IsAbs(g.Policy) {
		errs = append(errs, fmt.Errorf("gpu.policy %q is neither an absolute path nor one of %s", g.Policy,
			strings.Join(policy.Builtins(), ", ")))
	}
	if !slices.Contains([]policy.Mode{"", policy.Enforce, policy.Shadow}, g.Mode) {
		errs = append(errs, fmt.Errorf("gpu.mode must be %s or %s, not %q", policy.Enforce, policy.Shadow, g.Mode))
	}
	if g.Program != "" && !filepath.IsAbs(g.Program) {
		errs = append(errs, fmt.Errorf("gpu.program must be an absolute path, not %q", g.Program))
	}
	if g.Timeout < 0 {
		errs = append(errs, errors.New("gpu.timeout_seconds must not be negative"))
	}
	u, err := url.Parse(g.Coordinator)
	switch {
	case g.Coordinator == "":
	case err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "":
		errs = append(errs, errors.New("gpu.coordinator must be an http or https URL"))
	case u.Scheme == "http" && !onLoopback(net.JoinHostPort(u.Hostname(), "80")) && !g.InsecureHTTP:
		errs = append(errs, errors.New("gpu.coordinator on another machine must be an https URL: notices over http can be "+
			"read and changed on the way (gpu.coordinator_insecure_http: true allows it)"))
	}
	return errs
}

// refuse records why the file was rejected, for the admission documents; without a reason it was accepted.
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

// loadPolicy loads the policy's file if it has changed. If that is rejected or cannot be checked, the last
// accepted policy stays in force, even after a restart.
func (p *Platform) loadPolicy(ctx context.Context) {
	g := &p.gpus
	path := p.cfg.GPU.Policy
	p.readPolicy(ctx, path)
	if g.digest != "" {
		return
	}
	switch kept, err := p.store.GPUPolicy(ctx); {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		p.log.Error("the last GPU policy cannot be read", "error", err)
	case kept.Path == path:
		g.file, g.digest = policy.File{Path: path, Text: kept.Text}, kept.Digest
		p.log.Warn("GPUs are judged by the policy that was accepted last", "policy", path, "sha256", kept.Digest)
	}
}

// readPolicy loads the file, or records why it was rejected.
func (p *Platform) readPolicy(ctx context.Context, path string) {
	g := &p.gpus
	file := policy.File{Path: path}
	text, builtin := policy.BuiltinText(path)
	if !builtin {
		var err error
		if text, err = readBounded(path); err != nil {
			g.refuse("", err.Error())
			return
		}
		file.Text = text
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(text))
	switch digest {
	case g.digest:
		g.refuse("")
		return
	case g.last:
		return
	}
	r, err := p.askPolicy(ctx, policy.Request{Op: policy.OpCheck, Policy: file})
	switch {
	case err != nil: // it is not known yet whether the file is valid
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
	if !builtin {
		if err := p.store.SaveGPUPolicy(ctx, store.GPUPolicy{Path: path, Digest: digest, Text: text}); err != nil {
			p.log.Error("a GPU policy is not kept for the next start", "error", err)
		}
	}
	p.log.Info("GPUs are judged by", "policy", path, "sha256", digest, "mode", string(p.cfg.GPU.Mode))
}

func readBounded(path string) ([]byte, error) {
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
	ctx, cancel := context.WithTimeout(ctx, seconds(cmp.Or(p.cfg.GPU.Timeout, gpuTimeout)))
	defer cancel()
	return policy.Ask(ctx, p.cfg.GPU.Program, p.version, q)
}
