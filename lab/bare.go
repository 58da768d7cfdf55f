//go:build linux

package lab

import (
	"context"
	"path/filepath"
)

// bareName is the prefix of the cached tree's name, and of copies made from it.
const bareName = "bare-"

// barePackages are the packages that README.md requires, in addition to Go, and what git needs to clone a
// repository.
var barePackages = [...]string{"git", "make", "ca-certificates"}

// BareTree is a folder with a Debian that has only what README.md requires. It is for tests: a program that the
// project needs and does not install is missing there, whatever the host has.
type BareTree struct {
	Dir     string   // shared by all users of the cache: copy it, do not change it
	Note    string   // "cached NAME" or "built NAME"
	Sources []string // lines of a sources.list: this host's own
	Apt     []string // lines of an apt.conf: how this host reaches them
}

// Bare returns the tree of this host's release, and builds it if the cache folder lacks it; "" is the lab's own
// cache. It needs root and mmdebstrap.
func Bare(ctx context.Context, cache string) (BareTree, error) {
	opts, err := Options{CacheDir: cache}.withDefaults()
	if err != nil {
		return BareTree{}, err
	}
	r, err := hostRecipe()
	if err != nil {
		return BareTree{}, err
	}
	r.Variant, r.Packages, r.Drop = "apt", barePackages[:], nil
	from, err := hostArchive(ctx, r.Suite)
	if err != nil {
		return BareTree{}, err
	}
	dir, note, err := ensureTree(ctx, r, opts.CacheDir, filepath.Join(opts.CacheDir, bareName+r.key()))
	return BareTree{Dir: dir, Note: note, Sources: from.sources, Apt: from.options}, err
}
