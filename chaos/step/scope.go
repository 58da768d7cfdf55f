package step

import (
	"errors"
	"fmt"
	"path"
	"slices"
)

// Class is one kind of state in a fingerprint.
type Class string

// The classes. A residue is identified by its class and a key.
const (
	ClassNft     Class = "nft"     // the packet filter's rules; key: table and object
	ClassNet     Class = "net"     // links, addresses, routes, rules; key: kind and the line
	ClassFile    Class = "file"    // files by content, mode, owner, time, inode and attributes; key: path
	ClassMount   Class = "mount"   // mounts; key: "host" or a unit, and the mount point
	ClassUnit    Class = "unit"    // units: state, enablement, drop-ins; key: unit and property
	ClassAccount Class = "account" // lines of passwd, group and shadow, hashed; key: file and name
	ClassSocket  Class = "socket"  // listening sockets; key: protocol and address
	ClassDisk    Class = "disk"    // free bytes and inodes; key: mount point and which
	ClassProcess Class = "process" // stopped and traced processes; key: pid and name
	ClassOwn     Class = "own"     // what this tool leaves: folders, units, tables, mounts, processes; key: what and where
)

// Classes lists them in the order of reports.
func Classes() []Class {
	return []Class{ClassNft, ClassNet, ClassFile, ClassMount, ClassUnit, ClassAccount, ClassSocket, ClassDisk,
		ClassProcess, ClassOwn}
}

// Scope is what a fingerprint covers in addition to its defaults.
type Scope struct {
	Files  []string `json:"files,omitempty"`  // files, and folders with everything below them
	Units  []string `json:"units,omitempty"`  // units whose mount namespaces are covered; the agent's always is
	Bytes  int64    `json:"bytes,omitempty"`  // tolerated change of free space; 0 = 64 MiB
	Inodes int64    `json:"inodes,omitempty"` // tolerated change of free inodes; 0 = 4096
}

func (s Scope) validate() error {
	var errs []error
	for _, f := range s.Files {
		errs = append(errs, cleanPath(f))
	}
	for _, u := range s.Units {
		errs = append(errs, unitName(u))
	}
	if s.Bytes < 0 || s.Inodes < 0 {
		errs = append(errs, errors.New("a tolerance is negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("scope: %w", err)
	}
	return nil
}

// Allow declares a difference that does not count as residue.
type Allow struct {
	Class Class  `json:"class"`
	Key   string `json:"key"` // a pattern for path.Match; "*" does not match a slash
	Why   string `json:"why"`
}

func (a Allow) validate() error {
	if !slices.Contains(Classes(), a.Class) {
		return fmt.Errorf("class %q", a.Class)
	}
	if a.Why == "" {
		return errors.New("why is missing")
	}
	_, err := path.Match(a.Key, "")
	return err
}

// Covers reports whether the allowance covers the difference r.
func (a Allow) Covers(r Residue) bool {
	ok, _ := path.Match(a.Key, r.Key) // what is no pattern matches nothing
	return ok && a.Class == r.Class
}

// Residue is one difference between two fingerprints. Before is empty for something new, After for something that
// is gone.
type Residue struct {
	Class   Class  `json:"class"`
	Key     string `json:"key"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
	Allowed string `json:"allowed,omitempty"` // why it does not count
}

// Unexplained returns the differences that are not allowed: the residue.
func Unexplained(all []Residue) []Residue {
	return slices.DeleteFunc(slices.Clone(all), func(r Residue) bool { return r.Allowed != "" })
}

// String returns the difference in one line.
func (r Residue) String() string {
	switch {
	case r.Before == "":
		return fmt.Sprintf("%s %s: appeared: %s", r.Class, r.Key, r.After)
	case r.After == "":
		return fmt.Sprintf("%s %s: gone: %s", r.Class, r.Key, r.Before)
	}
	return fmt.Sprintf("%s %s: %s -> %s", r.Class, r.Key, r.Before, r.After)
}
