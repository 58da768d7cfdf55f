package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// serviceParams are the parameters of service-stop.
type serviceParams struct {
	Units []string `yaml:"units,flow" json:"units" jsonschema:"minItems=1"`
}

// serviceStop stops services and keeps them stopped. It uses a drop-in, since a runtime mask has no effect on a
// unit file in /etc.
func serviceStop() Kind {
	return kind(Kind{
		Name: "service-stop", Title: "stop services and keep them stopped", Tier: step.TierBoot,
		On: []Role{RoleNode, RolePlatform, RolePeer},
		About: "A drop-in makes starting them fail, then they are stopped, in the order given. A unit that the machine has " +
			"not is passed over, as long as one of them runs.",
	}, func(p *serviceParams) []problem {
		return required("units", len(p.Units) > 0)
	}, func(p *serviceParams, _ *Case) Questions {
		return Questions{Tools: []string{"systemctl"}, Units: unitsOf(p.Units)}
	}, func(p *serviceParams, c *Case) (Made, *step.Refusal) {
		made := Made{}
		var stopped []string
		for _, u := range unitsOf(p.Units) {
			f := c.Machine.Units[u]
			u = cmp.Or(f.ID, u)
			if !f.Loaded || f.Active != "active" || slices.Contains(stopped, u) {
				continue
			}
			stopped = append(stopped, u)
			made.Changes = append(made.Changes, step.Change{Unit: &step.Unit{Unit: u, State: step.Stopped,
				DropIn: "[Unit]\nAssertPathExists=" + c.runPath("never-there") + "\n"}})
			if c.tool("systemctl") != "" {
				made.Verify = append(made.Verify, step.Check{Name: u + " does not run", Within: verifyWithin,
					Exec: step.Exec{Argv: []string{c.tool("systemctl"), "is-active", u}, Exits: []int{3}}})
			}
		}
		if len(stopped) == 0 {
			return Made{}, step.Refuse(step.RefusedUnsupported, "none of %s runs on %s", strings.Join(p.Units, ", "),
				c.Machine.ID)
		}
		made.Title = strings.Join(stopped, ", ") + " stopped"
		return made, nil
	})
}

func unitsOf(names []string) []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = unitOf(n)
	}
	return all
}

// freezeParams are the parameters of service-freeze.
type freezeParams struct {
	Unit string `yaml:"unit" json:"unit"`
	How  string `yaml:"how,omitempty" json:"how,omitempty" jsonschema:"enum=signal,enum=freezer" jsonschema_description:"signal (default): the main process, as long as the watchdog lives; freezer: all processes, by systemd"`
}

// serviceFreeze freezes a service.
func serviceFreeze() Kind {
	return kind(Kind{
		Name: "service-freeze", Title: "freeze a service", Tier: step.TierWatchdog,
		On:    []Role{RoleNode, RolePlatform, RolePeer},
		About: "SIGSTOP, kept by the watchdog (T1), or systemd's freezer (T2, needs the unified cgroup hierarchy).",
	}, func(p *freezeParams) []problem {
		return append(required("unit", p.Unit != ""), optional("how", p.How, "signal", "freezer")...)
	}, func(p *freezeParams, _ *Case) Questions {
		return Questions{Tools: []string{"grep", "systemctl"}, Units: []string{unitOf(p.Unit)}}
	}, func(p *freezeParams, c *Case) (Made, *step.Refusal) {
		unit := unitOf(p.Unit)
		if _, no := c.needUnit(unit); no != nil {
			return Made{}, no
		}
		made := Made{Title: unit + " is frozen"}
		if p.How == "freezer" {
			if !c.Machine.Cgroup2 {
				return Made{}, step.Refuse(step.RefusedUnsupported, "%s has no unified cgroup hierarchy, and so no freezer for %s",
					c.Machine.ID, unit)
			}
			made.Changes = []step.Change{{Unit: &step.Unit{Unit: unit, State: step.Frozen}}}
			made.Verify = []step.Check{{Name: unit + " is frozen", Within: verifyWithin, Has: "frozen",
				Exec: step.Exec{Argv: []string{c.tool("systemctl"), "show", "-P", "FreezerState", unit}}}}
			return made, c.needTools("systemctl")
		}
		made.Changes = []step.Change{{Pause: &step.Pause{Unit: unit}}}
		made.Verify = []step.Check{{Name: "its process is in state T", Unit: unit, Within: verifyWithin,
			Exec: step.Exec{Argv: []string{c.tool("grep"), "-q", "^State:.T", "/proc/" + step.MainPID + "/status"}}}}
		return made, c.needTools("grep")
	})
}

// execParams are the parameters of service-exec.
type execParams struct {
	Unit    string   `yaml:"unit" json:"unit"`
	How     string   `yaml:"how" json:"how" jsonschema:"enum=crash-loop,enum=incompatible,enum=program,enum=slow-start,enum=slow-stop" jsonschema_description:"what is started in its place: a program that ends at once, one for another machine, or program; slow-start: itself, after a delay; slow-stop: itself, and its stop takes a delay. A stop by another program is then what the drill is about, and undo starts it"`
	Program string   `yaml:"program,omitempty" json:"program,omitempty" jsonschema_description:"a program that lies on the machine"`
	Args    []string `yaml:"args,omitempty,flow" json:"args,omitempty" jsonschema_description:"of program, each as it is here"`
	Delay   Duration `yaml:"delay,omitempty" json:"delay,omitempty" jsonschema_description:"of slow-start and slow-stop"`
}

