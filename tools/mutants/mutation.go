package main

import (
	"fmt"
	"strings"
)

// kind is what a mutation does.
type kind string

const (
	negated kind = "negated" // a condition or a result
	bound   kind = "bound"   // < for <=, and so on; the number that is compared with is one more
	equal   kind = "equal"   // == for !=
	logic   kind = "logic"   // && for ||
	operand kind = "operand" // an operand of && or || is left out
	extreme kind = "min-max" // min for max
	dropped kind = "case"    // a value of a case never matches
	ignored kind = "error"   // an error is never seen
	row     kind = "row"     // a row of a table is left out
)

// kinds are all kinds, in the order of the summary.
var kinds = []kind{negated, bound, equal, logic, operand, extreme, dropped, ignored, row}

// mutation is one change of the source.
type mutation struct {
	id       int // its number in the program
	kind     kind
	file     string // from the module's root, with slashes
	line     int
	function string // "Keeper.Do", or "var rules" for a declaration
	before   string // the source, in one line
	after    string
}

func (m mutation) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %s", m.file, m.line, m.function, m.kind, m.change())
}

// change is the mutation's text. It does not change with the lines above it, so the list of accepted mutants has it.
func (m mutation) change() string { return m.before + " -> " + m.after }

// maxText is how much of a source a mutation shows.
const maxText = 100

// oneLine returns source text as one line, clipped.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxText {
		text = string(r[:maxText-1]) + "…"
	}
	return text
}
