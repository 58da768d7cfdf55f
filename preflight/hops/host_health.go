package hops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// hostHealth: is the node's machine well, whatever runs there? A failure is what breaks work; all else is a warning.
func hostHealth() hop.Hop {
	var needs hop.Needs
	needs.Hops = append(needs.Hops, diag.HopNodeOpsAccess)
	return hop.Hop{
		ID: diag.HopHostHealth, Budget: 8 * time.Second,
		Steps: []hop.Step{
			{
				Name: hop.StepMachine, From: hop.Node, Timeout: 5 * time.Second, Needs: needs,
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpMachine, Match: certificateFiles(&e.Profile)}
				},
			},
			{
				Name: hop.StepMounts, From: hop.Node, Timeout: 5 * time.Second, Needs: needs,
				Ask: func(*hop.Env, *hop.Case) diag.Request { return diag.Request{Op: diag.OpMounts} },
			},
			{
				// only root may read it on many systems, and a container has none
				Name: hop.StepKernel, From: hop.Node, Timeout: 5 * time.Second, Needs: needs,
				Policy: hop.Policy{Optional: true},
				Ask:    func(*hop.Env, *hop.Case) diag.Request { return diag.Request{Op: diag.OpKernel} },
			},
		},
		Judge: judgeHost,
		Pass:  passHost,
	}
}

// certificateFiles are the files of certificates that the profile names on a node.
func certificateFiles(p *profile.Profile) []string {
	if p.Agent.Absent() {
		return nil
	}
	return []string{strings.TrimRight(p.Agent.Dir, "/") + "/cert.pem"}
}

// judgeHost returns a finding for each fault, failures first.
func judgeHost(c *hop.Case) []diag.Finding {
	id := diag.HopHostHealth
	out := slices.Concat(
		judgeMounts(c.Fact(id, hop.StepMounts)),
		judgeMachine(c.Fact(id, hop.StepMachine)),
		judgeKernel(c.Fact(id, hop.StepKernel)),
	)
	for i := range out {
		if out[i].Status == diag.StatusWarn { // it costs something, and is no reason to act for an operator of the platform
			out[i].Reason = diag.ReasonNone
		}
	}
	slices.SortStableFunc(out, func(a, b diag.Finding) int { return cmp.Compare(rankOf(a.Status), rankOf(b.Status)) })
	return out
}

// passHost says what was measured, and what was not.
func passHost(c *hop.Case) string {
	var parts []string
	if f := c.Fact(diag.HopHostHealth, hop.StepMachine); f.Passed() && f.Machine != nil {
		m := f.Machine
		text := strings.TrimSpace(m.OS + ", kernel " + m.Kernel)
		if m.UptimeS != nil {
			text += ", up " + diag.Age(time.Duration(*m.UptimeS)*time.Second)
		}
		parts = append(parts, text)
		if m.MemTotal != nil && m.MemFree != nil {
			parts = append(parts, fmt.Sprintf("%d of %d MiB memory free", *m.MemFree>>20, *m.MemTotal>>20))
		}
	}
	if f := c.Fact(diag.HopHostHealth, hop.StepMounts); f.Passed() && f.Mounts != nil {
		parts = append(parts, fmt.Sprintf("%d file systems answer", len(f.Mounts.Mounts)))
	}
	if f := c.Fact(diag.HopHostHealth, hop.StepKernel); f.Passed() && f.Kernel != nil {
		text := "the kernel log has no fault"
		if n := len(f.Kernel.Events); n > 0 {
			text = fmt.Sprintf("the kernel log, which is of the host of this container (%s), has %s that no one can tell "+
				"to be this node's", f.Kernel.Container, kinds(n))
		}
		parts = append(parts, text)
	}
	if left := unmeasured(c); len(left) > 0 {
		parts = append(parts, "not measured: "+strings.Join(left, "; "))
	}
	return strings.Join(parts, ", ")
}

func kinds(n int) string {
	if n == 1 {
		return "a kind of line"
	}
	return fmt.Sprintf("%d kinds of lines", n)
}

// unmeasured lists what could not be measured, with the reason.
func unmeasured(c *hop.Case) (left []string) {
	if f := c.Fact(diag.HopHostHealth, hop.StepMachine); f != nil && f.Machine != nil {
		left = slices.Clone(f.Machine.Unread)
	}
	if f := c.Fact(diag.HopHostHealth, hop.StepMounts); f != nil && f.Mounts != nil {
		for i := range f.Mounts.Mounts {
			if m := &f.Mounts.Mounts[i]; m.State == diag.MountDenied || strings.HasPrefix(m.State, "not asked") {
				left = append(left, m.Point+" ("+m.State+")")
			}
		}
		if n := f.Mounts.More; n > 0 {
			left = append(left, fmt.Sprintf("%d more file systems", n))
		}
	}
	if f := c.Fact(diag.HopHostHealth, hop.StepKernel); f != nil && !f.Passed() {
		why := reading.Saw(f)
		if f.Errno == "EPERM" || f.Errno == "EACCES" {
			why = "needs root"
		}
		left = append(left, "the kernel log ("+why+")")
	}
	return left
}
