// Package xid is the table of NVIDIA's error codes: XIDs, which the GPU driver writes to the kernel log, and SXIDs,
// which the NVSwitch driver does. Each row has this project's class, and each source's own view with its edition,
// because the sources disagree. The tables are generated from catalogue/*.yaml by `make catalogue`; nothing is parsed
// at run time.
//
// It judges no node: it has no events, no counts and no policy. Its callers are `gpuaasctl gpu xid` and package
// explain.
package xid

import "slices"

// Class is the consequence of a code. Each has a row in Classes.
type Class string

// Classes of XIDs.
const (
	App         Class = "app"
	Info        Class = "info"
	Sympathetic Class = "sympathetic"
	GPUReset    Class = "gpu_reset"
	Drain       Class = "drain"
	Reboot      Class = "reboot"
	Hands       Class = "hands"
	Support     Class = "support"
	Degraded    Class = "degraded"
	Link        Class = "link"
	Software    Class = "software"
	VM          Class = "vm"
	Carrier     Class = "carrier"
	Injected    Class = "injected"
	Unknown     Class = "unknown"
)

// Classes of SXIDs.
const (
	Nonfatal    Class = "nonfatal"
	Fatal       Class = "fatal"
	AlwaysFatal Class = "always_fatal"
	Notable     Class = "notable"
	Unlisted    Class = "unlisted"
)

// Scope is what gets no new work after a code.
type Scope string

// Scopes, smallest first. Undecided is not one of them: the text of the line or a person decides.
const (
	None      Scope = "none"
	GPU       Scope = "gpu"
	Node      Scope = "node"
	Undecided Scope = "undecided"
)

// SourceID names a row of Sources.
type SourceID string

// The sources.
const (
	Driver         SourceID = "driver"
	NVSwitchDriver SourceID = "nvswitch_driver"
	Catalog        SourceID = "catalog"
	Validation     SourceID = "validation"
	Gpud           SourceID = "gpud"
	DevicePlugin   SourceID = "device_plugin"
	DCGM           SourceID = "dcgm"
	GKE            SourceID = "gke"
	AWS            SourceID = "aws"
	FleetManager   SourceID = "fleet_manager"
	FMGuide        SourceID = "fm_guide"
)

// Stance is a view's conclusion: whether the GPU gets new work.
type Stance string

// Stances. Neither is for a view that is only a name, or an action that depends on more.
const (
	Neither  Stance = ""
	Condemns Stance = "condemns"
	Spares   Stance = "spares"
)

// Source is the origin of views.
type Source struct {
	ID      SourceID `json:"id"`
	Title   string   `json:"title"`
	Edition string   `json:"edition"`
	Address string   `json:"address"`
	Licence string   `json:"licence"`
	Digest  string   `json:"sha256,omitempty"` // of the file that was read
}

// View is one source's statement about a code, in its own words.
type View struct {
	Source SourceID `json:"source"`
	Says   string   `json:"view"`
	Stance Stance   `json:"stance,omitempty"`
}

// ClassRow describes a class of XIDs or of SXIDs.
type ClassRow struct {
	Class    Class
	SXID     bool
	Means    string
	Condemns Scope
	Do       []string
}

// Row is an XID. If Why and Do are empty, its class has them.
type Row struct {
	Code  int
	Title string
	Class Class
	Why   string
	Do    []string
	Views []View
}

// SwitchRow is an SXID. Symbol is the NVSwitch driver's constant without NVSWITCH_ERR_HW_.
type SwitchRow struct {
	Code   int
	Symbol string
	Class  Class
}

// Rows lists the XIDs by code. The caller must not change them.
func Rows() []Row { return rows[:] }

// SwitchRows lists the SXIDs by code. The caller must not change them.
func SwitchRows() []SwitchRow { return switchRows[:] }

// Classes lists the classes of XIDs, then those of SXIDs. The caller must not change them.
func Classes() []ClassRow { return classRows[:] }

// Sources lists where the tables come from. The caller must not change them.
func Sources() []Source { return sourceRows[:] }

// Lookup returns the XID with the code.
func Lookup(code int) (Row, bool) {
	i, ok := slices.BinarySearchFunc(rows[:], code, func(r Row, code int) int { return r.Code - code })
	if !ok {
		return Row{}, false
	}
	return rows[i], true
}

// LookupSwitch returns the SXID with the code.
func LookupSwitch(code int) (SwitchRow, bool) {
	i, ok := slices.BinarySearchFunc(switchRows[:], code, func(r SwitchRow, code int) int { return r.Code - code })
	if !ok {
		return SwitchRow{}, false
	}
	return switchRows[i], true
}

// ClassRowOf returns the row of a class. An unknown class gets Unknown's row, which is never a milder one.
func ClassRowOf(c Class) ClassRow {
	for _, r := range classRows {
		if r.Class == c {
			return r
		}
	}
	return ClassRowOf(Unknown)
}

// Reason explains the class of the code.
func (r Row) Reason() string {
	if r.Why != "" {
		return r.Why
	}
	return ClassRowOf(r.Class).Means
}

// Steps returns what to do, in order.
func (r Row) Steps() []string {
	if len(r.Do) > 0 {
		return r.Do
	}
	return ClassRowOf(r.Class).Do
}

// Condemns returns what gets no new work after the code.
func (r Row) Condemns() Scope { return ClassRowOf(r.Class).Condemns }

// Disputed lists the views that contradict this table's class. If the class leaves it undecided, it lists all views
// that take a side, if they take both.
func (r Row) Disputed() (against []View) {
	own := Neither
	switch r.Condemns() {
	case GPU, Node:
		own = Condemns
	case None:
		own = Spares
	}
	sides := map[Stance]bool{}
	for _, v := range r.Views {
		sides[v.Stance] = true
		if v.Stance != Neither && v.Stance != own {
			against = append(against, v)
		}
	}
	if own == Neither && !(sides[Condemns] && sides[Spares]) {
		return nil
	}
	return against
}

// Nearest lists up to n known codes that a mistyped one may have meant, nearest first: XIDs, or SXIDs.
func Nearest(code, n int, sxid bool) (near []int) {
	if sxid {
		for _, r := range switchRows {
			near = append(near, r.Code)
		}
	} else {
		for _, r := range rows {
			near = append(near, r.Code)
		}
	}
	slices.SortStableFunc(near, func(a, b int) int { return distance(a, code) - distance(b, code) })
	return near[:min(n, len(near))]
}

// distance returns the distance of two codes. The table's codes are small; the given one may be any number.
func distance(known, given int) int {
	const far = 1 << 30
	given = max(min(given, far), -far)
	return max(known-given, given-known)
}
