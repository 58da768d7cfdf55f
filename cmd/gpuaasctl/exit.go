package main

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Exit codes, the same for every output format.
const (
	exitPass         = 0 // warnings allowed
	exitInternal     = 1
	exitUsage        = 2
	exitFailed       = 3
	exitWarned       = 4 // under --fail-on warn
	exitInconclusive = 5
	exitRegression   = 6 // under --fail-on regression
	exitResidue      = 7 // a drill left something on a machine
	exitInterrupted  = 130
)

// verdictError ends a command whose document is already written: only the code is left to say.
type verdictError struct{ code int }

func (e *verdictError) Error() string { return "the verdict is not a pass" }

// usageError is a mistake on the command line or in the configuration.
type usageError struct {
	err     error
	command string // whose --help helps; "" where none does
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// failedError is something outside that is not as it should be, and was found out: a hop's failure without a report.
type failedError struct{ err error }

func (e *failedError) Error() string { return e.err.Error() }
func (e *failedError) Unwrap() error { return e.err }

// codeOf turns an error into the exit code.
func codeOf(err error) int {
	var verdict *verdictError
	var usage *usageError
	var failed *failedError
	var file *profile.FileError
	var input *profile.InputError
	var missing *profile.NotFoundError
	switch {
	case err == nil:
		return exitPass
	case errors.As(err, &verdict):
		return verdict.code
	case errors.Is(err, context.Canceled): // also where a file was waited for
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &file), errors.As(err, &input), errors.As(err, &missing):
		return exitUsage
	case errors.As(err, &failed):
		return exitFailed
	}
	return exitInternal
}

// ended is how a command ends whose document is out, or could not be written, which is err. What is left on a machine wins
// over that, too. That a reader has seen enough, as head has, is no error.
func (a *app) ended(code int, err error) error {
	if errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	if err != nil && code == exitResidue {
		sayError(a.stderr, err)
		err = nil
	}
	if err == nil && code != exitPass {
		return &verdictError{code}
	}
	return err
}

// judged is the error for a report's outcome: nil for a pass. failOn makes warnings or regressions count; a hop that
// failed or a walk that decides nothing is the greater news, so these only tell passes and warnings apart.
func judged(r *diag.Report, failOn string) error {
	code := exitInternal
	switch {
	case r.Run.EndedBy == diag.EndedInterrupted:
		code = exitInterrupted
	case r.Run.EndedBy == diag.EndedError:
		code = exitInternal
	case r.Verdict.Outcome == diag.OutcomePass || r.Verdict.Outcome == diag.OutcomeWarn:
		switch {
		case failOn == failOnRegression:
			code = regressed(r.Diff)
		case failOn == failOnWarn && r.Verdict.Outcome == diag.OutcomeWarn:
			code = exitWarned
		default:
			code = exitPass
		}
	case r.Verdict.Outcome == diag.OutcomeFail:
		code = exitFailed
	case r.Verdict.Outcome == diag.OutcomeInconclusive && unknownSubject(r):
		code = exitUsage
	case r.Verdict.Outcome == diag.OutcomeInconclusive:
		code = exitInconclusive
	}
	if code == exitPass {
		return nil
	}
	return &verdictError{code}
}

// unknownSubject reports whether a walk was about a node or an allocation that the platform does not know: a mistake on
// the command line, or in the profile.
func unknownSubject(r *diag.Report) bool {
	return slices.ContainsFunc(r.Hops, func(h diag.HopResult) bool {
		return h.Signal == diag.SigNodeUnknown || h.Signal == diag.SigAllocationUnknown
	})
}

// regressed is the exit code of a diff under --fail-on regression. A gate that had nothing to compare with has decided
// nothing.
func regressed(d *diag.Diff) int {
	switch {
	case d == nil || !d.Comparable:
		return exitInconclusive
	case d.Regressions() > 0:
		return exitRegression
	}
	return exitPass
}

// drillCode is the exit code of a report of drills. What is left on a machine wins over everything, an interrupt included.
// A drill that failed is the greater news than one that decided nothing, and neither is hidden by drills that passed. A
// report of no drill has shown nothing.
func drillCode(r *drill.Report) int {
	worst := exitPass
	if len(r.Drills) == 0 {
		worst = exitInconclusive
	}
	for i := range r.Drills {
		switch code := wordCode(r.Drills[i].Verdict.Word); {
		case code == exitResidue:
			return exitResidue
		case code == exitInternal || code == exitFailed && worst != exitInternal || worst == exitPass:
			worst = code
		}
	}
	switch {
	case r.EndedBy == diag.EndedInterrupted:
		return exitInterrupted
	case r.EndedBy != diag.EndedCompleted && worst == exitPass, worst == exitPass && len(r.NotRun) > 0:
		return exitInconclusive
	}
	return worst
}

// wordCode is the exit code of a drill with that verdict.
func wordCode(w drill.Word) int {
	switch w {
	case drill.Pass:
		return exitPass
	case drill.NotInjected, drill.NotDetected, drill.WrongHop, drill.Late, drill.Collateral, drill.NoRecovery, drill.RevertedEarly:
		return exitFailed
	case drill.Infra, drill.Conflict, drill.AbortedGuard:
		return exitInconclusive
	case drill.Residue:
		return exitResidue
	}
	return exitInternal
}
