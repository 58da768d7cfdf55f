package chaos

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// labFolder holds drills that name files, units and addresses of the lab's machines.
const labFolder = "lab"

// Load reads every scenario of a folder, and of its folder lab, sorted by id. The error joins the problems of all
// files; valid scenarios are returned in any case.
func Load(files fs.FS, where string) ([]Scenario, error) {
	names, err := drillFiles(files)
	if err != nil {
		return nil, fmt.Errorf("read drills: %w", err)
	}
	var all []Scenario
	var errs []error
	for _, name := range names {
		s, err := parseFile(files, name, filepath.Join(where, name))
		if err == nil {
			all = append(all, s)
		}
		errs = append(errs, err)
	}
	slices.SortFunc(all, func(a, b Scenario) int { return strings.Compare(a.Metadata.ID, b.Metadata.ID) })
	return all, errors.Join(errs...)
}

// drillFiles lists the files of drills in a folder and in its folder lab, which need not exist.
func drillFiles(files fs.FS) ([]string, error) {
	var all []string
	for _, dir := range [...]string{".", labFolder} {
		entries, err := fs.ReadDir(files, dir)
		if err != nil && (dir == "." || !errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() && strings.HasSuffix(e.Name(), ".yaml") {
				all = append(all, path.Join(dir, e.Name()))
			}
		}
	}
	return all, nil
}

// FileOf returns the path of a built-in drill among files; "" if there is none of that id.
func FileOf(files fs.FS, id string) string {
	for _, name := range [...]string{id + ".yaml", path.Join(labFolder, id+".yaml")} {
		if _, err := fs.Stat(files, name); err == nil {
			return name
		}
	}
	return ""
}

// NotFoundError reports a drill that does not exist.
type NotFoundError struct {
	Name  string
	Known []string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no drill %q%s: gpuaasctl chaos list lists them, or give the path of a file", e.Name,
		strictyaml.Nearest(e.Name, e.Known))
}

// Find reads the drills that name selects: a built-in drill by its id, a file, or all files of a folder. A name
// with a slash or the suffix .yaml is a path; an id takes precedence over a folder of that name.
func Find(builtin fs.FS, name string) ([]Scenario, error) {
	if !strings.ContainsRune(name, '/') && !strings.HasSuffix(name, ".yaml") && name != "." {
		if file := FileOf(builtin, name); file != "" {
			s, err := parseFile(builtin, file, "scenarios/"+file)
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

// parseFile reads the drill in a file; where is its path for messages.
func parseFile(files fs.FS, name, where string) (Scenario, error) {
	data, source, err := readSource(files, name)
	if err != nil {
		return Scenario{}, fmt.Errorf("read drill: %w", err)
	}
	s, err := Parse(where, data)
	s.Source, s.Lab = source, path.Dir(name) == labFolder
	return s, err
}

// readText is readSource without the source.
func readText(files fs.FS, name string) ([]byte, error) {
	data, _, err := readSource(files, name)
	return data, err
}

// readSource reads a file, up to the size limit. It opens regular files only: reading a pipe without a writer
// would block for ever.
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
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	return data, sourceOf(f, data), err
}

func ids(files fs.FS) (all []string) {
	names, _ := drillFiles(files) // reading an embedded file system cannot fail
	for _, name := range names {
		all = append(all, strings.TrimSuffix(path.Base(name), ".yaml"))
	}
	slices.Sort(all)
	return all
}

// maxFile bounds the file of a scenario or a game day, in bytes.
const maxFile = 64 << 10

// problem is one error in a file.
type problem = strictyaml.Problem

// Parse reads one scenario strictly; path is used in messages. The error joins one *profile.FileError per problem,
// each with its line and field.
func Parse(path string, data []byte) (Scenario, error) {
	s := Scenario{}
	doc, found, err := document(path, data, &s,
		"metadata, target, guards, faults, verifyInjected, expect, recovery, evidence")
	if err != nil {
		return s, err
	}
	// replaced by a caller that knows the source
	s.File, s.Source = path, Source{Doubt: "where it came from is not known"}
	// the values of a file with decoding errors are meaningless
	if len(found) == 0 {
		found = s.settle()
	}
	return s, doc.Error(found)
}

// document decodes a file's single YAML document strictly into the struct that into points to. found lists the
// problems in it. The error means that the file is not such a document at all; it names want, the expected fields.
func document(path string, data []byte, into any, want string) (doc strictyaml.Document, found []problem, err error) {
	if len(data) > maxFile {
		return doc, nil, &strictyaml.Error{Path: path, Message: fmt.Sprintf("is larger than %d bytes", maxFile)}
	}
	if doc, err = strictyaml.Parse(path, data); err != nil {
		return doc, nil, err
	}
	if doc.Root == nil || doc.Root.Kind != yaml.MappingNode {
		return doc, nil, &strictyaml.Error{Path: path, Line: 1, Message: "want a mapping with " + want}
	}
	return doc, append(unseen(doc.Root), doc.Decode(into)...), nil
}

// unseen finds what a reader of the file would not see: aliases, and texts with escapes that a terminal would not
// show literally.
func unseen(n *yaml.Node) []problem {
	var found []problem
	hidden := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }
	switch {
	case n.Kind == yaml.AliasNode, n.Kind == yaml.MappingNode && n.Anchor != "":
		return []problem{{Line: n.Line, Text: "anchors and aliases are not for drills: who reads one must see what it does"}}
	case n.Kind == yaml.ScalarNode && strings.ContainsFunc(n.Value, hidden):
		found = append(found, problem{Line: n.Line, Text: fmt.Sprintf("%q has characters that are not seen", n.Value)})
	}
	for _, c := range n.Content {
		found = append(found, unseen(c)...)
	}
	return found
}
