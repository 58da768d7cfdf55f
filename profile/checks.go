package profile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Check is a check beside the chain: one measurement, or one command, and a rule. Exactly one of Use, Command and Probe
// is set.
type Check struct {
	Use         string       `yaml:"use,omitempty"` // a row of the catalogue of checks
	Title       string       `yaml:"title,omitempty"`
	Owner       string       `yaml:"owner,omitempty"` // who is called
	Steps       []CheckStep  `yaml:"steps,omitempty"`
	ExplainedBy []diag.HopID `yaml:"explained_by,omitempty,flow"`
	// where it is measured: node (the default) or operator
	From   string        `yaml:"from,omitempty"`
	Budget time.Duration `yaml:"budget,omitempty"` // of the measurement; default 5s

	// a program and its arguments, run without a shell
	Command  []string `yaml:"command,omitempty,flow"`
	As       string   `yaml:"as,omitempty"`       // whose rights it has; default: the login's
	Output   int      `yaml:"output,omitempty"`   // bytes that are kept; default 65536
	Protocol string   `yaml:"protocol,omitempty"` // how its output is read; default exit
	// the status of each exit code, and of any "other" one
	Exit map[string]diag.Status `yaml:"exit,omitempty"`

	Probe      diag.Op           `yaml:"probe,omitempty"`
	Target     string            `yaml:"target,omitempty"`
	Arguments  []string          `yaml:"arguments,omitempty,flow"` // texts that a process has among its arguments
	Socket     string            `yaml:"socket,omitempty"`         // of a container's runtime
	Method     string            `yaml:"method,omitempty"`         // GET (the default) or HEAD
	Header     map[string]string `yaml:"header,omitempty"`
	ServerName string            `yaml:"server_name,omitempty"`
	CABundle   string            `yaml:"ca_bundle,omitempty"` // a path on the machine that measures
	Resolve    string            `yaml:"resolve,omitempty"`
	Resolver   string            `yaml:"resolver,omitempty"`

	Pass *diag.CheckRule `yaml:"pass,omitempty"` // what must hold, else it fails
	Warn *diag.CheckRule `yaml:"warn,omitempty"` // what should hold, else it warns
}

// CheckStep is what to do about a failing check.
type CheckStep struct {
	Text    string `yaml:"text"`
	Command string `yaml:"command,omitempty"` // to paste; nothing runs it
}

const (
	defaultCheckBudget  = 5 * time.Second
	defaultChecksBudget = 10 * time.Second
	defaultCheckOutput  = 64 << 10
	mostCheckOutput     = 512 << 10
	mostChecks          = 64
)

// AllChecks returns the time that all checks of a walk share.
func (p *Profile) AllChecks() time.Duration { return cmp.Or(p.ChecksBudget, defaultChecksBudget) }

// DeclaredCheck is a check as a plan has it, with its hop.
type DeclaredCheck struct {
	ID    diag.HopID
	Check *diag.Check
}

// DeclaredChecks returns the checks by name.
func (p *Profile) DeclaredChecks() []DeclaredCheck {
	all := make([]DeclaredCheck, 0, len(p.Checks))
	for _, name := range slices.Sorted(maps.Keys(p.Checks)) {
		c := p.Checks[name]
		all = append(all, DeclaredCheck{diag.HopID("x." + name), c.declared(name)})
	}
	return all
}

// runsCommands reports whether a check runs a program.
func (p *Profile) runsCommands() bool {
	for _, c := range p.Checks {
		if c.Use != "" || len(c.Command) > 0 {
			return true
		}
	}
	return false
}

// withHop adds a hop to a list that may have it.
func withHop(ids []diag.HopID, id diag.HopID) []diag.HopID {
	if slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}

// declared fills in the defaults.
func (c Check) declared(name string) *diag.Check {
	row, _ := diag.LookupCheck(c.Use)
	out := &diag.Check{
		Title: cmp.Or(c.Title, row.Title, "the check "+name+" passes"), From: cmp.Or(c.From, "node"),
		Owner: cmp.Or(c.Owner, row.Owner, "node runtime"), Use: c.Use, Exit: c.Exit,
		LimitMS: cmp.Or(c.Budget, defaultCheckBudget).Milliseconds(), Pass: c.Pass, Warn: c.Warn,
	}
	for _, s := range c.Steps {
		out.Steps = append(out.Steps, diag.NextStep{Text: s.Text, Command: s.Command})
	}
	out.ExplainedBy = slices.Clone(c.ExplainedBy)
	if out.From == "node" {
		out.ExplainedBy = withHop(out.ExplainedBy, diag.HopNodeOpsAccess)
	}
	if argv := c.argv(row); len(argv) > 0 {
		out.Protocol = cmp.Or(c.Protocol, row.Protocol, diag.ProtocolExit)
		out.Request = diag.Request{Op: diag.OpCommand, Command: &diag.Program{
			Argv: argv, As: c.As, LimitMS: out.LimitMS, Most: cmp.Or(c.Output, defaultCheckOutput),
		}}
		return out
	}
	out.Request = diag.Request{Op: c.Probe, Target: c.Target, Match: c.Arguments, Socket: c.Socket, Method: c.Method,
		Header: c.Header, ServerName: c.ServerName, CABundle: c.CABundle, Resolve: c.Resolve, Resolver: c.Resolver}
	if c.From != "operator" {
		out.Request.View = diag.ViewHost
	}
	for _, rule := range []*diag.CheckRule{c.Pass, c.Warn} {
		if rule == nil || c.Probe != diag.OpHTTP {
			continue
		}
		for path := range rule.Field {
			if out.Request.Extract == nil {
				out.Request.Extract = map[string]string{}
			}
			out.Request.Extract[path] = path
		}
	}
	return out
}

// argv is the check's command, or the catalogue's.
func (c Check) argv(row diag.CheckRow) []string {
	if len(c.Command) > 0 {
		return c.Command
	}
	return row.Argv
}

// checkOps are the measurements that a check may make.
var checkOps = []diag.Op{diag.OpDNS, diag.OpTCP, diag.OpTLS, diag.OpHTTP, diag.OpWS, diag.OpDisk, diag.OpFile,
	diag.OpUnit, diag.OpProcess, diag.OpContainer, diag.OpClock}

// secretHeaders hold secrets, which a profile does not.
func secretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"authorization", "cookie", "token", "secret", "key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
