//go:build linux

package lab

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Up sets the lab up from any state of the host, and returns when the platform has received a heartbeat from every
// agent. Repeating it is cheap, and updates rebuilt programs.
func Up(ctx context.Context, opts Options) (*Lab, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, opts.StateDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	l := &Lab{opts: opts}
	began := time.Now()
	if err := l.up(ctx); err != nil {
		return l, err
	}
	fmt.Fprintf(opts.Progress, "lab is up in %.2fs: profile %s\n", time.Since(began).Seconds(), l.state.Profile)
	return l, nil
}

func (l *Lab) up(ctx context.Context) error {
	err := l.stage(ctx, "host", Prepare)
	if err != nil {
		return err
	}
	for _, name := range [...]string{"gpuaas-platform", "gpuaas-agent"} {
		if !l.built(name) {
			fmt.Fprintf(l.opts.Progress, "! %s is not in %s: the machines start without it\n", name, l.opts.Libexec)
		}
	}
	if l.gpus() == 0 {
		fmt.Fprintf(l.opts.Progress, "! no C compiler has built %s in %s: the nodes have no GPUs\n", gpuLibrary,
			l.opts.Libexec)
	}
	var image string
	err = l.stage(ctx, "image", func(ctx context.Context) (note string, err error) {
		image, note, err = ensureImage(ctx, l.opts.CacheDir)
		return note, err
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, upBudget)
	defer cancel()
	if err := l.resumeState(image); err != nil {
		return err
	}
	stages := []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"keys", func(context.Context) (string, error) { return l.makeSecrets() }},
		{"network", l.ensureNetwork},
		{"machines", l.ensureMachines},
		{"profile", func(context.Context) (string, error) { return l.writeProfile() }},
		{"ssh", l.awaitSSH},
		{"programs", l.refreshMachines},
		{"platform", l.awaitPlatform},
		{"agents", l.awaitAgents},
	}
	for _, s := range stages {
		if err := l.stage(ctx, s.name, s.do); err != nil {
			return err
		}
	}
	return nil
}

// resumeState reads the state of an earlier Up, or creates one. It is on disk before the first change to the host.
func (l *Lab) resumeState(image string) error {
	st, err := readState(l.opts.StateDir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := noOtherLab(); err != nil {
			return err
		}
		st = State{Version: stateVersion, ID: strings.ToLower(rand.Text()[:8]), CreatedAt: time.Now().UTC(), Image: image,
			MadeNetnsDir: !exists(netnsDir), MadeNetnsTop: !mounted(netnsDir), MadeNspawnDir: !exists(nspawnDir)}
	case err != nil:
		return err
	}
	st.Nodes = cmp.Or(max(st.Nodes, l.opts.Nodes), 2)
	st.Bare = max(st.Bare, l.opts.Bare)
	st.Profile = l.opts.Profile
	l.state = st
	return writeState(l.opts.StateDir, st)
}

// noOtherLab returns an error if another user has a lab on the host: all labs have the same addresses.
func noOtherLab() error {
	_, err := net.InterfaceByName(hostLink)
	if err != nil && !exists(netnsPath()) {
		return nil
	}
	return fmt.Errorf(
		"a lab with another state folder is on this host: run `gpuaasctl lab down` with the XDG_STATE_HOME of its "+
			"`lab up`, or, if that folder is lost, `ip link delete %s; ip netns delete %s`", hostLink, netnsName)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ensureNetwork builds the network if any part of it is missing. It stops machines on a broken network; their
// disks stay.
func (l *Lab) ensureNetwork(ctx context.Context) (string, error) {
	if networkUp(ctx) {
		return subnet + " is there", nil
	}
	for _, m := range l.knownMachines() {
		if err := l.killMachine(ctx, m); err != nil {
			return "", err
		}
	}
	return subnet + ", host at " + hostAddress, makeNetwork(ctx)
}

// ensureMachines starts missing machines: the platform and, once it listens and knows them, all nodes at once. An agent
// that starts before its platform has its token backs off, which costs more than waiting.
func (l *Lab) ensureMachines(ctx context.Context) (string, error) {
	var started atomic.Int32
	start := func(m Machine) error {
		if l.running(m) {
			return nil
		}
		if err := l.startMachine(ctx, m); err != nil {
			return fmt.Errorf("start %s: %w", m.Name, err)
		}
		started.Add(1)
		return nil
	}
	ms := l.Machines()
	if added := slices.ContainsFunc(ms[1:], func(m Machine) bool { return !l.running(m) }); added && l.running(ms[0]) {
		if _, err := l.refresh(ctx, ms[0]); err != nil {
			return "", err
		}
	}
	if err := start(ms[0]); err != nil {
		return "", err
	}
	l.awaitListeners(ctx, ms[0])
	err := each(ms[1:], start)
	return startedWords(int(started.Load()), len(ms)), err
}

// startedWords describes how many of a lab's machines were started now, and how many ran before.
func startedWords(started, all int) string {
	switch started {
	case 0:
		return fmt.Sprintf("all %d already running", all)
	case all:
		return fmt.Sprintf("%d started", all)
	}
	return fmt.Sprintf("%d started, %d already running", started, all-started)
}

// platformPorts are the listeners that an agent needs for its first attempt: DNS, the ingress, the node API behind
// it.
var platformPorts = [...]int{53, 443, 8081}

// listenersBudget bounds the wait for them; later stages detect a broken platform.
const listenersBudget = 5 * time.Second

// awaitListeners returns when the platform is ready for its nodes, or when waiting longer is pointless.
func (l *Lab) awaitListeners(ctx context.Context, platform Machine) {
	if !l.built("gpuaas-platform") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listenersBudget)
	defer cancel()
	_ = poll(ctx, func(context.Context) error {
		for _, port := range platformPorts {
			if !Listens(l.leader(platform), port) {
				return fmt.Errorf("nothing listens on port %d", port)
			}
		}
		return nil
	})
}

// each calls do for every machine concurrently and joins the errors.
func each(ms []Machine, do func(Machine) error) error {
	errs := make([]error, len(ms))
	var wg sync.WaitGroup
	for i, m := range ms {
		wg.Go(func() { errs[i] = do(m) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// startMachine creates m's disk and its files if needed, and starts a supervisor.
func (l *Lab) startMachine(ctx context.Context, m Machine) error {
	if err := l.killMachine(ctx, m); err != nil { // orphaned by a killed supervisor
		return err
	}
	p := l.place(m)
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	lock, err := l.takeLock(m)
	if err != nil {
		return err
	}
	if lock == nil {
		return errors.New("another process is starting it")
	}
	defer lock.Close()
	seeded := filepath.Join(p.disk(), "seeded") // on the disk itself, so that it is lost together with the disk
	if !exists(seeded) {
		if err := unmountDisk(p); err != nil {
			return err
		}
	}
	if err := mountDisk(p, l.state.Image, m); err != nil {
		return err
	}
	if !exists(seeded) {
		if err := l.putFiles(m, p); err != nil {
			return err
		}
		if err := os.WriteFile(seeded, nil, 0o600); err != nil {
			return err
		}
	}
	return l.startSupervisor(ctx, m, lock)
}

func (l *Lab) putFiles(m Machine, p place) error {
	files, err := l.machineFiles(m)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(p.root())
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := f.put(root); err != nil {
			return fmt.Errorf("put %s: %w", f.path, err)
		}
	}
	return nil
}
