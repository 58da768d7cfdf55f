package gpucmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// asker runs the program that judges.
type asker struct {
	app     *cmdutil.App
	libexec string
}

func (k *asker) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.libexec, "libexec", "",
		"`FOLDER` of gpuaas-gpu-policy (default: beside this program)")
}

// mistaken are mistakes in files that the program found.
type mistaken []policy.Mistake

func (m mistaken) Error() string {
	var lines []string
	for _, one := range m {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// ask sends it one request. Mistakes in files are a separate error type.
func (k *asker) ask(ctx context.Context, q policy.Request) (policy.Reply, error) {
	build := k.app.Helpers
	if k.libexec != "" {
		build = nil
	}
	program, err := policy.Find(vantage.HelperDirs(k.libexec), build)
	if err != nil {
		if !errors.As(err, new(*owned.BuildError)) {
			err = fmt.Errorf("%w; see --libexec", err)
		}
		return policy.Reply{}, &cmdutil.UsageError{Err: err}
	}
	r, err := policy.Ask(ctx, program, k.app.ToolVersion(), q)
	switch {
	case errors.As(err, new(*policy.ReplyError)):
		return r, &cmdutil.UsageError{Err: err}
	case err == nil && len(r.Mistakes) > 0:
		return r, &cmdutil.UsageError{Err: mistaken(r.Mistakes)}
	}
	return r, err
}

// file reads a policy file for a request; "" means none.
func (k *asker) file(ctx context.Context, path string) (*policy.File, error) {
	if path == "" {
		return nil, nil
	}
	text, err := cmdutil.From(ctx, k.app, "the file", path, func(in io.Reader) ([]byte, error) {
		return bounded.Read(in, maxFile)
	})
	if err != nil {
		return nil, &cmdutil.UsageError{Err: err}
	}
	return &policy.File{Path: path, Text: append([]byte{}, text...)}, nil
}

// maxFile bounds a file: a request contains three of them, as base64.
const maxFile = 3 << 20

// policyFile reads a policy, or names a built-in one.
func (k *asker) policyFile(ctx context.Context, given string) (policy.File, error) {
	if slices.Contains(policy.Builtins(), given) {
		return policy.File{Path: given}, nil
	}
	f, err := k.file(ctx, given)
	if err != nil {
		if !strings.ContainsAny(given, "./") {
			err = cmdutil.Usagef("%w; built-in policies are %s", err, cmdutil.OneOf(policy.Builtins()))
		}
		return policy.File{}, err
	}
	return *f, nil
}
