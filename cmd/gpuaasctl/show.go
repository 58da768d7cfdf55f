package main

import (
	"bytes"
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// look says how stdout wants to be written to: as wide as the terminal, in colour where it may be, in letters that
// the locale has.
func (a *app) look(format string) render.Options {
	locale := a.env("LC_ALL")
	for _, name := range [...]string{"LC_CTYPE", "LANG"} {
		if locale == "" {
			locale = a.env(name)
		}
	}
	return render.Options{
		Format: render.Format(format), Width: width(a.stdout), Color: a.colour(a.stdout),
		ASCII: isTerminal(a.stdout) && !render.UTF8(locale),
	}
}

// listWidth is what a plan or a list may take where no terminal sets a bound: reasons are sentences.
const listWidth = 200

// lookAtList is look for lists, of which nothing is cut off on a pipe.
func (a *app) lookAtList(format string) render.Options {
	o := a.look(format)
	if o.Width == 0 {
		o.Width = listWidth
	}
	return o
}

// render writes r to stdout as one document. failOn is what the gate stops at, beside a failed hop.
func (a *app) render(r *diag.Report, format, failOn string) error {
	o := a.look(format)
	o.FailOn = failOn
	var b bytes.Buffer
	if err := render.Report(&b, r, o); err != nil {
		return fmt.Errorf("render report: %w", err)
	}
	return a.write(b.Bytes())
}

// printPlan says what a walk would do: which hops, from where, with which budgets, and what is left out and why.
func (a *app) printPlan(j *job, format string) error {
	switch format {
	case formatTable, formatWide, formatShort, formatJSON:
	default:
		return badFormat(format, formatTable, formatWide, formatShort, formatJSON)
	}
	var b bytes.Buffer
	if err := render.Plan(&b, j.Plan, j.Env.Subject, a.lookAtList(format)); err != nil {
		return fmt.Errorf("render plan: %w", err)
	}
	return a.write(b.Bytes())
}
