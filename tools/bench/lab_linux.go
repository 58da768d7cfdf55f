package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	labNode    = "compute-node-01"
	otherNode  = "compute-node-02"
	allocation = "alloc-01"

	// labLock keeps the suites that use this machine's one lab from each other.
	labLock = "/run/lock/gpuaasctl-lab-tests.lock"
)

// bench is a running lab that this run has for itself, with a slow link to it.
type bench struct {
	options
	lab     *lab.Lab
	profile profile.Profile
	link    *slowLink
	unlock  func()
}

// labSections returns the sections that need the lab. They share one lab and one link, which the returned function
// releases.
func labSections() ([]section, func()) {
	var b *bench
	on := func(do func(context.Context, *bench, *table) error) func(context.Context, options, *table) error {
		return func(ctx context.Context, o options, t *table) (err error) {
			if b == nil {
				if b, err = newBench(ctx, o, t); err != nil {
					return err
				}
			}
			return do(ctx, b, t)
		}
	}
	return []section{
			{"walk", "one walk against the bash helper of the same hops (tools/bench/helper.sh)", on(walks)},
			{"trips", "round trips", on(trips)},
			{"wire", "round trips, without a lab", overWire},
			{"footprint", "footprint on a lab node", on(machines)},
			{"drills", "drills", on(drills)},
			{"load", "walks at once, and a node that is not new", on(load)},
		}, func() {
			if b != nil {
				b.close()
			}
		}
}

// newBench starts the lab if needed, and connects to it by the slow link.
func newBench(ctx context.Context, o options, t *table) (*bench, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("needs root: the lab is made of machines and network namespaces")
	}
	b := &bench{options: o}
	var err error
	if b.unlock, err = alone(ctx, t); err != nil {
		return nil, err
	}
	if b.lab, err = up(ctx, o, t); err == nil {
		b.profile, _, err = profile.ReadFile(b.lab.ProfilePath())
	}
	if err == nil {
		b.link, err = newSlowLink(ctx, labEnds())
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() {
	if b.link != nil {
		b.link.close()
	}
	b.unlock()
}

// alone waits until no other process uses the lab.
func alone(ctx context.Context, t *table) (func(), error) {
	for said := false; ; said = true {
		f, err := durable.TryLock(labLock)
		switch {
		case err != nil:
			return nil, err
		case f != nil:
			return func() { _ = f.Close() }, nil
		case !said:
			t.report("waiting: another process uses the lab (%s)", labLock)
		}
		if !sleep.For(ctx, 200*time.Millisecond) {
			return nil, errors.New("another process uses the lab")
		}
	}
}

// up makes sure that the machines run the binaries under test.
func up(ctx context.Context, o options, t *table) (*lab.Lab, error) {
	if _, err := lab.Open(lab.Options{}); errors.Is(err, lab.ErrNotUp) {
		t.report("no lab is up: bringing one up, and leaving it up")
	}
	if err := command(ctx, filepath.Join(o.bin, "gpuaasctl"), "lab", "up"); err != nil {
		return nil, fmt.Errorf("bring the lab up: %w", err)
	}
	return lab.Open(lab.Options{Program: filepath.Join(o.bin, "gpuaasctl"), Libexec: o.bin})
}
