package profile

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// checksProblems reports invalid checks.
func checksProblems(p *Profile, add func(key string, err error)) {
	if p.ChecksBudget != 0 && (p.ChecksBudget < time.Second || p.ChecksBudget > maxBudget) {
		add("checks_budget", fmt.Errorf("want 1s to %s, not %s", maxBudget, p.ChecksBudget))
	}
	if len(p.Checks) > mostChecks {
		add("checks", fmt.Errorf("more than %d checks", mostChecks))
	}
	for name, c := range p.Checks {
		key := "checks." + name
		if !diag.HopID("x." + name).Valid() {
			add(key, fmt.Errorf("the name %q is not of lower-case letters, digits and _", name))
		}
		of := func(field string, err error) { add(key+field, err) }
		c.problems(of, p.AllChecks())
		if len(c.argv(rowOf(c.Use))) > 0 {
			c.commandProblems(of)
		} else if c.Use == "" {
			c.probeProblems(of)
		}
		ruleProblems(".pass", c.Pass, of)
		ruleProblems(".warn", c.Warn, of)
	}
}

func rowOf(use string) diag.CheckRow {
	row, _ := diag.LookupCheck(use)
	return row
}

// problems reports what is wrong with a check of any kind.
func (c *Check) problems(of func(string, error), all time.Duration) {
	if _, known := diag.LookupCheck(c.Use); c.Use != "" && !known {
		var names []string
		for _, row := range diag.CheckRows {
			names = append(names, row.Name)
		}
		of(".use", fmt.Errorf("no check of the catalogue is named %q%s", c.Use, strictyaml.Nearest(c.Use, names)))
	}
	switch {
	case c.Use == "" && len(c.Command) == 0 && c.Probe == "":
		of("", errors.New("want one of probe, command and use"))
	case (c.Use != "" || len(c.Command) > 0) && c.Probe != "":
		of(".probe", errors.New("a check has a probe or a command, not both"))
	}
	if c.From != "" && c.From != "node" && c.From != "operator" {
		of(".from", fmt.Errorf("want node or operator, not %q", c.From))
	}
	if c.Budget != 0 && (c.Budget < time.Millisecond || c.Budget > all) {
		of(".budget", fmt.Errorf("want 1ms to %s (checks_budget, which all checks share), not %s", all, c.Budget))
	}
	for i, id := range c.ExplainedBy {
		if _, known := diag.LookupHop(id); !known {
			of(fmt.Sprintf(".explained_by[%d]", i), fmt.Errorf("no hop is named %q%s", id, strictyaml.Nearest(string(id),
				words(diag.HopIDs()))))
		}
	}
	for i, s := range c.Steps {
		if strings.TrimSpace(s.Text) == "" {
			of(fmt.Sprintf(".steps[%d]", i), errors.New("a step has no text"))
		}
	}
}

// commandProblems reports what is wrong with a command.
func (c *Check) commandProblems(of func(string, error)) {
	argv := c.argv(rowOf(c.Use))
	of(".command", checkCommand(argv))
	if !filepath.IsAbs(argv[0]) || filepath.Clean(argv[0]) != argv[0] {
		of(".command", fmt.Errorf("want an absolute path in its shortest form, not %q: no PATH is searched", argv[0]))
	}
	if slices.Contains(argv, "NODE") {
		of(".use", fmt.Errorf("give the command with the name of the node in place of NODE: %s", strings.Join(argv, " ")))
	}
	var protocols []string
	for _, p := range diag.CheckProtocols {
		protocols = append(protocols, p.Name)
	}
	if c.Protocol != "" && !slices.Contains(protocols, c.Protocol) {
		of(".protocol", fmt.Errorf("no protocol is named %q%s", c.Protocol, strictyaml.Nearest(c.Protocol, protocols)))
	}
	if len(c.Exit) > 0 && c.Protocol != "" && c.Protocol != diag.ProtocolExit {
		of(".exit", fmt.Errorf("the protocol %s has its own exit codes", c.Protocol))
	}
	for code, st := range c.Exit {
		if !regexp.MustCompile(`^(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d|other)$`).MatchString(code) {
			of(".exit."+code, fmt.Errorf("want an exit code of 0 to 255, or other, not %q", code))
		}
		if st != diag.StatusPass && st != diag.StatusWarn && st != diag.StatusFail && st != diag.StatusInconclusive {
			of(".exit."+code, fmt.Errorf("want pass, warn, fail or inconclusive, not %q", st))
		}
	}
	if c.Output < 0 || c.Output > mostCheckOutput {
		of(".output", fmt.Errorf("want up to %d bytes, not %d", mostCheckOutput, c.Output))
	}
	if c.As != "" {
		of(".as", checkLogin(c.As))
		if c.From == "operator" {
			of(".as", errors.New("a command of the operator's runs with the operator's rights"))
		}
	}
	if c.Target != "" {
		of(".target", errors.New("a command has no target"))
	}
}

