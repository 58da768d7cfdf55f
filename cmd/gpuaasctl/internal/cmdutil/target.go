package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TargetOptions are the flags, besides NODE, that select a command's node and profile.
type TargetOptions struct {
	Profile  ProfileFlags
	NodeID   string
	NodeHost string
	Libexec  string
	Deadline time.Duration
	Nobody   bool // no prompt is possible: the profile's commands are not run
}

// Flags declares them on cmd.
func (o *TargetOptions) Flags(a *App, cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	o.Profile.AddName(a, cmd)
	a.NodeFlag(cmd, &o.NodeID, &o.Profile)
	f.StringVar(&o.NodeHost, "node-host", "", "where the node is reached by SSH: `HOST` name or address")
	f.DurationVar(&o.Deadline, "deadline", DefaultDeadline, "end after this `TIME`")
	f.StringVar(&o.Libexec, "libexec", "", "`FOLDER` of gpuaas-agent, which is put on nodes that lack it (default: "+
		"beside this program)")
}

// Target returns the session of a command about one node: args is NODE, and an ALLOCATION on it unless t.Allocation
// names one. It reads local files and runs the commands that print secrets, but does not use the network.
func (a *App) Target(cmd *cobra.Command, o *TargetOptions, args []string, t ops.Target) (*ops.Session, error) {
	p, err := a.Subject(cmd, o, args, &t)
	if err != nil {
		return nil, err
	}
	return a.Session(cmd, o, p, t)
}

// About is Target for a command that found the node by itself, or that is about the whole profile if t names none.
func (a *App) About(cmd *cobra.Command, o *TargetOptions, t ops.Target) (*ops.Session, error) {
	p, _, err := o.Profile.Load(a, cmd)
	if err != nil {
		return nil, err
	}
	t.Host = o.NodeHost
	return a.Session(cmd, o, p, t)
}

// Subject is the first part of Target: it reads the profile, and sets the node, its address and the allocation of t.
func (a *App) Subject(cmd *cobra.Command, o *TargetOptions, args []string, t *ops.Target) (profile.Profile, error) {
	if err := CheckNotEmpty(cmd, "node-host", "allocation-id", "session-id", "correlation-id"); err != nil {
		return profile.Profile{}, err
	}
	p, _, err := o.Profile.Load(a, cmd)
	if err != nil {
		return p, err
	}
	if t.Node, err = a.Node(cmd, args, o.NodeID, &p); err != nil {
		return p, err
	}
	t.Host = o.NodeHost
	t.Allocation, err = Allocation(cmd, args, t.Allocation)
	return p, err
}

// CheckNotEmpty refuses flags that are given without a value, as from an unset variable.
func CheckNotEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return &UsageError{Err: fmt.Errorf("--%s: it is empty", name), Command: cmd.CommandPath()}
		}
	}
	return nil
}

// Check refuses an invalid id or deadline.
func (o *TargetOptions) Check(t ops.Target) error {
	return errors.Join(CheckIDs(t), CheckDeadline(o.Deadline))
}

// Session is the last part of Target: it checks the options, and reads the secrets.
func (a *App) Session(cmd *cobra.Command, o *TargetOptions, p profile.Profile, t ops.Target) (*ops.Session, error) {
	if err := o.Check(t); err != nil {
		return nil, &UsageError{Err: err, Command: cmd.CommandPath()}
	}
	site, err := a.Site(cmd.Context(), p, o.Profile.Name, o.Libexec, !o.Nobody)
	if err != nil {
		return nil, err
	}
	return site.About(t), nil
}

// Allocation returns the allocation of a command line: ALLOCATION, after NODE in args, or --allocation-id (id).
func Allocation(cmd *cobra.Command, args []string, id string) (string, error) {
	switch {
	case len(args) < 2:
		return id, nil
	case args[1] == "":
		return "", &UsageError{Err: errors.New("ALLOCATION is empty"), Command: cmd.CommandPath()}
	case id != "" && id != args[1]:
		return "", &UsageError{Err: fmt.Errorf("which allocation is meant: ALLOCATION is %s, and --allocation-id %s", args[1],
			id), Command: cmd.CommandPath()}
	}
	return args[1], nil
}

// Site returns the environment of a profile that was chosen by name. It reads local files, and with run it runs the
// commands that print secrets.
func (a *App) Site(ctx context.Context, p profile.Profile, name, libexec string, run bool) (*ops.Site, error) {
	secrets, err := ops.ReadSecrets(ctx, p, run)
	if err != nil {
		return nil, err
	}
	if note := (&diag.Plan{InsecureHTTP: p.InsecureHTTP}).Insecure(); note != "" {
		a.Note("%s", note)
	}
	return a.SiteWith(p, name, libexec, secrets), nil
}

func (a *App) SiteWith(p profile.Profile, name, libexec string, secrets ops.Secrets) *ops.Site {
	return ops.New(ops.Site{
		Profile: p, Chosen: name, Secrets: secrets, Tool: a.ToolVersion(), Libexec: libexec, Build: a.Helpers,
		By: operatorName(), Hops: a.Chain(),
	})
}

// CheckIDs refuses invalid ids, as a profile does with its nodes.
func CheckIDs(t ops.Target) error {
	var errs []error
	for _, id := range [...]struct{ flag, value string }{
		{"node-id", t.Node}, {"node-host", t.Host}, {"allocation-id", t.Allocation}, {"session-id", t.Session},
		{"correlation-id", t.Correlation},
	} {
		err := profile.CheckID(id.value)
		if path := id.flag == "node-id" || id.flag == "allocation-id"; path && strings.ContainsRune(id.value, '/') {
			err = fmt.Errorf("%q cannot be one", id.value)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", id.flag, err))
		}
	}
	return errors.Join(errs...)
}

// Bounds of --deadline.
const (
	minDeadline = 100 * time.Millisecond
	maxDeadline = time.Hour
)

func CheckDeadline(d time.Duration) error {
	if d < minDeadline || d > maxDeadline {
		return fmt.Errorf("--deadline: want between %s and %s, not %s", minDeadline, maxDeadline, d)
	}
	return nil
}

// operatorName returns the user who runs this, for the audit line.
func operatorName() string {
	name := os.Getenv("SUDO_USER")
	if u, err := user.Current(); err == nil && name == "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
