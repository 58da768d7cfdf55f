package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// worldStart bounds the start of a world, with the builds of its programs.
const worldStart = 10 * time.Minute

// world is a platform, a node and a workload in a process of their own, behind a slow link. It needs root, and no lab.
type world struct {
	Profile string            `json:"profile"`
	Tool    string            `json:"tool"`
	Libexec string            `json:"libexec"`
	Ports   map[string]string `json:"ports"` // names of the servers

	link   *slowLink
	report string // file of the last walk's report
	stop   func()
}

// startWorld starts the world of the tests in lab/e2e/inprocess at the far end of a new slow link.
func startWorld(ctx context.Context, t *table) (w *world, err error) {
	if os.Getuid() != 0 {
		return nil, errors.New("needs root: a slow link is made of network namespaces")
	}
	w = &world{stop: func() {}}
	if w.link, err = newSlowLink(ctx, worldEnds()); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-wire-")
	defer func() {
		if err != nil {
			w.close()
			_ = os.RemoveAll(dir)
		}
	}()
	if err != nil {
		return nil, err
	}
	t.report("building and starting a world")
	const source = "./lab/e2e/inprocess"
	binary := filepath.Join(dir, "world")
	w.report = filepath.Join(dir, "report.json")
	if err := command(ctx, "go", "test", "-c", "-o", binary, source); err != nil {
		return nil, err
	}
	description, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer description.Close()
	cmd := exec.Command(binary, "-test.run", "^TestServe$", "-test.timeout", "0")
	cmd.Dir, cmd.ExtraFiles = filepath.FromSlash(source), []*os.File{to}
	cmd.Env = append(os.Environ(), "GPUAASCTL_SERVE_WORLD=1", "TMPDIR="+dir)
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := inside(w.link.ends.far, cmd.Start); err != nil {
		return nil, err
	}
	_ = to.Close()
	w.stop = func() {
		_ = hold.Close()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	timer := time.AfterFunc(worldStart, func() { _ = description.Close() })
	defer timer.Stop()
	if err := json.NewDecoder(description).Decode(w); err != nil {
		_ = hold.Close()
		_ = cmd.Wait()
		return nil, fmt.Errorf("start the world: %w: %s", err, out.String())
	}
	return w, nil
}

func (w *world) close() {
	w.stop()
	w.link.close()
}

// walkArgv is the command line of a cold walk.
func (w *world) walkArgv() []string {
	return []string{w.Tool, "preflight", "--profile", w.Profile, "--node-id", labNode, "--allocation-id", allocation,
		"--libexec", w.Libexec, "--no-save", "--out", w.report}
}

// overWire traces walks in a world of its own, without a lab.
func overWire(ctx context.Context, _ options, t *table) error {
	w, err := startWorld(ctx, t)
	if err != nil {
		return err
	}
	defer w.close()
	return w.traces(ctx, t)
}
