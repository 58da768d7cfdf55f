package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// counts are of tests.
type counts struct {
	Passed   int `json:"passed"`
	Skipped  int `json:"skipped"`
	Unstable int `json:"unstable"`
	Failed   int `json:"failed"`
}

// countsFormat is how a report ends, before its time.
const countsFormat = "tests: %d passed, %d skipped, %d unstable, %d failed"

func (c counts) String() string {
	return fmt.Sprintf(countsFormat, c.Passed, c.Skipped, c.Unstable, c.Failed)
}

func (c *counts) add(more counts) {
	c.Passed, c.Skipped = c.Passed+more.Passed, c.Skipped+more.Skipped
	c.Unstable, c.Failed = c.Unstable+more.Unstable, c.Failed+more.Failed
}

// countsIn adds up the reports in a log.
func countsIn(log string) (all counts) {
	_ = eachLine(log, func(line string) {
		var c counts
		if n, _ := fmt.Sscanf(line, countsFormat, &c.Passed, &c.Skipped, &c.Unstable, &c.Failed); n == 4 {
			all.add(c)
		}
	})
	return all
}

// tailLines is how much of a failed part's log is printed again at the end.
const tailLines = 80

func tail(out io.Writer, log string) {
	var last []string
	_ = eachLine(log, func(line string) {
		if last = append(last, line); len(last) > tailLines {
			last = last[1:]
		}
	})
	fmt.Fprintln(out, strings.Join(last, "\n"))
}

func eachLine(file string, f func(string)) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxOutput)
	for lines.Scan() {
		f(lines.Text())
	}
	return lines.Err()
}

func copyFile(out io.Writer, name string) {
	if in, err := os.Open(name); err == nil {
		_, _ = io.Copy(out, in)
		_ = in.Close()
	}
}
