package chaos

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
	"github.com/gpuaas/gpuaasctl/profile"
)

// maxNodes bounds how many nodes one drill may break: more than that is an outage.
const maxNodes = 16

var scenarioID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`) })

// checker collects the problems of a scenario that was decoded without errors.
type checker struct {
	s     *Scenario
	found []problem
}

func (c *checker) bad(key, format string, args ...any) {
	c.found = append(c.found, problem{Key: key, Text: fmt.Sprintf(format, args...)})
}

// want reports a problem unless something holds.
func (c *checker) want(holds bool, key, format string, args ...any) {
	if !holds {
		c.bad(key, format, args...)
	}
}

// settle checks everything that does not depend on a machine.
func (s *Scenario) settle() []problem {
	c := &checker{s: s}
	c.metadata()
	c.target()
	c.guards()
	c.faults()
	c.probe("verifyInjected", s.VerifyInjected.Probe)
	if len(s.VerifyInjected.Control.Probe) == 0 {
		c.bad("verifyInjected.control",
			"is missing: without something that must still work, a probe that fails for another reason proves nothing")
	} else {
		c.probe("verifyInjected.control", s.VerifyInjected.Control)
	}
	c.expect()
	c.recovery()
	c.tellApart()
	c.want(len(s.Evidence) > 0, "evidence", "is missing: want at least one thing to look at")
	for i, e := range s.Evidence {
		c.line(fmt.Sprintf("evidence[%d]", i), e)
	}
	return c.found
}

func (c *checker) metadata() {
	m := c.s.Metadata
	if !scenarioID().MatchString(m.ID) || len(m.ID) > 48 {
		c.bad("metadata.id", "%q: want lower-case letters, digits and dashes, at most 48", m.ID)
	} else if base := strings.TrimSuffix(filepath.Base(c.s.File), ".yaml"); base != m.ID && base != "-" {
		c.bad("metadata.id", "%q is not the file's name %q", m.ID, base)
	}
	for key, v := range map[string]string{"title": m.Title, "owner": m.Owner, "runbook": m.Runbook} {
		c.want(strings.TrimSpace(v) != "", "metadata."+key, "is missing")
		c.line("metadata."+key, v)
	}
	c.word("metadata.severity", m.Severity, string(diag.P0), string(diag.P1), string(diag.P2))
}

// line rejects a value that does not fit into one line of a table.
func (c *checker) line(key, v string) {
	c.want(!strings.ContainsAny(v, "\n\t"), key, "is more than one line")
}

func (c *checker) word(key, value string, words ...string) {
	c.found = append(c.found, word(key, value, words...)...)
}

func (c *checker) target() {
	t := c.s.Target
	c.word("target.role", string(t.Role), string(RoleNode), string(RolePlatform), string(RolePeer))
	c.want(1 <= t.MaxNodes && t.MaxNodes <= maxNodes, "target.maxNodes", "%d targets: want 1 to %d", t.MaxNodes, maxNodes)
}

func (c *checker) guards() {
	g := c.s.Guards
	switch ttl := g.TTL.Std(); {
	case ttl == 0:
		c.bad("guards.ttl", "is missing: a fault without an end is an outage")
	case ttl < step.MinTTL || ttl > step.MaxTTL:
		c.bad("guards.ttl", "%s is not between %s and %s", g.TTL, Duration(step.MinTTL), Duration(step.MaxTTL))
	case g.Lease != 0 && (g.Lease.Std() < 2*step.RenewEvery || g.Lease > g.TTL):
		c.bad("guards.lease", "%s is not between %s and the ttl: it is renewed every %s", g.Lease,
			Duration(2*step.RenewEvery), Duration(step.RenewEvery))
	}
	if _, err := profile.ParseWindow(g.Window); g.Window != "" && err != nil {
		c.bad("guards.window", "%v", err)
	}
	c.hops("guards.stopIf", g.StopIf)
	for _, h := range g.StopIf {
		c.want(!slices.Contains(c.s.Expect.Blame.Hop, h), "guards.stopIf",
			"%s is what the drill is to find: it would end as soon as it succeeds", h)
	}
}

func (c *checker) faults() {
	c.want(len(c.s.Faults) > 0, "faults", "is missing: nothing would be broken")
	ids := map[string]bool{}
	for i, f := range c.s.Faults {
		key := fmt.Sprintf("faults[%d]", i)
		if !step.ValidName(f.ID) {
			c.bad(key+".id", "%q: want lower-case letters, digits and dashes, at most 24", f.ID)
		} else if ids[f.ID] {
			c.bad(key+".id", "%q is the id of another fault", f.ID)
		}
		ids[f.ID] = true
		c.want(f.At == 0 || (f.At > 0 && f.At < c.s.Guards.TTL), key+".at", "%s is not within the ttl", f.At)
		c.fault(key, f)
	}
}

func (c *checker) fault(key string, f Fault) {
	k, ok := KindOf(f.Kind)
	if !ok {
		c.bad(key+".kind", "unknown kind %q%s: gpuaasctl chaos list --kinds lists them", f.Kind,
			strictyaml.Nearest(f.Kind, kindNames()))
		return
	}
	on := c.s.On(f)
	c.want(slices.Contains(k.On, on), key+".on", "%s cannot be made on %s: want %s", f.Kind,
		cmp.Or(string(on), "no machine"), orList(k.On))
	params := k.params()
	found := f.Params.decode(params, key+".params", func(text string) (string, error) { return fill(text, samples()) })
	if len(found) == 0 {
		for _, p := range k.check(params) {
			p.Key = strictyaml.Under(key+".params", p.Key)
			found = append(found, p)
		}
	}
	c.found = append(c.found, found...)
}

func kindNames() (names []string) {
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// notProbes returns the programs that prove nothing by themselves, with the reason.
func notProbes() map[string]string {
	m := map[string]string{}
	for _, sh := range [...]string{"sh", "bash", "dash", "zsh"} {
		m[sh] = "want a program with its arguments, not a shell"
	}
	for _, own := range [...]string{"gpuaasctl", "gpuaas-agent", "gpuaas-fault", "gpuaas-platform"} {
		m[own] = "want a standard tool of the machine: a drill must not be proved by what it tests"
	}
	return m
}

// wrappers are programs that start another program, named after their own arguments.
var wrappers = [...]string{
	"busybox", "env", "ionice", "nice", "nohup", "nsenter", "setpriv", "setsid", "stdbuf", "sudo", "taskset", "timeout",
	"unshare", "xargs",
}

// tellers are wrappers whose program cannot be located, since plain words such as a user precede it or, as with su
// -c, one word holds a whole command line.
var tellers = [...]string{"chroot", "flock", "runuser", "su", "systemd-run"}

// started returns the words of a probe that may name a program that it starts: the first word and, after a
// wrapper, all words up to the first that is not an option, a variable, a number or a wrapper. Programs that other
// tools start (find -exec, awk) are not detected.
func started(argv []string) []string {
	for i, w := range argv {
		name := path.Base(w)
		if slices.Contains(tellers[:], name) {
			return append(argv[:i:i], strings.Fields(strings.Join(argv[i:], " "))...)
		}
		// sudo -u USER
		argument := i > 0 && (w == "" || strings.ContainsAny(w[:1], "-0123456789") || strings.Contains(w, "=") ||
			argv[i-1] == "-u")
		if !argument && !slices.Contains(wrappers[:], name) {
			return argv[:i+1]
		}
	}
	return argv
}

// notProbe returns the word of a probe that makes it prove nothing, and why.
func notProbe(argv []string) (word, why string) {
	if path.Base(argv[0]) == "." {
		return argv[0], "is missing"
	}
	for _, w := range started(argv) {
		if why, no := notProbes()[path.Base(w)]; no {
			return w, why
		}
	}
	return "", ""
}

func (c *checker) probe(key string, p Probe) {
	if len(p.Probe) == 0 {
		c.bad(key+".probe", "is missing: want a program with its arguments")
	} else if word, why := notProbe(p.Probe); why != "" {
		c.bad(key+".probe", "%s: %s", word, why)
	} else {
		c.here(key, p)
		c.material(key, p)
	}
	for i, a := range append([]string{p.View}, p.Probe...) {
		if _, err := fill(a, samples()); err != nil {
			c.bad(key+".probe", "argument %d: %v", i, err)
		}
	}
	c.word(key+".from", string(p.From), string(RoleNode), string(RolePlatform), string(RolePeer), string(RoleOperator))
	c.want(p.View == "" || p.From != RoleOperator, key+".view", "the operator's machine has no such unit")
	c.want(p.Within > 0, key+".within", "is missing")
	for _, text := range [...]string{p.Expect.Has, p.Expect.Lacks} {
		if _, err := fill(text, samples()); err != nil {
			c.bad(key+".expect", "%v", err)
		}
	}
}

// tellApart rejects probes that cannot distinguish the fault from its absence: the control probe must pass in both
// cases.
func (c *checker) tellApart() {
	injected, control, proof := c.s.VerifyInjected.Probe, c.s.VerifyInjected.Control, c.s.Recovery.Proof
	switch {
	case len(proof.Probe) == 0 || len(control.Probe) == 0:
	case control.same(injected):
		c.bad("verifyInjected.control", "is the probe itself: want something that holds with the fault and without it")
	case proof.same(control):
		c.bad("recovery.proof", "is the control: it holds while the fault is there")
	case proof.same(injected):
		c.bad("recovery.proof", "is the probe by which the fault is seen: it holds while the fault is there")
	}
}

// same reports whether two probes are equal except for their timeout.
func (p Probe) same(o Probe) bool {
	return slices.Equal(p.Probe, o.Probe) && p.From == o.From && p.View == o.View &&
		slices.Equal(p.Expect.Exit, o.Expect.Exit) && p.Expect.Has == o.Expect.Has && p.Expect.Lacks == o.Expect.Lacks
}

func (c *checker) recovery() {
	r := c.s.Recovery
	c.want(r.Green >= 2, "recovery.green", "%d walks in a row: want at least 2, since one may be luck", r.Green)
	c.want(r.Within > 0 && r.Within.Std() <= time.Hour, "recovery.within", "want a time up to 1h")
	if len(r.Proof.Probe) == 0 {
		c.bad("recovery.proof", "is missing: a drill must prove that the fault is over")
	} else {
		c.probe("recovery.proof", r.Proof)
	}
	if d := r.Decision; d != nil {
		if _, err := fill(d.Path, samples()); err != nil {
			c.bad("recovery.decision.path", "%v", err)
		} else if !strings.HasPrefix(d.Path, "/") || strings.TrimSpace(d.Reason) == "" {
			c.bad("recovery.decision", "want a path of the API, and the reason that its audit gets")
		}
	}
	c.want(r.Residue == none, "recovery.residue", "want %s: there is nothing else that a drill may leave", none)
	for i, a := range r.AllowedChanges {
		key := fmt.Sprintf("recovery.allowedChanges[%d]", i)
		c.word(key+".class", string(a.Class), step.Texts(step.Classes())...)
		if a.Key == "" || a.Why == "" {
			c.bad(key, "want class, key and why")
		} else if _, err := path.Match(a.Key, ""); err != nil {
			c.bad(key+".key", "%v", err)
		}
	}
}
