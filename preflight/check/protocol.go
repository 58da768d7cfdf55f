package check

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// parser reads the output of a program that ended by itself. What it does not understand is inconclusive, never a pass.
type parser func(run *diag.CommandFacts, c *diag.Check) result

// parsers are the protocols' by name.
var parsers = map[string]parser{
	diag.ProtocolExit: byExit, diag.ProtocolNagios: nagios, diag.ProtocolNPD: npd, diag.ProtocolJSON: ownJSON,
}

// evidence is the first line of an output, or how the program ended.
func evidence(run *diag.CommandFacts) string {
	for _, text := range []string{run.Out, run.Err} {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				return diag.Shortened(line)
			}
		}
	}
	return fmt.Sprintf("exit %d", *run.Exit)
}

func byExit(run *diag.CommandFacts, c *diag.Check) result {
	st, mapped := c.Exit[strconv.Itoa(*run.Exit)]
	if !mapped {
		st, mapped = c.Exit["other"]
	}
	switch {
	case mapped:
	case len(c.Exit) > 0:
		return undecided("exit %d is not in the check's exit map: %s", *run.Exit, evidence(run))
	case *run.Exit == 0:
		st = diag.StatusPass
	default:
		st = diag.StatusFail
	}
	return result{status: st, text: evidence(run)}
}

// nagios reads a monitoring plugin: the exit code is the status; behind a | on any line is performance data, and after
// a | on a later line all lines are.
func nagios(run *diag.CommandFacts, _ *diag.Check) result {
	codes := []diag.Status{diag.StatusPass, diag.StatusWarn, diag.StatusFail, diag.StatusInconclusive}
	if *run.Exit < 0 || *run.Exit >= len(codes) {
		return undecided("exit %d is none of a monitoring plugin (0 to 3): %s", *run.Exit, evidence(run))
	}
	var data []string
	first, n, only := "", 0, false
	for line := range strings.Lines(run.Out) {
		text, perf, has := strings.Cut(strings.TrimRight(line, "\n"), "|")
		switch {
		case only:
			data = append(data, line)
			continue
		case has:
			data = append(data, perf)
			only = n > 0
		}
		if n == 0 {
			first = strings.TrimSpace(text)
		}
		n++
	}
	if first == "" {
		if first = evidence(run); *run.Exit == 0 {
			return undecided("the plugin printed nothing")
		}
	}
	return result{status: codes[*run.Exit], text: diag.Shortened(first), fields: perfdata(strings.Join(data, " "))}
}

// perfdata reads performance data: 'a label'=1.5MB;warn;crit;min;max ...
func perfdata(text string) map[string]string {
	fields := map[string]string{}
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		var label string
		if rest, quoted := strings.CutPrefix(text, "'"); quoted {
			end := strings.Index(rest, "'=")
			if end < 0 {
				return fields
			}
			label, text = strings.ReplaceAll(rest[:end], "''", "'"), rest[end+2:]
		} else {
			var is bool
			if label, text, is = strings.Cut(text, "="); !is {
				return fields
			}
		}
		var word string
		word, text = text, ""
		if i := strings.IndexAny(word, " \t\n"); i >= 0 {
			word, text = word[:i], word[i:]
		}
		value, _, _ := strings.Cut(word, ";")
		number := strings.TrimRight(value, "%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		if v, err := strconv.ParseFloat(number, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
			fields[label] = number
		}
	}
	return fields
}

// npd reads a custom plugin of node-problem-detector.
func npd(run *diag.CommandFacts, _ *diag.Check) result {
	switch *run.Exit {
	case 0:
		return result{status: diag.StatusPass, text: evidence(run)}
	case 1:
		return result{status: diag.StatusFail, text: evidence(run)}
	}
	return undecided("the plugin does not know (exit %d): %s", *run.Exit, evidence(run))
}

// ownJSON reads {"status": "pass", "message": "...", "metrics": {"name": 1}}.
func ownJSON(run *diag.CommandFacts, _ *diag.Check) result {
	var d struct {
		Status  diag.Status        `json:"status"`
		Message string             `json:"message"`
		Metrics map[string]float64 `json:"metrics"`
	}
	if err := bounded.Unmarshal([]byte(run.Out), &d, bounded.Small()); err != nil {
		return undecided("the output is not understood: %v", err)
	}
	r := result{status: d.Status, text: diag.Shortened(strings.Join(strings.Fields(d.Message), " ")),
		fields: map[string]string{}}
	for name, v := range d.Metrics {
		r.fields[name] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	switch {
	case d.Status == diag.StatusPass && *run.Exit != 0:
		return undecided("the output says pass, and the program ended with exit %d", *run.Exit)
	case d.Status == diag.StatusPass, d.Status == diag.StatusWarn, d.Status == diag.StatusFail,
		d.Status == diag.StatusInconclusive:
		return r
	}
	return undecided("the output has the status %q, none of pass, warn, fail and inconclusive", d.Status)
}
