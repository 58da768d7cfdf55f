package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// line is one measurement and its goal. Met is nil if there is no goal.
type line struct {
	Section string `json:"section"`
	What    string `json:"what"`
	Value   string `json:"value"`
	Goal    string `json:"goal,omitempty"`
	Met     *bool  `json:"met,omitempty"`
	Against string `json:"against,omitempty"` // what it is beside the best value so far
}

// table collects lines in the order in which they were measured.
type table struct {
	Began time.Time `json:"began"`
	Took  string    `json:"took"`
	Lines []line    `json:"lines"`
	Notes []string  `json:"notes"`

	section  string
	figures  []figure // to be compared with the best ones
	paths    []tripPath
	progress io.Writer
}

// report reports progress to the terminal.
func (t *table) report(format string, args ...any) {
	fmt.Fprintf(t.progress, "bench: "+format+"\n", args...)
}

// addLine adds a line without a goal.
func (t *table) addLine(what, format string, args ...any) {
	t.Lines = append(t.Lines, line{Section: t.section, What: what, Value: fmt.Sprintf(format, args...)})
}

// aim adds a line with a goal.
func (t *table) aim(what, value, goal string, met bool) {
	t.Lines = append(t.Lines, line{Section: t.section, What: what, Value: value, Goal: goal, Met: &met})
}

// skip adds a line for something that was not measured, with the reason.
func (t *table) skip(what string, why error) {
	t.Lines = append(t.Lines, line{Section: t.section, What: what, Value: "not measured: " + why.Error()})
}

// remark adds a line of text below the table, once.
func (t *table) remark(text string) {
	if !slices.Contains(t.Notes, text) {
		t.Notes = append(t.Notes, text)
	}
}

func (t *table) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(t)
}

// write prints the table as columns.
func (t *table) write(w io.Writer) error {
	rows := [][]string{{"WHAT", "MEASURED", "GOAL", ""}}
	section := ""
	for _, l := range t.Lines {
		if l.Section != section {
			section = l.Section
			rows = append(rows, []string{"", "", "", ""}, []string{"# " + section, "", "", ""})
		}
		met := ""
		if l.Met != nil {
			met = map[bool]string{true: "met", false: "NOT MET"}[*l.Met]
		}
		rows = append(rows, []string{l.What, l.Value, l.Goal, met + l.Against})
	}
	fmt.Fprintf(w, "%s, %d CPUs, %s/%s, %s\n\n", t.Began.UTC().Format(time.DateTime), runtime.NumCPU(), runtime.GOOS,
		runtime.GOARCH, t.Took)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(columns, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	for _, n := range t.Notes {
		fmt.Fprintf(w, "\n- %s", n)
	}
	_, err := fmt.Fprintln(w)
	return err
}
