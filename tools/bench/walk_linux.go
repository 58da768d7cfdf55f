package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	goalHelper = 10.0
	goalMaster = 6.0

	helperHops = 17 // that the helper speaks of
)

// side is one way to check a node.
type side struct {
	name  string
	argv  []string
	check func(ran) error
}

// rounds says how often each side runs at a round-trip time.
type rounds struct {
	rtt   time.Duration
	count int
}

func plan(quick bool) []rounds {
	if quick {
		return []rounds{{0, 3}, {50 * time.Millisecond, 1}}
	}
	return []rounds{{0, 9}, {20 * time.Millisecond, 5}, {50 * time.Millisecond, 5}, {100 * time.Millisecond, 3}}
}

// walks runs the tool and both modes of the helper in turn, at several round-trip times.
func walks(ctx context.Context, b *bench, t *table) error {
	sides := b.sides()
	for _, r := range plan(b.quick) {
		b.link.setRTT(r.rtt)
		real, err := b.link.connectTime(ctx, b.profile.APIResolveAddress+":443", 9)
		if err != nil {
			return err
		}
		t.addLine(fmt.Sprintf("RTT %s: a TCP connection takes", short(r.rtt)), "%s", real)
		if err := b.compare(ctx, t, r, sides); err != nil {
			return err
		}
	}
	t.remark("Walks: the sides run in turn, in one namespace behind the slow link; median (min..max). CPU is the " +
		"client's own; the lab's servers and the link's relay share this machine's cores.")
	t.remark("SSH is pinned to curve25519-sha256 and ed25519, curl to X25519. The detached SSH master of " +
		"--controlmaster is not in its CPU. The helper opens the terminal and reads its first frame; the tool also has its " +
		"shell compute.")
	t.remark("Server-bound on both sides: the no-op's way through the agent, terminal.open, the shell's start.")
	return nil
}

// compare runs one block of rounds and adds its lines. A failed side has no ratio.
func (b *bench) compare(ctx context.Context, t *table, r rounds, sides []side) error {
	wall, cpu, failed := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string]error{}
	for round := range r.count {
		for i := range sides {
			s := sides[(round+i)%len(sides)]
			t.report("RTT %s, round %d of %d: %s", short(r.rtt), round+1, r.count, s.name)
			got, err := b.link.run(ctx, s.argv...)
			if err == nil {
				err = s.check(got)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed[s.name] = err
				t.report("%s failed: %v", s.name, err)
				continue
			}
			wall[s.name], cpu[s.name] = append(wall[s.name], got.wall), append(cpu[s.name], got.cpu)
		}
	}
	at := fmt.Sprintf("RTT %s: ", short(r.rtt))
	for _, s := range sides {
		if err := failed[s.name]; err != nil {
			t.skip(at+s.name, err)
			continue
		}
		t.addLine(at+s.name, "%s, CPU %s", spreadOf(wall[s.name]), short(spreadOf(cpu[s.name]).median))
	}
	against := [...]string{"the bash helper", "the helper with ControlMaster"}
	for i, goal := range [...]float64{goalHelper, goalMaster} {
		tool, other := sides[0].name, sides[i+1].name
		what := at + "faster than " + other
		if failed[tool] != nil || failed[other] != nil {
			t.addLine(what, "no ratio: a side failed")
			continue
		}
		ratio := func(all map[string][]time.Duration) float64 {
			return float64(spreadOf(all[other]).median) / float64(max(1, spreadOf(all[tool]).median))
		}
		t.aim(what, fmt.Sprintf("%.1fx wall, %.1fx CPU", ratio(wall), ratio(cpu)), fmt.Sprintf(">= %.0fx", goal),
			ratio(wall) >= goal)
		t.keep(fmt.Sprintf("lab: a walk against %s, RTT %d ms", against[i], r.rtt.Milliseconds()), ratio(wall), unitRatio)
	}
	return nil
}

