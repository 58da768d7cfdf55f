package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Exit codes, the same for every output format; their meaning is in diag/catalogue/exits.yaml.
const (
	ExitPass         = diag.ExitPass
	ExitInternal     = diag.ExitInternal
	ExitUsage        = diag.ExitUsage
	ExitFailed       = diag.ExitFailed
	ExitWarned       = diag.ExitWarned
	ExitInconclusive = diag.ExitInconclusive
	exitRegression   = diag.ExitRegression
	ExitResidue      = diag.ExitResidue
	ExitInterrupted  = diag.ExitInterrupted
)

// VerdictError ends a command whose document is already written: it only carries the exit code.
type VerdictError struct{ Code int }

func (e *VerdictError) Error() string { return "the verdict is not a pass" }

// UsageError is a mistake on the command line or in the configuration.
type UsageError struct {
	Err     error
	Command string // the command whose --help has the answer; "" if none has
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// FailedError is a confirmed problem outside this tool: a hop's failure without a report.
type FailedError struct{ Err error }

func (e *FailedError) Error() string { return e.Err.Error() }
func (e *FailedError) Unwrap() error { return e.Err }

// CodeOf returns the exit code for an error.
func CodeOf(err error) int {
	var verdict *VerdictError
	switch {
	case err == nil:
		return ExitPass
	case errors.As(err, &verdict):
		return verdict.Code
	case errors.Is(err, context.Canceled): // also while waiting for a file
		return ExitInterrupted
	case errors.As(err, new(*UsageError)), errors.As(err, new(*profile.FileError)),
		errors.As(err, new(*profile.InputError)), errors.As(err, new(*profile.NotFoundError)),
		errors.As(err, new(*ops.InputError)):
		return ExitUsage
	case errors.As(err, new(*FailedError)):
		return ExitFailed
	}
	return ExitInternal
}

// WithHint adds to an error of ops the flag or setting that helps.
func (a *App) WithHint(err error) error {
	var nowhere *ops.NoHostError
	var unknown *ops.UnknownNodeError
	switch {
	case errors.As(err, &nowhere) && nowhere.Profile == "":
		return Usagef("where %s is reached is not known, and %s; or give --node-host", nowhere.Node, a.NoProfile())
	case errors.As(err, &nowhere) && nowhere.Others != "":
		return Usagef("the profile %s has no node %s (it has %s); where it is reached is given by nodes.%s.host there, or "+
			"by --node-host", nowhere.Profile, nowhere.Node, nowhere.Others, nowhere.Node)
	case errors.As(err, &nowhere):
		return Usagef("where %s is reached is not known: give nodes.%s.host in the profile %s, or --node-host", nowhere.Node,
			nowhere.Node, nowhere.Profile)
	case errors.As(err, &unknown) && unknown.Others != "":
		return Usagef("%w; nodes of the profile: %s", unknown, unknown.Others)
	case errors.As(err, &unknown):
		return &UsageError{Err: unknown}
	}
	return err
}

// ExitError returns the error of a command whose document has been written; err is the write error. Residue on a
// machine outranks it. A reader that closes the pipe early, as head does, is not an error.
func (a *App) ExitError(code int, err error) error {
	if errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	if err != nil && code == ExitResidue {
		PrintError(a.Stderr, err)
		err = nil
	}
	if err == nil && code != ExitPass {
		return &VerdictError{code}
	}
	return err
}

// Judged returns the error for a report's outcome: nil for a pass. failOn makes warnings or regressions count; they
// only replace a pass or a warning, since a failed hop or an undecided walk takes precedence.
func Judged(r *diag.Report, failOn string) error {
	code := ExitInternal
	switch {
	case r.Run.EndedBy == diag.EndedInterrupted:
		code = ExitInterrupted
	case r.Run.EndedBy == diag.EndedError:
		code = ExitInternal
	case r.Verdict.Outcome == diag.OutcomePass || r.Verdict.Outcome == diag.OutcomeWarn:
		switch {
		case failOn == FailOnRegression:
			code = Regressed(r.Diff)
		case failOn == FailOnWarn && r.Verdict.Outcome == diag.OutcomeWarn:
			code = ExitWarned
		default:
			code = ExitPass
		}
	case r.Verdict.Outcome == diag.OutcomeFail:
		code = ExitFailed
	case r.Verdict.Outcome == diag.OutcomeInconclusive && ops.UnknownSubject(r):
		code = ExitUsage
	case r.Verdict.Outcome == diag.OutcomeInconclusive:
		code = ExitInconclusive
	}
	if code == ExitPass {
		return nil
	}
	return &VerdictError{code}
}

// Regressed returns the exit code of a diff under --fail-on regression. Without a baseline, the gate is undecided.
func Regressed(d *diag.Diff) int {
	switch {
	case d == nil || !d.Comparable:
		return ExitInconclusive
	case d.Regressions() > 0:
		return exitRegression
	}
	return ExitPass
}

// DrillCode returns the exit code of a report of drills. Residue on a machine outranks everything, even an interrupt. A
// failed drill outranks an inconclusive one, and passed drills hide neither. A report without drills is inconclusive.
func DrillCode(r *drill.Report) int {
	worst := ExitPass
	if len(r.Drills) == 0 {
		worst = ExitInconclusive
	}
	for i := range r.Drills {
		switch code := WordCode(r.Drills[i].Verdict.Word); {
		case code == ExitResidue:
			return ExitResidue
		case code == ExitInternal || (code == ExitFailed && worst != ExitInternal) || worst == ExitPass:
			worst = code
		}
	}
	switch {
	case r.EndedBy == diag.EndedInterrupted:
		return ExitInterrupted
	case r.EndedBy != diag.EndedCompleted && worst == ExitPass, worst == ExitPass && len(r.NotRun) > 0:
		return ExitInconclusive
	}
	return worst
}

// WordCode returns the exit code of a drill with that verdict.
func WordCode(w drill.Word) int {
	switch w {
	case drill.Pass:
		return ExitPass
	case drill.NotInjected, drill.NotDetected, drill.WrongHop, drill.Late, drill.Collateral, drill.NoRecovery,
		drill.RevertedEarly:
		return ExitFailed
	case drill.Infra, drill.Conflict, drill.AbortedGuard:
		return ExitInconclusive
	case drill.Residue:
		return ExitResidue
	}
	return ExitInternal
}

// NotMeasured returns the error of a command that could read nothing. Its exit code means "not measured".
func (a *App) NotMeasured(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*ops.OtherRecordError)):
		err = fmt.Errorf("--dir: %w", err)
	}
	Note(a.Stderr, "%v", err)
	return &VerdictError{ExitInconclusive}
}

// JudgedReason returns the error for a classification: nil for a healthy node, and for a warning unless warnings count.
// A reason that users hardly notice, or that may pass by itself, is still a fault, since a hop would fail with it.
func JudgedReason(c *diag.Classification, warnings bool) error {
	switch {
	case c.Healthy, c.Warning && !warnings:
		return nil
	case c.Warning:
		return &VerdictError{ExitWarned}
	case c.NeedsSomebody():
		return &VerdictError{ExitFailed}
	}
	return &VerdictError{ExitInconclusive}
}

// AsUsage also makes an unreadable file a usage error: the configuration names it.
func AsUsage(err error) error {
	if err == nil || CodeOf(err) == ExitUsage {
		return err
	}
	return &UsageError{Err: err}
}
