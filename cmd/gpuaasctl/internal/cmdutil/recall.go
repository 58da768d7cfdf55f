package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/ops/history"
)

// EnvHistory disables the history: nothing is read, nothing is stored.
const EnvHistory = "GPUAASCTL_HISTORY"

// historyBudget is the time limit of a history command.
const historyBudget = 10 * time.Second

// BaselineFlag is --baseline and what it means.
type BaselineFlag struct{ ops.Baseline }

// Add declares --baseline.
func (b *BaselineFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.Name, "baseline", "", "show what changed since `FILE` (a report) or "+diag.LastGood)
	err := cmd.RegisterFlagCompletionFunc("baseline",
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{diag.LastGood}, cobra.ShellCompDirectiveDefault
		})
	if err != nil {
		panic(err) // a flag that was just declared
	}
}

// Read reads a baseline that is a file. Under --fail-on regression the default is the last good walk.
func (b *BaselineFlag) Read(ctx context.Context, a *App, failOn string) error {
	if b.Name == "" && failOn == FailOnRegression {
		b.Name = diag.LastGood
	}
	if b.Name == "" || b.Name == diag.LastGood {
		return nil
	}
	if b.Name == "-" {
		return Usagef("--baseline: want a file or %s", diag.LastGood)
	}
	data, err := a.ReadAll(ctx, b.Name)
	if err == nil {
		b.File, err = a.Rejudge(data)
	}
	if err != nil {
		return Usagef("--baseline %s: %w", b.Name, err)
	}
	return nil
}

// HistoryOff returns why the history is not used, or "".
func (a *App) HistoryOff() (string, error) {
	switch v := a.Env(EnvHistory); v {
	case "", "on":
		return "", nil
	case "off":
		return EnvHistory + "=off", nil
	default:
		return "", Usagef("%s: want on or off, not %q", EnvHistory, v)
	}
}

func (a *App) HistoryPath() (string, error) { return history.Path(a.Env, os.Geteuid() == 0) }

// History returns where walks are stored; with an invalid setting, a history that cannot be used.
func (a *App) History() (h ops.History) {
	if h.Off, h.Err = a.HistoryOff(); h.Err == nil {
		h.Path, h.Err = a.HistoryPath()
	}
	h.Hops = a.Chain()
	return h
}

// NoteNotSaved notes why a walk is not stored, or is not a baseline.
func (a *App) NoteNotSaved(run string, k ops.Kept) {
	if k.Err != nil {
		a.Note("this walk is not kept: %v", k.Err)
		a.noteDamaged(k.Err)
	}
	if k.Unread {
		a.Note("this walk is kept, but not as a baseline: the earlier good walks could not be read; to accept it: gpuaasctl "+
			"history accept %s", run)
	}
	if k.Better != nil {
		a.Note("this walk regressed, and the last good one stays the baseline; what changed: gpuaasctl history diff %s %s; "+
			"to accept it: gpuaasctl history accept %s", k.Better.Run.ID, run, run)
	}
}

// noteDamaged notes how to continue after the history file was damaged.
func (a *App) noteDamaged(err error) {
	if path, none := a.HistoryPath(); none == nil && history.Damaged(err) {
		a.Note("to begin a new history: mv %s %s", diag.Quote(path), diag.Quote(path+".bad"))
	}
}

// WithHistory opens the history for a history command. A missing or invalid file is not an internal error.
func (a *App) WithHistory(ctx context.Context, do func(context.Context, *history.Store) error) error {
	path, err := a.HistoryPath()
	if err != nil {
		return &UsageError{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, historyBudget)
	defer cancel()
	store, err := history.OpenExisting(ctx, path)
	if errors.Is(err, history.ErrNone) {
		return &UsageError{Err: fmt.Errorf("%w: no walk was kept yet in %s", history.ErrNone, path)}
	}
	if err != nil {
		a.noteDamaged(err)
		return &UsageError{Err: err}
	}
	err = errors.Join(do(ctx, store), store.Close())
	if history.Damaged(err) || errors.As(err, new(*history.InputError)) {
		a.noteDamaged(err)
		return &UsageError{Err: err}
	}
	return err
}
