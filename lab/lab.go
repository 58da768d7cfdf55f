//go:build linux

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaasctl/profile"
)

// Options configure a lab. The zero value is the default lab: two nodes, default folders.
type Options struct {
	Nodes    int       // compute nodes; 0 = 2, or as many as exist already
	Bare     int       // machines with an SSH server and nothing else; 0: as many as exist already
	StateDir string    // default: $XDG_STATE_HOME/gpuaasctl/lab, /var/lib/gpuaasctl/lab for root
	CacheDir string    // default: /var/cache/gpuaasctl
	Libexec  string    // where gpuaas-agent and gpuaas-platform lie; default: beside this program
	Program  string    // whose `lab supervise` keeps the machines running; default: this executable
	Profile  string    // the profile file to write; default: ~/.config/gpuaasctl/profiles/lab.yaml
	Progress io.Writer // one line per stage; nil: silent
}

// Lab is a lab on this host, complete or incomplete.
type Lab struct {
	opts      Options
	state     State
	renewedAt time.Time // heartbeats before this come from replaced programs
}

// MaxNodes and MaxBare are limited by the address plan: compute-node-NN is 10.231.77.(100+NN), bare-node-NN is
// 10.231.77.(200+NN).
const (
	MaxNodes = 99
	MaxBare  = 9
)

// ErrNotUp is returned by Open if the state folder holds no lab.
var ErrNotUp = errors.New("there is no lab here: run `gpuaasctl lab up`")

// upBudget bounds a whole Up with a cached image; building the image has a separate limit.
const upBudget = 2 * time.Minute

// withDefaults fills in unset fields. Only it reads the environment.
func (o Options) withDefaults() (Options, error) {
	if o.StateDir == "" {
		base := cmp.Or(os.Getenv("XDG_STATE_HOME"), "/var/lib")
		o.StateDir = filepath.Join(base, "gpuaasctl", "lab")
	}
	o.CacheDir = cmp.Or(o.CacheDir, "/var/cache/gpuaasctl")
	if o.Program == "" {
		exe, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("find this program: %w", err)
		}
		o.Program = exe
	}
	o.Libexec = cmp.Or(o.Libexec, filepath.Dir(o.Program))
	o.Profile = cmp.Or(o.Profile, profile.Path("lab", profile.Dir(os.Getenv)))
	o.Progress = cmp.Or(o.Progress, io.Discard)
	if o.Nodes < 0 || o.Nodes > MaxNodes {
		return o, fmt.Errorf("%d nodes: want 1 to %d", o.Nodes, MaxNodes)
	}
	if o.Bare < 0 || o.Bare > MaxBare {
		return o, fmt.Errorf("%d bare machines: want 0 to %d", o.Bare, MaxBare)
	}
	return o, nil
}

// Open returns the lab on this host, complete or incomplete, or ErrNotUp.
func Open(opts Options) (*Lab, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	st, err := readState(opts.StateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNotUp
	}
	if err != nil {
		return nil, err
	}
	opts.Nodes, opts.Bare = st.Nodes, st.Bare
	return &Lab{opts: opts, state: st}, nil
}

// Machines returns the lab's machines: the platform, the nodes, the bare machines.
func (l *Lab) Machines() []Machine { return machines(l.state.Nodes, l.state.Bare) }

// nodes returns the compute nodes.
func (l *Lab) nodes() []Machine { return l.Machines()[1 : 1+l.state.Nodes] }

// bare returns the machines with nothing of a platform on them.
func (l *Lab) bare() []Machine { return l.Machines()[1+l.state.Nodes:] }

// Machine returns the machine of that name, or an error that lists the existing names.
func (l *Lab) Machine(name string) (Machine, error) {
	var names []string
	for _, m := range l.Machines() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Machine{}, fmt.Errorf("no machine %q in the lab: there are %v", name, names)
}

// ProfilePath returns the path of the profile that Up wrote for the preflight.
func (l *Lab) ProfilePath() string { return l.state.Profile }

// stage runs one step of Up or Down and prints one line about it.
func (l *Lab) stage(ctx context.Context, name string, do func(context.Context) (string, error)) error {
	began := time.Now()
	note, err := do(ctx)
	took := time.Since(began).Round(10 * time.Millisecond)
	if err != nil {
		fmt.Fprintf(l.opts.Progress, "✗ %-10s %6.2fs  %v\n", name, took.Seconds(), err)
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(l.opts.Progress, "✓ %-10s %6.2fs  %s\n", name, took.Seconds(), note)
	return nil
}