// sides returns the tool, the helper with a connection per check, and the helper with one shared connection.
func (b *bench) sides() []side {
	helper := append([]string{"bash", filepath.Join("tools", "bench", "helper.sh")}, helperArgs(b.profile)...)
	return []side{
		{"gpuaasctl preflight", b.toolArgv(), checkTool},
		{"helper.sh", helper, checkHelper},
		{"helper.sh --controlmaster", append(helper[:len(helper):len(helper)], "--controlmaster"), checkHelper},
	}
}

func (b *bench) toolArgv() []string {
	return []string{filepath.Join(b.bin, "gpuaasctl"), "preflight", "--profile", b.lab.ProfilePath(), "--node-id", labNode,
		"--allocation-id", allocation, "-o", "json"}
}

// helperArgs returns the profile's settings as arguments of the helper.
func helperArgs(p profile.Profile) []string {
	args := []string{
		"--node-id", labNode, "--node-host", p.Nodes[labNode].Host, "--node-user", p.SSH.User, "--allocation-id", allocation,
		"--identity", p.SSH.Identity, "--known-hosts", p.SSH.KnownHosts, "--token-file", p.Auth.TokenFile, "--ca",
		p.Trust.OperatorCA, "--stale-after", strconv.FormatInt(p.PolicyValue("node.heartbeat_stale_after_seconds"), 10),
		"--stream-timeout", strconv.FormatInt(p.PolicyValue("terminal.node_stream_timeout_seconds"), 10),
	}
	for _, o := range [...][2]string{
		{"api-base", p.APIBase}, {"terminal-base", p.TerminalBase}, {"api-resolve-address", p.APIResolveAddress},
		{"terminal-resolve-address", p.TerminalResolveAddress}, {"app-resolve-address", p.AppResolveAddress},
		{"node-runtime-api-url", p.NodeRuntimeAPIURL}, {"node-runtime-resolve-address", p.NodeRuntimeResolveAddress},
		{"node-terminal-url", p.NodeTerminalURL}, {"node-terminal-resolve-address", p.NodeTerminalResolveAddress},
	} {
		if o[1] != "" {
			args = append(args, "--"+o[0], o[1])
		}
	}
	return args
}

// checkTool requires a walk in which every implemented hop passed, if with a warning, with a helper that was already on
// the node.
func checkTool(r ran) error {
	var rep diag.Report
	if err := json.Unmarshal(r.out, &rep); err != nil {
		return fmt.Errorf("exit %d, no report: %w: %s", r.code, err, bytes.TrimSpace(r.errs))
	}
	passed := 0
	for i, h := range rep.Hops {
		if h.Status == diag.StatusPass || h.Status == diag.StatusWarn {
			passed++
		} else if len(rep.Plan.Hops[i].Steps) > 0 {
			return fmt.Errorf("%s is %s: %s%s", h.ID, h.Status, h.Text, h.Because)
		}
	}
	if r.code != 0 || passed < helperHops {
		return fmt.Errorf("exit %d with %d passed hops", r.code, passed)
	}
	for _, f := range rep.Facts {
		if f.SSH != nil && f.SSH.Helper != "installed" {
			return fmt.Errorf("the node's helper is %s: not a plain walk", f.SSH.Helper)
		}
	}
	return os.WriteFile(ownReport(), r.out, 0o600)
}

// checkHelper requires every hop to pass.
func checkHelper(r ran) error {
	passed := 0
	for _, l := range bytes.Split(bytes.TrimSpace(r.out), []byte("\n")) {
		var row struct{ Hop, Status, Detail string }
		if err := json.Unmarshal(l, &row); err != nil {
			return fmt.Errorf("exit %d: %w: %s", r.code, err, bytes.TrimSpace(r.errs))
		}
		if row.Status != "pass" {
			return fmt.Errorf("%s is %s: %s", row.Hop, row.Status, row.Detail)
		}
		passed++
	}
	if r.code != 0 || passed != helperHops {
		return fmt.Errorf("exit %d with %d passed hops", r.code, passed)
	}
	return nil
}