// slow reports whether the original program runs, only slowly.
func (p *execParams) slow() bool { return p.How == "slow-start" || p.How == "slow-stop" }

// foreignProgram is the header of a program for ppc64, which no node can run.
var foreignProgram = "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00\x15\x00\x01\x00\x00\x00" +
	strings.Repeat("\x00", 40)

// serviceExec makes a service start another program.
func serviceExec() Kind {
	return kind(Kind{
		Name: "service-exec", Title: "make a service start another program", Tier: step.TierBoot,
		On:    []Role{RoleNode, RolePlatform, RolePeer},
		About: "A drop-in over ExecStart=, and a restart. The installed program stays as it is.",
	}, func(p *execParams) []problem {
		found := slices.Concat(required("unit", p.Unit != ""),
			word("how", p.How, "crash-loop", "incompatible", "program", "slow-start", "slow-stop"),
			want("program", (p.How == "program") == (p.Program != ""), "belongs to how: program, and only there"),
			want("args", p.How == "program" || len(p.Args) == 0, "belongs to how: program, and only there"),
			want("delay", p.slow() == (p.Delay > 0), "belongs to how: slow-start or slow-stop, and only there"))
		if p.Program != "" {
			found = slices.Concat(found, absolute("program", p.Program),
				want("program", !strings.ContainsFunc(p.Program, notPlain), "want a path of letters, digits and /._+-"))
		}
		for i, arg := range p.Args {
			found = append(found, want(fmt.Sprintf("args[%d]", i), !strings.ContainsFunc(arg, unicode.IsControl),
				"is more than one line")...)
		}
		return found
	}, func(p *execParams, _ *Case) Questions {
		q := Questions{Tools: []string{"false", "sleep", "systemctl"}, Units: []string{unitOf(p.Unit)},
			Files: []string{"/dev/shm"}}
		if p.Program != "" {
			q.Files = append(q.Files, p.Program)
		}
		return q
	}, makeExec)
}

func makeExec(p *execParams, c *Case) (Made, *step.Refusal) {
	unit := unitOf(p.Unit)
	if _, no := c.needUnit(unit); no != nil {
		return Made{}, no
	}
	made := Made{Scope: step.Scope{Units: []string{unit}}}
	show := func(property, has string) step.Check {
		return step.Check{Name: unit + " has " + property + " " + has, Within: verifyWithin, Has: has,
			Exec: step.Exec{Argv: []string{c.tool("systemctl"), "show", "-P", property, unit}}}
	}
	line, check := "", step.Check{}
	switch p.How {
	case "crash-loop":
		line, made.Title = c.tool("false"), unit+" ends as soon as it is started"
		if no := c.needTools("false"); no != nil {
			return Made{}, no
		}
		check = show("ExecMainStatus", "1")
	case "incompatible":
		if c.Machine.Files["/dev/shm"].Kind != "dir" {
			return Made{}, step.Refuse(step.RefusedUnsupported, "%s has no /dev/shm to put a program into", c.Machine.ID)
		}
		line = "/dev/shm/gpuaasctl-" + c.Run + "-" + c.Step
		made.Title = unit + " starts a program for another machine"
		made.Changes = []step.Change{{File: &step.File{Path: line, Text: foreignProgram, Mode: 0o755}}}
		check = show("ExecMainStatus", "203")
	case "slow-start", "slow-stop":
		if no := c.needTools("sleep"); no != nil {
			return Made{}, no
		}
		verb := strings.TrimPrefix(p.How, "slow-")
		made.Title = unit + " takes " + p.Delay.String() + " to " + verb
		setting := map[string]string{"start": "ExecStartPre", "stop": "ExecStop"}[verb]
		line = setting + "=" + c.tool("sleep") + " " + strconv.FormatFloat(p.Delay.Std().Seconds(), 'f', -1, 64)
		check = show(setting, c.tool("sleep"))
	default:
		if _, no := c.needFile(p.Program); no != nil {
			return Made{}, no
		}
		line, made.Title = p.Program, unit+" runs "+p.Program
		for _, arg := range p.Args {
			line += " " + execWord(arg)
		}
		check = show("ExecStart", p.Program)
	}
	if !p.slow() {
		line = "ExecStart=\nExecStart=" + line
	}
	made.Changes = append(made.Changes,
		step.Change{Unit: &step.Unit{Unit: unit, DropIn: "[Service]\n" + line + "\n", State: step.Restarted,
			Yields: p.How == "slow-stop"}})
	made.Verify = []step.Check{check}
	return made, c.needTools("systemctl")
}

// notPlain reports whether a program's path has a character that systemd might interpret.
func notPlain(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._+-", r)
}

// execWord quotes one argument of ExecStart= so that the program gets it literally, as one word without variables
// and specifiers.
func execWord(arg string) string {
	arg = strings.NewReplacer("%", "%%", "$", "$$").Replace(arg)
	if arg != "" && !strings.ContainsAny(arg, " \"'\\;") {
		return arg
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(arg) + `"`
}
