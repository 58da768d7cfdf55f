package chaos

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/profile"
)

// Load reads every scenario of a folder, sorted by id. The error joins what is wrong with any of them; those that are
// well are returned all the same.
func Load(files fs.FS, where string) ([]Scenario, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("read drills: %w", err)
	}
	var all []Scenario
	var errs []error
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".yaml") {
			continue
		}
		s, err := parseFile(files, e.Name(), filepath.Join(where, e.Name()))
		if err == nil {
			all = append(all, s)
		}
		errs = append(errs, err)
	}
	slices.SortFunc(all, func(a, b Scenario) int { return strings.Compare(a.Metadata.ID, b.Metadata.ID) })
	return all, errors.Join(errs...)
}

// NotFoundError is a drill that nobody wrote yet.
type NotFoundError struct {
	Name  string
	Known []string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no drill %q%s: gpuaasctl chaos list lists them, or give the path of a file", e.Name, profile.Nearest(e.Name, e.Known))
}

// Find reads what name says: a built-in drill by its id, a file, or a folder with all its files. What has a slash or ends
// in .yaml is a path; an id goes before a folder of that name.
func Find(builtin fs.FS, name string) ([]Scenario, error) {
	if !strings.ContainsRune(name, '/') && !strings.HasSuffix(name, ".yaml") && name != "." {
		if _, err := fs.Stat(builtin, name+".yaml"); err == nil {
			s, err := parseFile(builtin, name+".yaml", "scenarios/"+name+".yaml")
			return []Scenario{s}, err
		}
		if _, missing := os.Stat(name); missing != nil {
			return nil, &NotFoundError{name, ids(builtin)}
		}
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read drill: %w", err)
	}
	if info.IsDir() {
		all, err := Load(os.DirFS(name), name)
		if err == nil && len(all) == 0 {
			err = fmt.Errorf("no drill in folder %s: it has no file that ends in .yaml", name)
		}
		return all, err
	}
	s, err := parseFile(os.DirFS(filepath.Dir(name)), filepath.Base(name), name)
	return []Scenario{s}, err
}

// parseFile reads the drill in a file; path is for messages.
func parseFile(files fs.FS, name, path string) (Scenario, error) {
	data, source, err := readSource(files, name)
	if err != nil {
		return Scenario{}, fmt.Errorf("read drill: %w", err)
	}
	s, err := Parse(path, data)
	s.Source = source
	return s, err
}

// readText is readSource for a file whose source does not matter.
func readText(files fs.FS, name string) ([]byte, error) {
	data, _, err := readSource(files, name)
	return data, err
}

// readSource reads a file, and no more of it than is needed to know that it is too large. What is no file is not opened: a
// pipe that nobody writes to would never end.
func readSource(files fs.FS, name string) ([]byte, Source, error) {
	info, err := fs.Stat(files, name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("not a file")}
	}
	if err != nil {
		return nil, Source{}, err
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, Source{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	return data, sourceOf(f, data), err
}

func ids(files fs.FS) []string {
	entries, _ := fs.ReadDir(files, ".") // of an embedded file system: there is nothing to fail
	var all []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			all = append(all, id)
		}
	}
	return all
}
