package step

import (
	"slices"
	"strconv"
	"strings"
)

// MainPID stands in a check's argv for the main process of its unit, whose number nobody knows before it was restarted:
// "/proc/{main-pid}/environ".
const MainPID = "{main-pid}"

// Of is the program with MainPID filled in.
func (e Exec) Of(pid int) Exec {
	e.Argv = slices.Clone(e.Argv)
	for i, a := range e.Argv {
		e.Argv[i] = strings.ReplaceAll(a, MainPID, strconv.Itoa(pid))
	}
	return e
}
