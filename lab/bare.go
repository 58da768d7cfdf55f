//go:build linux

package lab

import (
	"context"
	"path/filepath"
)

// bareName begins the name of the cached tree, and of the folders that are made from it.
const bareName = "bare-"

// barePackages is what README.md asks for, beside Go, and what git needs to get a repository.
var barePackages = [...]string{"git", "make", "ca-certificates"}

// BareTree is a Debian with nothing but what README.md asks for, in a folder. It is for tests: a program that the
// project needs and does not install is missing there, whatever the host happens to have.
type BareTree struct {
	Dir     string   // shared by all users of the cache: copy it, do not change it
	Note    string   // "cached NAME" or "built NAME"
	Sources []string // lines of a sources.list: this host's own
	Apt     []string // lines of an apt.conf: how this host reaches them
}

// Bare returns the tree of this host's release, which it builds when it is not in the cache folder; "" is the lab's
// own. It needs root and mmdebstrap.
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
