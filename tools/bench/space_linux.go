package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// inside runs do on a thread in the named network namespace; the thread exits afterwards. A device, socket or
// process that do creates belongs to that namespace.
func inside(space string, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread is not reused
		f, err := os.Open(filepath.Join("/run/netns", space))
		if err != nil {
			done <- fmt.Errorf("enter namespace: %w", err)
			return
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter namespace %s: %w", space, err)
			return
		}
		done <- do()
	}()
	return <-done
}

// command runs argv; its error contains stderr.
func command(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(errs.String()))
	}
	return nil
}

// connectTime returns how long a TCP connection to address takes from the slow end: one round trip. It does not
// count a first connection, which also needs an ARP request.
func (l *slowLink) connectTime(ctx context.Context, address string, tries int) (spread, error) {
	var all []time.Duration
	err := inside(l.ends.near, func() error {
		for i := range tries + 1 {
			d := net.Dialer{Timeout: 3 * time.Second}
			began := time.Now()
			c, err := d.DialContext(ctx, "tcp", address)
			if err != nil {
				return fmt.Errorf("connect over the slow link: %w", err)
			}
			if i > 0 {
				all = append(all, time.Since(began))
			}
			_ = c.Close()
		}
		return nil
	})
	if err != nil {
		return spread{}, err
	}
	return spreadOf(all), nil
}

// ran is the result of one run of a side.
type ran struct {
	wall, cpu time.Duration
	out, errs []byte
	code      int
}

// run runs argv at the slow end and measures it. CPU time includes the children that the process waited for.
func (l *slowLink) run(ctx context.Context, argv ...string) (ran, error) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it cleans up
	cmd.WaitDelay = goneTimeout
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var r ran
	var began time.Time
	err := inside(l.ends.near, func() error { began = time.Now(); return cmd.Start() })
	if err != nil {
		return r, err
	}
	err = cmd.Wait()
	r.wall = time.Since(began)
	r.out, r.errs, r.code = out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode()
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if ctx.Err() != nil {
		return r, fmt.Errorf("%s: %w", filepath.Base(argv[0]), ctx.Err())
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return r, err
	}
	return r, nil
}

// sideTimeout bounds one run of one side: the slowest one, with a connection per check at 100 ms, takes half a
// minute.
const sideTimeout = 90 * time.Second
