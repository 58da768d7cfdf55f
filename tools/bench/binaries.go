package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	mb = 1_000_000

	versionRuns = 41
	goalVersion = 6 * time.Millisecond
	goalInit    = 1.0 // ms of one package
)

// binaries measures the size of the programs and the tool's start-up time.
func binaries(ctx context.Context, o options, t *table) error {
	for _, b := range [...]struct {
		name string
		goal float64 // MB; 0: none
	}{{"gpuaasctl", 25}, {"gpuaas-agent", 8.5}, {"gpuaas-fault", 5}, {"gpuaas-platform", 0}, {"gpuaas-gpu-probe", 0},
		{"gpuaas-gpu-policy", 0}} {
		info, err := os.Stat(filepath.Join(o.bin, b.name))
		if err != nil {
			t.skip(b.name, err)
			continue
		}
		size := float64(info.Size()) / mb
		if value := fmt.Sprintf("%.2f MB", size); b.goal == 0 {
			t.addLine(b.name+", stripped", "%s", value)
		} else {
			t.aim(b.name+", stripped", value, fmt.Sprintf("<= %g MB", b.goal), size <= b.goal)
		}
	}
	tool := filepath.Join(o.bin, "gpuaasctl")
	var took []time.Duration
	for range versionRuns {
		began := time.Now()
		if err := exec.CommandContext(ctx, tool, "version").Run(); err != nil {
			return fmt.Errorf("gpuaasctl version: %w", err)
		}
		took = append(took, time.Since(began))
	}
	s := spreadOf(took)
	t.aim("gpuaasctl version", s.String(), "< 6 ms", s.median < goalVersion)
	return initCost(ctx, tool, t)
}

// initCost finds the package with the longest init time: the best of several runs, since this machine is shared.
func initCost(ctx context.Context, tool string, t *table) error {
	best := map[string]float64{}
	for range 9 {
		cmd := exec.CommandContext(ctx, tool, "version")
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		var out bytes.Buffer
		cmd.Stderr = &out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("gpuaasctl version: %w", err)
		}
		for _, l := range strings.Split(out.String(), "\n") {
			f := strings.Fields(l) // init PACKAGE @0.1 ms, 0.2 ms clock, ...
			if len(f) < 5 || f[0] != "init" {
				continue
			}
			if ms, err := strconv.ParseFloat(f[4], 64); err == nil {
				if old, ok := best[f[1]]; !ok || ms < old {
					best[f[1]] = ms
				}
			}
		}
	}
	name, most := "", -1.0
	for p, ms := range best {
		if ms > most {
			name, most = p, ms
		}
	}
	if name == "" {
		return errors.New("inittrace printed nothing")
	}
	t.aim("costliest package initialisation", fmt.Sprintf("%.2f ms (%s)", most, name), "<= 1 ms", most <= goalInit)
	return nil
}
