package step

import (
	"slices"
	"strings"
)

// Change is one change of one place; exactly one of the pointers is set. The set of kinds is closed: a change of
// another kind could not be reverted without help, so it cannot be made.
type Change struct {
	Block  *Block   `json:"block,omitempty"`
	File   *File    `json:"file,omitempty"`
	Mount  *Mount   `json:"mount,omitempty"`
	Unit   *Unit    `json:"unit,omitempty"`
	Pause  *Pause   `json:"pause,omitempty"`
	Hold   *Hold    `json:"hold,omitempty"`
	Run    *Run     `json:"run,omitempty"`
	Notify []Notify `json:"notify,omitempty"` // the unit that reads the place, notified after change and undo
}

// Notify notifies a running unit that a place has changed. A unit that is not running is left alone.
type Notify struct {
	Unit string `json:"unit"`
	Verb string `json:"verb"` // reload | restart
}

// File puts a file, a link or nothing at a path. The original is parked next to it with RENAME_EXCHANGE, so that
// it is restored with its inode, times and attributes. Missing parent folders are created, and removed again if
// they are empty.
type File struct {
	Path   string `json:"path"`
	Text   string `json:"text,omitempty"`
	Mode   uint32 `json:"mode,omitempty"` // 0 = that of the original, else 0644
	UID    *int   `json:"uid,omitempty"`  // nil = that of the original, else root
	GID    *int   `json:"gid,omitempty"`
	Link   string `json:"link,omitempty"`   // target of a symbolic link, instead of text
	Absent bool   `json:"absent,omitempty"` // nothing is at the path while the drill runs
	Secret bool   `json:"secret,omitempty"` // Text is hidden in plans and states, and not written to a disk by itself
	SHA256 string `json:"sha256,omitempty"` // hex digest of a secret Text that is stored elsewhere, see Seal
	// its replacement by another process is what the drill expects: no conflict, the new file stays
	Yields bool `json:"yields,omitempty"`
}

// Mount mounts something over a path, on the machine or only in the view of one unit.
type Mount struct {
	Target   string `json:"target"`
	Unit     string `json:"unit,omitempty"` // mount only in the namespace of this unit's main process
	Text     string `json:"text,omitempty"` // a file with this text, or
	Source   string `json:"source,omitempty"`
	Tmpfs    *Tmpfs `json:"tmpfs,omitempty"`
	Mode     uint32 `json:"mode,omitempty"` // of the file with the text; 0 = 0644
	Writable bool   `json:"writable,omitempty"`
	Secret   bool   `json:"secret,omitempty"` // as a file's
	SHA256   string `json:"sha256,omitempty"`
}

// Tmpfs is a deliberately small file system.
type Tmpfs struct {
	Bytes  int64 `json:"bytes"`
	Inodes int64 `json:"inodes,omitempty"` // 0 = the kernel's choice
}

// Unit gives a unit a drop-in, a state, or both. Drop-ins are in /run and sort after all others.
type Unit struct {
	Unit   string `json:"unit"`
	DropIn string `json:"drop_in,omitempty"`
	State  string `json:"state"` // restarted | stopped | frozen
	// a stop of it by another program is what the drill expects: no conflict, undo starts it
	Yields bool `json:"yields,omitempty"`
}

// States of a unit while a drill runs.
const (
	Restarted = "restarted" // so that it runs with the drop-in
	Stopped   = "stopped"
	Frozen    = "frozen" // by systemd's freezer
)

// Pause stops the main process of a unit with SIGSTOP. The watchdog keeps it stopped.
type Pause struct {
	Unit string `json:"unit"`
}

// Hold fills a file system with unnamed files that disappear with the watchdog; exactly one of the last three
// fields says how far.
type Hold struct {
	Dir     string `json:"dir"`               // a folder of the file system
	Leave   *int64 `json:"leave,omitempty"`   // maximum number of free bytes; 0 = fill completely
	Percent int    `json:"percent,omitempty"` // of it in use, at the least
	Inodes  bool   `json:"inodes,omitempty"`  // until no file can be made
}

