package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/endpoints"
)

// endpointsDoc is what `node endpoints` says.
type endpointsDoc struct {
	Node      string         `json:"node_id"`
	Host      string         `json:"node_host"`
	Profile   string         `json:"profile,omitempty"`
	RunID     string         `json:"run_id"`
	Action    string         `json:"action"`
	File      string         `json:"file"`
	Mode      string         `json:"mode,omitempty"`
	Owner     string         `json:"owner,omitempty"`
	Before    string         `json:"before_sha256,omitempty"`
	After     string         `json:"after_sha256,omitempty"`
	Plan      endpoints.Plan `json:"plan"`
	Changed   bool           `json:"-"`
	Diff      string         `json:"diff,omitempty"`
	Applied   bool           `json:"applied"`
	Audit     string         `json:"audit_line,omitempty"` // as it stands in the node's log
	Undo      string         `json:"undo,omitempty"`
	LeftToDNS []string       `json:"left_to_dns,omitempty"` // names that the profile has no address for
	Names     []resolved     `json:"names"`                 // where they lead on the node, after all that was done
	Error     string         `json:"error,omitempty"`
}

// resolved is where a name leads on the node, as its agent sees it.
type resolved struct {
	Name      string       `json:"name"`
	Wanted    string       `json:"wanted"`
	Addresses []string     `json:"addresses,omitempty"`
	Source    string       `json:"source,omitempty"` // hosts_managed | hosts_manual | dns | ...
	Line      string       `json:"source_line,omitempty"`
	Failure   diag.Failure `json:"failure,omitempty"`
}

// right reports whether the name leads where the profile wants it, and nowhere else.
func (r resolved) right() bool {
	return len(r.Addresses) > 0 && !slices.ContainsFunc(r.Addresses, func(a string) bool { return a != r.Wanted })
}

// asWanted reports whether the effect of an apply is there, every name leading where it should, or of a plan whether
// apply can bring it about. Without the block nothing is wanted of the names.
func (d *endpointsDoc) asWanted() bool {
	right := !slices.ContainsFunc(d.Names, func(r resolved) bool { return !r.right() })
	switch d.Action {
	case actionPlan:
		return len(d.Plan.Conflicts()) == 0 && (d.Changed || right)
	case actionApply:
		return right
	}
	return true
}

func (a *app) writeEndpoints(d *endpointsDoc, output string) error {
	if output == formatJSON {
		if d.Names == nil {
			d.Names = []resolved{}
		}
		return a.writeJSON(d)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s of %s (%s)\n", d.File, render.Clean(d.Node), render.Clean(d.Host))
	for line := range strings.Lines(d.Diff) {
		fmt.Fprintf(&b, "  %s\n", render.Clean(strings.TrimRight(line, "\n")))
	}
	for _, m := range d.Plan.Manual {
		word := "conflicts with the profile's " + m.Wanted
		if m.Agrees {
			word = "agrees"
		}
		fmt.Fprintf(&b, "  by hand  %s:%d  %s %s  %s\n", d.File, m.Line, m.Address, m.Name, word)
	}
	for _, name := range d.LeftToDNS {
		fmt.Fprintf(&b, "  left to DNS  %s: the profile has no address for it\n", name)
	}
	fmt.Fprintf(&b, "%s\n", d.outcome())
	if len(d.Names) > 0 {
		table := [][]string{{"NAME", "WANTED", "ON THE NODE", "BY"}}
		for _, r := range d.Names {
			is := strings.Join(r.Addresses, ", ")
			if is == "" {
				is = orDash(string(r.Failure))
			}
			table = append(table, cleaned(r.Name, r.Wanted, is, orDash(strings.TrimSpace(r.Source+" "+r.Line))))
		}
		b.Write(columns(table))
	}
	if d.Undo != "" {
		fmt.Fprintf(&b, "undo   %s\naudit  %s %s\n", d.Undo, endpoints.LogFile, d.RunID)
	}
	return a.write(b.Bytes())
}

// outcome is the document's one sentence.
func (d *endpointsDoc) outcome() string {
	switch {
	case d.Error != "" && !d.Applied:
		return "not done, see the error"
	case d.Applied && d.asWanted():
		return "changed"
	case d.Applied:
		return "changed, and the node still gets other addresses: see where from"
	case d.Action == actionPlan && d.Changed && len(d.Plan.Conflicts()) > 0:
		return "apply would refuse: a line by hand says otherwise"
	case d.Action == actionPlan && d.Changed:
		return "apply would change this"
	case d.asWanted():
		return "already so"
	}
	return "already so, and the node still gets other addresses: see where from"
}
