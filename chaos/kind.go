package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Kind is one type of fault. Ask and Make are pure; in between, the machine's facts are read once.
type Kind struct {
	Name  string
	Title string
	Tier  string // the best undo that it promises; a target may allow less
	On    []Role
	About string // one paragraph for people: effect and requirements

	needs []Need // of the environment, whatever the parameters are

	params func() any                                 // returns a new, empty parameter struct
	check  func(p any) []problem                      // returns the problems of the parameters by themselves
	ask    func(p any, c *Case) Questions             // what must be known
	make   func(p any, c *Case) (Made, *step.Refusal) // what follows
}

// Kinds lists every kind of fault.
func Kinds() []Kind {
	return []Kind{
		netBlock(), dnsBreak(), hostsKind(), fileKind(), configKind(), envKind(), caKind(), certKind(),
		serviceStop(), serviceFreeze(), serviceExec(), diskKind(), userMissing(), shellKind(), signingKey(), clone(),
		tasksKind(), guestAgent(), releaseKind(), gpuFake(),
	}
}

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Params returns an empty parameter struct of the kind. Its fields and tags define which parameters a file may
// have.
func (k Kind) Params() any { return k.params() }

// kind wraps typed functions in the table's untyped ones.
func kind[P any](k Kind, check func(*P) []problem, ask func(*P, *Case) Questions,
	make func(*P, *Case) (Made, *step.Refusal)) Kind {
	k.params = func() any { return new(P) }
	k.check = func(p any) []problem { return check(p.(*P)) }
	k.ask = func(p any, c *Case) Questions { return ask(p.(*P), c) }
	k.make = func(p any, c *Case) (Made, *step.Refusal) { return make(p.(*P), c) }
	return k
}

// Case is one fault on one machine: its place in the run, and the known facts.
type Case struct {
	Run     string
	Step    string
	Profile profile.Profile
	Values  map[string]string // variables
	Machine *Machine
	minted  func(Mint) Material
}

// Questions are the facts about a machine that a fault needs before it can be planned.
type Questions struct {
	Tools []string // programs by name
	Names []string // to be looked up there
	Units []string
	Files []string // kind, mode, digest, target of links
	Texts []string // the same, and the content
	Users []string
	Mints []Mint
}

// Made is the planned form of a fault on one machine.
type Made struct {
	Title   string
	Changes []step.Change
	Verify  []step.Check
	Scope   step.Scope // what a fingerprint should cover in addition to its defaults
}

// runPath returns the path of a file for this fault in /run, which a reboot clears.
func (c *Case) runPath(name string) string {
	return "/run/gpuaasctl-" + c.Run + "-" + c.Step + "-" + name
}

// unit returns the unit that sees a fault, by default the agent's.
func (c *Case) unit(name string) string { return unitOf(cmp.Or(name, c.Profile.Agent.Unit)) }

// tool returns a program's path on the machine.
func (c *Case) tool(name string) string { return string(c.Machine.Tools[name]) }

// needTools refuses a machine that lacks one of the programs.
func (c *Case) needTools(names ...string) *step.Refusal {
	for _, n := range names {
		if c.tool(n) == "" {
			return step.Refuse(step.RefusedTools, "%s has no %s", c.Machine.ID, n)
		}
	}
	return nil
}

// needUnit refuses a machine that lacks the unit, or on which it does not run.
func (c *Case) needUnit(name string) (Unit, *step.Refusal) {
	u := c.Machine.Units[name]
	switch {
	case !u.Loaded:
		return u, step.Refuse(step.RefusedUnsupported, "%s has no unit %s", c.Machine.ID, name)
	case u.Active != "active" || u.PID == 0:
		return u, step.Refuse(step.RefusedUnsupported, "%s does not run on %s (%s): a drill would not change anything", name,
			c.Machine.ID, cmp.Or(u.Active, "inactive"))
	}
	return u, nil
}

// needFile refuses a machine that lacks the file, and returns its real path: an overlay on a link covers the
// link's target.
func (c *Case) needFile(path string) (File, *step.Refusal) {
	f := c.Machine.Files[path]
	if f.Kind != "file" {
		return f, step.Refuse(step.RefusedUnsupported, "%s has no file %s (%s)", c.Machine.ID, path,
			cmp.Or(f.Kind, "nothing is there"))
	}
	f.Path = cmp.Or(f.Path, path)
	return f, nil
}

func (c *Case) needUser(name string) (User, *step.Refusal) {
	u, ok := c.Machine.Users[name]
	if !ok || u.UID < 0 {
		return u, step.Refuse(step.RefusedUnsupported, "%s has no user %s", c.Machine.ID, name)
	}
	return u, nil
}

// unitOf completes a unit's name: "nginx" is nginx.service.
func unitOf(name string) string {
	if name == "" || (strings.Contains(name, ".") &&
		slices.Contains([]string{"service", "socket", "timer", "path", "target"},
			name[strings.LastIndexByte(name, '.')+1:])) {
		return name
	}
	return name + ".service"
}

// required rejects an empty value of a mandatory parameter.
func required(key string, given bool) []problem { return want(key, given, "is missing") }

// want rejects a parameter unless a condition holds.
func want(key string, holds bool, text string) []problem {
	if holds {
		return nil
	}
	return []problem{{Key: key, Text: text}}
}

// wholeSeconds rejects the duration of what the platform ends by itself, if it is not of whole seconds.
func wholeSeconds(key string, d Duration) []problem {
	return want(key, d > 0 && d.Std() <= time.Hour && d.Std()%time.Second == 0, "want whole seconds, at most 1h")
}

// optional is word for a parameter that may be left out.
func optional(key, value string, words ...string) []problem {
	if value == "" {
		return nil
	}
	return word(key, value, words...)
}

// word rejects a value that is not one of the listed words.
func word(key, value string, words ...string) []problem {
	if slices.Contains(words, value) {
		return nil
	}
	if value == "" {
		return []problem{{Key: key, Text: "is missing: want " + strings.Join(words, ", ")}}
	}
	return []problem{{Key: key,
		Text: fmt.Sprintf("unknown %q%s: want %s", value, strictyaml.Nearest(value, words), strings.Join(words, ", "))}}
}

// absolute rejects a path that is not absolute.
func absolute(key, value string) []problem {
	if strings.HasPrefix(value, "/") && !strings.Contains(value, "/../") && !strings.HasSuffix(value, "/") &&
		len(value) > 1 {
		return nil
	}
	if value == "" {
		return []problem{{Key: key, Text: "is missing"}}
	}
	return []problem{{Key: key, Text: fmt.Sprintf("want an absolute path, not %q", value)}}
}