// probeProblems reports what is wrong with a measurement.
func (c *Check) probeProblems(of func(string, error)) {
	if c.Probe == "" {
		return
	}
	if !slices.Contains(checkOps, c.Probe) {
		of(".probe", fmt.Errorf("a check cannot measure %q: want one of %s%s", c.Probe, strings.Join(words(checkOps), ", "),
			strictyaml.Nearest(string(c.Probe), words(checkOps))))
		return
	}
	switch {
	case c.Target == "" && c.Probe != diag.OpClock:
		of(".target", fmt.Errorf("the probe %s needs a target", c.Probe))
	case strings.ContainsAny(c.Target, "\x00\n") || strings.Contains(c.Target, "${"):
		of(".target", fmt.Errorf("not a target: %q", c.Target))
	case c.Probe == diag.OpHTTP:
		of(".target", checkURL(c.Target))
	}
	for _, only := range []struct {
		field string
		set   bool
	}{{".as", c.As != ""}, {".output", c.Output != 0}, {".protocol", c.Protocol != ""}, {".exit", len(c.Exit) > 0}} {
		if only.set {
			of(only.field, errors.New("only a command has it"))
		}
	}
	if c.Method != "" && c.Method != "GET" && c.Method != "HEAD" {
		of(".method", fmt.Errorf("want GET or HEAD, not %q: a check changes nothing", c.Method))
	}
	for name := range c.Header {
		if secretHeader(name) {
			of(".header."+name, errors.New("a profile holds no secret, and a check sends none"))
		}
	}
	if c.Probe == diag.OpClock && c.From == "operator" {
		of(".from", errors.New("a clock is compared with the operator's: measure it from the node"))
	}
	if empty := c.Pass == nil && c.Warn == nil && (c.Probe == diag.OpDisk || c.Probe == diag.OpClock); empty {
		of("", fmt.Errorf("the probe %s passes whatever it measures: give a rule, as pass", c.Probe))
	}
}

// ruleProblems reports what is wrong with a rule.
func ruleProblems(key string, r *diag.CheckRule, of func(string, error)) {
	if r == nil {
		return
	}
	if reflect.ValueOf(*r).IsZero() {
		of(key, errors.New("a rule without a condition"))
	}
	match := func(key string, m *diag.CheckMatch) {
		if _, err := regexp.Compile(m.Matches); err != nil {
			of(key+".matches", err)
		}
		if reflect.ValueOf(*m).IsZero() {
			of(key, errors.New("a match without a condition"))
		}
	}
	for name, m := range r.Field {
		match(key+".field."+name, &m)
	}
	if r.Text != nil {
		match(key+".text", r.Text)
	}
	for i, word := range r.Failure {
		if !slices.Contains(diag.Failures[:], word) {
			of(fmt.Sprintf("%s.failure[%d]", key, i), fmt.Errorf("no failure is named %q%s", word,
				strictyaml.Nearest(string(word), words(diag.Failures[:]))))
		}
	}
	if r.SHA256 != "" {
		of(key+".sha256", checkFingerprint(r.SHA256))
	}
}

// words returns names as texts.
func words[T ~string](names []T) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = string(name)
	}
	return out
}
