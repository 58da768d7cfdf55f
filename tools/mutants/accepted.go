package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// accepted are mutations that are not tried, each with its reason. They are named by what is changed, not by a line's
// number, which changes with every line above it.
type accepted struct{ entries []entry }

type entry struct{ file, function, change, reason string }

func (e entry) of(m mutation) bool {
	return e.file == m.file && e.function == m.function && e.change == m.change()
}

// readAccepted reads the list: for each mutation a line "FILE | FUNCTION | BEFORE -> AFTER", after it an indented line
// with the reason. Empty lines, and lines that begin with #, are not read.
func readAccepted(name string) (accepted, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return accepted{}, nil
	}
	if err != nil {
		return accepted{}, err
	}
	var a accepted
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.TrimSpace(line) == "" || line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			if len(a.entries) == 0 {
				return a, fmt.Errorf("%s:%d: a reason without a mutation", name, n)
			}
			last := &a.entries[len(a.entries)-1]
			last.reason = strings.TrimSpace(last.reason + " " + strings.TrimSpace(line))
		default:
			parts := strings.SplitN(line, " | ", 3)
			if len(parts) != 3 || !strings.Contains(parts[2], " -> ") {
				return a, fmt.Errorf("%s:%d: want FILE | FUNCTION | BEFORE -> AFTER", name, n)
			}
			a.entries = append(a.entries, entry{file: parts[0], function: parts[1], change: parts[2]})
		}
	}
	for _, e := range a.entries {
		if e.reason == "" {
			return a, fmt.Errorf("%s: %s | %s | %s has no reason", name, e.file, e.function, e.change)
		}
	}
	return a, nil
}

// leaveOut returns the mutations without those that are accepted, and how many are.
func (a accepted) leaveOut(all []mutation) (rest []mutation, n int) {
	for _, m := range all {
		if a.has(m) {
			n++
		} else {
			rest = append(rest, m)
		}
	}
	return rest, n
}

func (a accepted) has(m mutation) bool {
	for _, e := range a.entries {
		if e.of(m) {
			return true
		}
	}
	return false
}

// stale returns the entries of the folder's files that are no mutation of all.
func (a accepted) stale(folder string, all []mutation) (lines []string) {
	for _, e := range a.entries {
		if path.Dir(e.file) != folder {
			continue
		}
		if !(accepted{[]entry{e}}).hasAny(all) {
			lines = append(lines, e.file+" | "+e.function+" | "+e.change)
		}
	}
	return lines
}

func (a accepted) hasAny(all []mutation) bool {
	for _, m := range all {
		if a.has(m) {
			return true
		}
	}
	return false
}
