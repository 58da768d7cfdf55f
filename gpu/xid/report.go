package xid

import "cmp"

// Reported is what a driver reported, as far as it decides what follows.
type Reported struct {
	SXID     bool
	Word     string // of a report without a code, a row of Uncoded; "" if it has one
	Code     int
	CausedBy int    // the XID that the driver names as the cause; 0: none
	Severity string // the driver's word, as package kmsg has it
	Reset    string // the driver's word about a reset, as package kmsg has it
	Injected bool   // the driver's mark of an error that was injected for a test
	Action   *int64 // the driver's number of the recovery action that it asks for; nil: none reported
}

// UncodedRow is what a driver reports without a code.
type UncodedRow struct {
	Word  string
	Title string
	Class Class
	Why   string
	Do    []string // empty: those of the class
}

// Uncoded lists them. The caller must not change them.
func Uncoded() []UncodedRow { return uncodedRows[:] }

// LookupUncoded returns the row of a word.
func LookupUncoded(word string) (UncodedRow, bool) {
	for _, r := range uncodedRows {
		if r.Word == word {
			return r, true
		}
	}
	return UncodedRow{}, false
}

// Steps returns what to do, in order.
func (r UncodedRow) Steps() []string {
	if len(r.Do) > 0 {
		return r.Do
	}
	return ClassRowOf(r.Class).Do
}

// Title describes the report.
func (r Reported) Title() string {
	if r.Word != "" {
		row, ok := LookupUncoded(r.Word)
		return cmp.Or(row.Title, notListed(ok))
	}
	if r.SXID {
		row, ok := LookupSwitch(r.Code)
		return cmp.Or(row.Symbol, notListed(ok))
	}
	row, ok := Lookup(r.Code)
	return cmp.Or(row.Title, notListed(ok))
}

func notListed(listed bool) string {
	if listed {
		return ""
	}
	return "not in the tables"
}

// Consequence returns the class of a report, and what gets no new work after it. The driver's own words outrank the
// tables where they are worse, and for an SXID always.
func (r Reported) Consequence() (Class, Scope) {
	class := r.class()
	scope := ClassRowOf(class).Condemns
	if r.Action != nil {
		scope = ScopeOfAction(*r.Action)
	}
	return class, scope
}

func (r Reported) class() Class {
	switch {
	case r.Injected:
		return Injected
	case r.SXID:
		return r.classOfSwitch()
	case r.Word != "":
		row, _ := LookupUncoded(r.Word)
		return cmp.Or(row.Class, Unknown)
	}
	class := classOfCode(r.Code)
	// An error that follows from another one is as bad as that one, which may not have been recorded.
	if class == Sympathetic && r.CausedBy > 0 {
		class = classOfCode(r.CausedBy)
	}
	condemned := ClassRowOf(class).Condemns
	switch {
	case condemned == GPU || condemned == Node:
	case r.Reset == "gpu_reset", r.Severity == "Fatal", r.Severity == "Always fatal":
		return GPUReset
	case r.Reset == "drain_and_reset":
		return Drain
	case r.Reset == "unknown":
		return Unknown
	}
	return class
}

func classOfCode(code int) Class {
	row, _ := Lookup(code)
	return cmp.Or(row.Class, Unknown)
}

// classOfSwitch returns an SXID's class. Always-fatal errors end the fabric whatever the severity of this one is.
func (r Reported) classOfSwitch() Class {
	row, _ := LookupSwitch(r.Code)
	class := cmp.Or(row.Class, Unlisted)
	switch {
	case r.Severity == "Always fatal", r.Severity == "Fatal" && class == AlwaysFatal:
		return AlwaysFatal
	case r.Severity == "Fatal":
		return Fatal
	case r.Severity == "Non-fatal":
		return Nonfatal
	}
	return class
}

// ScopeOfAction returns what gets no new work while the driver asks for a recovery action: 0 none, 1 GPU reset, 2 node
// reboot, 3 drain peer-to-peer, 4 drain and reset, 5 recovery of an IMEX domain, which is not about this GPU. A number
// that this version does not know is undecided.
func ScopeOfAction(action int64) Scope {
	switch action {
	case 0, 5:
		return None
	case 1, 3, 4:
		return GPU
	case 2:
		return Node
	}
	return Undecided
}
