package diagcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links a path may traverse, as in the kernel.
const maxLinks = 40

var errTooManyLinks = errors.New("too many links")

// resolveIn returns the real path of name on a disk that is mounted at root: a link to an absolute path, or one that
// climbs too high, stays below root, as it did when that disk was the machine's own. No other process may change root
// meanwhile.
func resolveIn(root, name string) (string, error) {
	if st, err := os.Stat(root); err != nil {
		return "", err
	} else if !st.IsDir() {
		return "", fmt.Errorf("%s is not a folder", root)
	}
	inside, links := "/", 0
	rest := strings.Split(filepath.ToSlash(name), "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == "" || part == "." {
			continue
		}
		next := path.Join(inside, part) // ".." of "/" is "/"
		if part == ".." {
			inside = next
			continue
		}
		st, err := os.Lstat(filepath.Join(root, filepath.FromSlash(next)))
		if err != nil {
			return "", err
		}
		if st.Mode()&fs.ModeSymlink == 0 {
			inside = next
			continue
		}
		if links++; links > maxLinks {
			return "", errTooManyLinks
		}
		to, err := os.Readlink(filepath.Join(root, filepath.FromSlash(next)))
		if err != nil {
			return "", err
		}
		if path.IsAbs(to) {
			inside = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return filepath.Join(root, filepath.FromSlash(inside)), nil
}
