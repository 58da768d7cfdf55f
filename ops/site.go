package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Site is one environment: its profile, the operator's secrets, and this program. It is immutable after New.
type Site struct {
	Profile profile.Profile
	Chosen  string // how an operator selects this profile: its name, or the path of its file
	Secrets Secrets
	Tool    string      // version of this program
	Libexec string      // folder of the helpers for machines; "": next to this program
	Build   owned.Build // the helpers of this program's build; New clears it where Libexec chooses others
	By      string      // who asks, for audits
	// Hops is the chain of every walk; nil: the built-in one.
	Hops *hop.Chain
}

// New returns s with the defaults of profile and chain.
func New(s Site) *Site {
	s.Profile = s.Profile.WithDefaults()
	if s.Libexec != "" {
		s.Build = nil
	}
	s.Hops = hops.WithChecks(cmp.Or(s.Hops, hops.BuiltIn()), &s.Profile)
	return &s
}

// Secrets are the operator's secrets, and the trust bundle of the nodes as PEM text.
type Secrets struct {
	Token, Cookie diag.Secret
	NodeCA        string
}

// ReadSecrets reads the files with secrets, or runs the commands that print them. If run is false, it only looks up the
// commands' programs. A mistake is an InputError, an interrupt is not.
func ReadSecrets(ctx context.Context, p profile.Profile, run bool) (Secrets, error) {
	var errs []error
	read := func(key, path string, command []string) (s diag.Secret) {
		var err error
		switch {
		case path != "":
			key += "_file"
			s, err = profile.ReadSecret(ctx, path)
		case len(command) > 0 && run:
			key += "_command"
			s, err = profile.RunSecret(ctx, command)
		case len(command) > 0:
			key += "_command"
			err = profile.FindCommand(command)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("auth.%s: %w", key, err))
		}
		return s
	}
	s := Secrets{
		Token:  read("token", p.Auth.TokenFile, p.Auth.TokenCommand),
		Cookie: read("edge_cookie", p.Auth.EdgeCookieFile, p.Auth.EdgeCookieCommand),
	}
	var err error
	if s.NodeCA, err = profile.ReadCA(p.Trust.NodeCA); err != nil {
		errs = append(errs, fmt.Errorf("trust.node_ca: %w", err))
	}
	if _, err := profile.ReadCA(p.Trust.OperatorCA); err != nil {
		errs = append(errs, fmt.Errorf("trust.operator_ca: %w", err))
	}
	if len(errs) > 0 && ctx.Err() != nil { // interrupted while waiting for a command
		return s, ctx.Err()
	}
	return s, asInput(errors.Join(errs...))
}

// Each calls do with a session about each of the nodes, at most width at once (0: all), and returns when all are done.
func (s *Site) Each(nodes []string, width int, do func(i int, s *Session)) {
	AtOnce(len(nodes), width, func(i int) { do(i, s.Node(nodes[i], "")) })
}

// AtOnce calls do for 0 to n-1, at most width at once (0: all), and returns when all have returned.
func AtOnce(n, width int, do func(i int)) {
	if width <= 0 {
		width = n
	}
	slots := make(chan struct{}, width)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}