// Run is for a state that only a program can set. State prints it. Undo runs only if State prints Injected.
type Run struct {
	Place    string `json:"place"` // name of the state: "redis:maxclients"
	Tier     string `json:"tier"`  // T2, or T3 when it outlives a reboot
	State    Exec   `json:"state"`
	Do       Exec   `json:"do"`
	Undo     Exec   `json:"undo"`
	Injected string `json:"injected"` // what State prints after Do has taken effect, trimmed
	// Late means that State needs an earlier change of the step, such as a file with a token: it is run only when
	// the change is made.
	Late bool `json:"late,omitempty"`
}

// Exec is a program with its arguments; it is never a shell command line.
type Exec struct {
	Argv  []string `json:"argv"` // the first is an absolute path
	Stdin string   `json:"stdin,omitempty"`
	Exits []int    `json:"exits,omitempty"` // codes that count as success; empty = 0
}

// Succeeded reports whether code counts as success.
func (e Exec) Succeeded(code int) bool {
	return (len(e.Exits) == 0 && code == 0) || slices.Contains(e.Exits, code)
}

// kinds lists the closed set, in the order of Change's fields.
func (c Change) kinds() []struct {
	name string
	v    interface{ validate() error }
	set  bool
} {
	return []struct {
		name string
		v    interface{ validate() error }
		set  bool
	}{
		{"block", c.Block, c.Block != nil}, {"file", c.File, c.File != nil}, {"mount", c.Mount, c.Mount != nil},
		{"unit", c.Unit, c.Unit != nil}, {"pause", c.Pause, c.Pause != nil}, {"hold", c.Hold, c.Hold != nil},
		{"run", c.Run, c.Run != nil},
	}
}

// Kind returns the one kind that is set; "" if not exactly one is.
func (c Change) Kind() string {
	kind := ""
	for _, k := range c.kinds() {
		if k.set && kind != "" {
			return ""
		}
		if k.set {
			kind = k.name
		}
	}
	return kind
}

// Held reports whether the change lasts only as long as the watchdog.
func (c Change) Held() bool { return c.Pause != nil || c.Hold != nil }

// Tier returns the strongest tier that the change by itself can promise.
func (c Change) Tier() string {
	switch {
	case c.Block != nil:
		return TierKernel
	case c.Held():
		return TierWatchdog
	case c.Run != nil:
		return c.Run.Tier
	case c.File != nil && !volatile(c.File.Path):
		return TierPersistent
	}
	return TierBoot
}

// volatile reports whether a reboot clears the path.
func volatile(p string) bool {
	return strings.HasPrefix(p, "/run/") || strings.HasPrefix(p, "/dev/shm/")
}

// wayIn returns the SSH server's unit if the change stops it or makes it run differently, in which case only the
// machine's own undo can be relied upon; "" otherwise.
func (c Change) wayIn() string {
	unit := ""
	switch {
	case c.Unit != nil:
		unit = c.Unit.Unit
	case c.Pause != nil:
		unit = c.Pause.Unit
	}
	stem, _, _ := strings.Cut(unit, ".")
	switch stem, _, _ = strings.Cut(stem, "@"); stem {
	case "ssh", "sshd", "dropbear":
		return unit
	}
	return ""
}

// Place identifies the changed place, so that two changes of the same place can be detected.
func (c Change) Place() string {
	switch c.Kind() {
	case "block":
		return "net:" + c.Block.describe()
	case "file":
		return "file:" + c.File.Path
	case "mount":
		if c.Mount.Unit != "" {
			return "mount:" + c.Mount.Unit + ":" + c.Mount.Target
		}
		return "mount:" + c.Mount.Target
	case "unit":
		return "unit:" + c.Unit.Unit
	case "pause":
		return "unit:" + c.Pause.Unit
	case "hold":
		return "disk:" + c.Hold.Dir
	case "run":
		return "run:" + c.Run.Place
	}
	return ""
}

// Names reports whether c is a drop-in that refers to the file of other: without that file the unit cannot start.
func (c Change) Names(other Change) bool {
	return c.Unit != nil && other.File != nil && strings.Contains(c.Unit.DropIn, other.File.Path)
}
