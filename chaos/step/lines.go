package step

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// Lines returns exactly what a machine does to make a change and to undo it, one line each, as `plan` prints it. n
// is the change's number in its step; ttl is the timeout that the kernel would get.
func (c Change) Lines(run, id string, n int, ttl time.Duration) (do, undo []string) {
	switch c.Kind() {
	case "block":
		table := Table(run, id, n)
		make, take := c.Block.Ruleset(table, ttl)
		do = append([]string{"nft -f -"}, indent(make)...)
		undo = []string{"if the table lists as injected, elements aside that the kernel has dropped:", "nft -f -"}
		undo = append(undo, indent(take)...)
	case "file":
		do, undo = c.File.lines(run, id, n)
	case "mount":
		do, undo = c.Mount.lines()
	case "unit":
		do, undo = c.Unit.lines(run, id)
	case "pause":
		do = []string{"kill -STOP the main process of " + c.Pause.Unit}
		undo = []string{"if it is the same process and still stopped: kill -CONT"}
	case "hold":
		do = []string{"the watchdog holds unnamed files in " + c.Hold.Dir + " " + c.Hold.until()}
		undo = []string{"the watchdog closes them"}
	case "run":
		do = append([]string{c.Run.Do.Line()}, indent(c.Run.Do.Stdin)...)
		undo = append([]string{fmt.Sprintf("if %s still prints %q:", c.Run.State.Line(), c.Run.Injected), c.Run.Undo.Line()},
			indent(c.Run.Undo.Stdin)...)
	}
	for _, n := range c.Notify {
		command := "systemctl try-" + map[string]string{"reload": "reload-or-restart", "restart": "restart"}[n.Verb] + " " +
			n.Unit
		do, undo = append(do, command), append(undo, command)
	}
	return do, undo
}

func indent(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = "  " + l
	}
	return lines
}

// Line returns the program with its arguments, quoted for reading and not for a shell.
func (e Exec) Line() string {
	words := make([]string, len(e.Argv))
	for i, a := range e.Argv {
		words[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`;&|<>*?()") {
			words[i] = strconv.Quote(a)
		}
	}
	return strings.Join(words, " ")
}

// Parked returns the path at which an original file is parked.
func Parked(p, run, id string, n int) string {
	return path.Join(path.Dir(p), fmt.Sprintf(".gpuaasctl-%s-%s-%d", run, id, n))
}

// DropInName returns the file name of a step's drop-in, which sorts after all others.
func DropInName(run, id string) string { return "zz-gpuaasctl-" + run + "-" + id + ".conf" }

// DropInFolder returns the folder of a unit's drop-ins that end with the boot.
func DropInFolder(unit string) string { return "/run/systemd/system/" + unit + ".d" }

func (f *File) lines(run, id string, n int) (do, undo []string) {
	parked := Parked(f.Path, run, id, n)
	switch {
	case f.Absent:
		do = []string{"rename " + f.Path + " to " + parked}
		undo = []string{"if nothing is at " + f.Path + ": rename it back"}
	case f.Link != "":
		do = []string{"put a link to " + f.Link + " at " + f.Path + ", parking what is there at " + parked}
		undo = []string{"if " + f.Path + " still is that link: exchange back, or remove it"}
	default:
		do = append([]string{"put at " + f.Path + f.mode() + ", parking what is there at " + parked + ":"},
			shown(f.Text, f.Secret)...)
		undo = []string{"if " + f.Path + " still has that content: exchange back, or remove it"}
	}
	if f.Yields {
		undo[0] += "; else what is there stays, and what is parked goes"
	}
	return do, undo
}

func (f *File) mode() string {
	if f.Mode == 0 {
		return ""
	}
	return fmt.Sprintf(", mode %04o", f.Mode)
}

func shown(text string, secret bool) []string {
	if secret {
		return []string{fmt.Sprintf("  (%d bytes, secret)", len(text))}
	}
	return indent(text)
}

func (m *Mount) lines() (do, undo []string) {
	where := m.Target
	if m.Unit != "" {
		where += ", in the mount namespace of " + m.Unit
	}
	if !m.Writable {
		where += ", read-only"
	}
	switch {
	case m.Source != "":
		do = []string{"mount --bind " + m.Source + " over " + where}
	case m.Tmpfs != nil:
		do = []string{fmt.Sprintf("mount a tmpfs of %d bytes over %s", m.Tmpfs.Bytes, where)}
		if m.Tmpfs.Inodes > 0 {
			do[0] = fmt.Sprintf("mount a tmpfs of %d bytes and %d inodes over %s", m.Tmpfs.Bytes, m.Tmpfs.Inodes, where)
		}
	default:
		do = append([]string{"mount --bind a file over " + where + ":"}, shown(m.Text, m.Secret)...)
	}
	return do, []string{"if it is the topmost mount there: umount"}
}

func (u *Unit) lines(run, id string) (do, undo []string) {
	file := DropInFolder(u.Unit) + "/" + DropInName(run, id)
	if u.DropIn != "" {
		do = append([]string{"put at " + file + ":"}, indent(u.DropIn)...)
		do = append(do, "systemctl daemon-reload")
		undo = []string{"if it still has that content: remove " + file, "systemctl daemon-reload"}
	}
	verb := map[string]string{Restarted: "restart", Stopped: "stop", Frozen: "freeze"}[u.State]
	back := map[string]string{
		Restarted: "if it ran before: systemctl restart ", Stopped: "if it ran before and does not now: systemctl start ",
		Frozen: "if it is still frozen: systemctl thaw ",
	}[u.State]
	return append(do, "systemctl "+verb+" "+u.Unit), append(undo, back+u.Unit)
}

func (h *Hold) until() string {
	switch {
	case h.Inodes:
		return "until no inode is free"
	case h.Percent > 0:
		return fmt.Sprintf("until %d%% are in use", h.Percent)
	case *h.Leave == 0:
		return "to the last byte"
	}
	return fmt.Sprintf("until %d bytes are free", *h.Leave)
}

// Texts converts words of a closed set to strings.
func Texts[T ~string](words []T) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return all
}

// Join joins words of a closed set.
func Join[T ~string](words []T, between string) string { return strings.Join(Texts(words), between) }

// Line returns a check's command, and its expected result if that is more than exit code 0.
func (c Check) Line() string {
	var all []string
	if len(c.Exec.Exits) > 0 {
		all = append(all, "exit code "+strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Exec.Exits), " ", " or "), "[]"))
	}
	if c.Has != "" {
		all = append(all, fmt.Sprintf("prints %q", c.Has))
	}
	if c.Lacks != "" {
		all = append(all, fmt.Sprintf("does not print %q", c.Lacks))
	}
	if len(all) == 0 {
		return c.Exec.Line()
	}
	return c.Exec.Line() + " -> " + strings.Join(all, ", ")
}
