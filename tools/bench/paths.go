package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// wireFile has the traced paths, in a block that is made.
var wireFile = filepath.Join("docs", "wire.md")

const (
	wireBegins = "<!-- trace: made by go run ./tools/bench -only wire -keep -->\n"
	wireEnds   = "<!-- /trace -->\n"
)

// tripPath is a chain of messages of a walk, each of which was sent when the answer to the one before had come: the
// round trips that the walk cannot have less of. A trip has the names of all that was sent at its moment.
type tripPath struct {
	walk, to string
	trips    [][]string
}

func (p tripPath) title() string { return p.walk + ", to the " + p.to }

// addPath adds a path to the table, and its number of round trips to the figures.
func (t *table) addPath(p tripPath) {
	var all []string
	for _, names := range p.trips {
		all = append(all, strings.Join(names, " + "))
	}
	t.addLine(p.title(), "%d round trips: %s", len(p.trips), strings.Join(all, "; "))
	t.keep("traced: "+p.title(), float64(len(p.trips)), unitTrips)
	t.paths = append(t.paths, p)
}

// markdown is a table of each path.
func (p tripPath) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s: %d**\n\n| trip | what is sent |\n|--:|---|\n", p.title(), len(p.trips))
	for i, names := range p.trips {
		fmt.Fprintf(&b, "| %d | %s |\n", i+1, strings.Join(names, ", "))
	}
	return b.String()
}

// writePaths replaces the block of the page by the traced paths, if any were traced.
func (t *table) writePaths(path string, update bool) error {
	if !update || len(t.paths) == 0 {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(data), wireBegins)
	_, after, ends := strings.Cut(rest, wireEnds)
	if !begins || !ends {
		return fmt.Errorf("write %s: the page has no block for the trace", path)
	}
	var made []string
	for _, p := range t.paths {
		made = append(made, p.markdown())
	}
	return os.WriteFile(path, []byte(before+wireBegins+strings.Join(made, "\n")+wireEnds+after), 0o644)
}
