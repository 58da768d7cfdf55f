package step

import (
	"slices"
	"strings"
)

// Change is one change of one place; exactly one of the pointers is set. The set is closed: what is not here cannot be
// reverted without help, so it cannot be done.
type Change struct {
	Block  *Block   `json:"block,omitempty"`
	File   *File    `json:"file,omitempty"`
	Mount  *Mount   `json:"mount,omitempty"`
	Unit   *Unit    `json:"unit,omitempty"`
	Pause  *Pause   `json:"pause,omitempty"`
	Hold   *Hold    `json:"hold,omitempty"`
	Run    *Run     `json:"run,omitempty"`
	Notify []Notify `json:"notify,omitempty"` // the unit that reads the place: notified after change and undo
}

// Notify notifies a running unit that a place has changed. One that does not run is left alone.
type Notify struct {
	Unit string `json:"unit"`
	Verb string `json:"verb"` // reload | restart
}

// File puts a file, a link or nothing at a path. What was there is parked beside it by RENAME_EXCHANGE, so it comes
// back with its inode, times and attributes. Folders on the way are made, and removed again when they are empty.
type File struct {
	Path   string `json:"path"`
	Text   string `json:"text,omitempty"`
	Mode   uint32 `json:"mode,omitempty"` // 0 = as the parked file's, else 0644
	UID    *int   `json:"uid,omitempty"`  // nil = as the parked file's, else root
	GID    *int   `json:"gid,omitempty"`
	Link   string `json:"link,omitempty"`   // a symbolic link to this, instead of text
	Absent bool   `json:"absent,omitempty"` // nothing is there while the drill runs
	Secret bool   `json:"secret,omitempty"` // Text is not shown in plans and states, and lies on no disk by itself
	SHA256 string `json:"sha256,omitempty"` // of a secret Text that is kept elsewhere, see Seal; hex
	Yields bool   `json:"yields,omitempty"` // a process that replaces it does what the drill is about: no conflict, theirs stays
}

// Mount lays something over a path, on the machine or only as one unit sees it.
type Mount struct {
	Target   string `json:"target"`
	Unit     string `json:"unit,omitempty"` // lay it in the mount namespace of this unit's main process, and nowhere else
	Text     string `json:"text,omitempty"` // a file with this text, or
	Source   string `json:"source,omitempty"`
	Tmpfs    *Tmpfs `json:"tmpfs,omitempty"`
	Mode     uint32 `json:"mode,omitempty"` // of the text's file; 0 = 0644
	Writable bool   `json:"writable,omitempty"`
	Secret   bool   `json:"secret,omitempty"` // as a file's
	SHA256   string `json:"sha256,omitempty"`
}

// Tmpfs is a file system that is small on purpose.
type Tmpfs struct {
	Bytes  int64 `json:"bytes"`
	Inodes int64 `json:"inodes,omitempty"` // 0 = the kernel's choice
}

// Unit gives a unit a drop-in, a state, or both. Drop-ins lie in /run and sort after every other one.
type Unit struct {
	Unit   string `json:"unit"`
	DropIn string `json:"drop_in,omitempty"`
	State  string `json:"state"` // restarted | stopped | frozen
	// a stop of it by another program is what the drill is about: no conflict, undo starts it
	Yields bool `json:"yields,omitempty"`
}

// States of a unit while a drill runs.
const (
	Restarted = "restarted" // so that it runs with the drop-in
	Stopped   = "stopped"
	Frozen    = "frozen" // by systemd's freezer
)

// Pause stops the main process of a unit by SIGSTOP. The watchdog keeps it.
type Pause struct {
	Unit string `json:"unit"`
}

// Hold fills a file system with unnamed files that die with the watchdog; exactly one of the last three sets how far.
type Hold struct {
	Dir     string `json:"dir"`               // a folder of the file system
	Leave   *int64 `json:"leave,omitempty"`   // bytes that stay free, at most; 0 = to the last byte
	Percent int    `json:"percent,omitempty"` // of it in use, at the least
	Inodes  bool   `json:"inodes,omitempty"`  // until no file can be made
}

// Run is for a state that only a program can set. State prints it. Undo is run only while it prints Injected.
type Run struct {
	Place    string `json:"place"` // names what is set: "redis:maxclients"
	Tier     string `json:"tier"`  // T2, or T3 when it outlives a reboot
	State    Exec   `json:"state"`
	Do       Exec   `json:"do"`
	Undo     Exec   `json:"undo"`
	Injected string `json:"injected"` // what State prints once Do has worked, without white space around it
	// Late reports that State needs a change before it in its step, as a file with a token: it is read first when that is
	// made.
	Late bool `json:"late,omitempty"`
}

// Exec is a program with its arguments: never a shell's text.
type Exec struct {
	Argv  []string `json:"argv"` // the first is an absolute path
	Stdin string   `json:"stdin,omitempty"`
	Exits []int    `json:"exits,omitempty"` // codes that are fine; empty = 0
}

// Fine reports whether code is one of those that are fine.
func (e Exec) Fine(code int) bool {
	return (len(e.Exits) == 0 && code == 0) || slices.Contains(e.Exits, code)
}

// kinds is the closed set, in the order of Change's fields.
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

// Kind names the one kind that is set; "" if it is not exactly one.
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

// Held reports whether the change lasts only while the watchdog keeps it.
func (c Change) Held() bool { return c.Pause != nil || c.Hold != nil }

// Tier is the best that the change by itself can promise.
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

// volatile reports whether a path lies where a reboot leaves nothing.
func volatile(p string) bool {
	return strings.HasPrefix(p, "/run/") || strings.HasPrefix(p, "/dev/shm/")
}

// wayIn is the unit by which operators get to the machine, if the change stops it, or has it run otherwise: no undo but
// the machine's own can be sent then. "" if it does not.
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

// Place names what is changed, so that two changes of the same place can be detected.
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

// Names reports whether c is a drop-in that names the file which other makes: without it the unit cannot be started.
func (c Change) Names(other Change) bool {
	return c.Unit != nil && other.File != nil && strings.Contains(c.Unit.DropIn, other.File.Path)
}
