package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// GameDay is several drills in a random order. The same file and seed give the same order.
type GameDay struct {
	Metadata BookMetadata `yaml:"metadata" json:"metadata"`
	Drills   []string     `yaml:"drills" json:"drills" jsonschema:"minItems=1" jsonschema_description:"ids, patterns of ids (* and ?), or files beside this one"`
	Times    int          `yaml:"times,omitempty" json:"times,omitempty" jsonschema:"minimum=1,maximum=100" jsonschema_description:"how often each is run; default once"`
	Pause    Duration     `yaml:"pause,omitempty" json:"pause,omitempty" jsonschema_description:"between two drills"`
}

// BookMetadata describes the game day.
type BookMetadata struct {
	ID    string `yaml:"id" json:"id" jsonschema:"pattern=^[a-z0-9][a-z0-9-]*$,maxLength=48"`
	Title string `yaml:"title" json:"title"`
}

// maxTimes bounds how often a game day runs each of its drills.
const maxTimes = 100

// FindGameDay reads the game day that name selects, by the id of a built-in one or by a file's path, and its
// drills: each once, sorted by id. It draws no order yet.
func FindGameDay(builtin fs.FS, name string) (GameDay, []Scenario, error) {
	if !strings.ContainsRune(name, '/') && !strings.HasSuffix(name, ".yaml") {
		where := path.Join("books", name+".yaml")
		data, err := fs.ReadFile(builtin, where)
		if err != nil {
			return GameDay{}, nil, fmt.Errorf("no game day %q%s: give one of %s, or the path of a file", name,
				strictyaml.Nearest(name, GameDays(builtin)), strings.Join(GameDays(builtin), ", "))
		}
		return parseGameDay(builtin, "scenarios/"+where, "", data)
	}
	data, err := readText(os.DirFS(filepath.Dir(name)), filepath.Base(name))
	if err != nil {
		return GameDay{}, nil, fmt.Errorf("read game day: %w", err)
	}
	return parseGameDay(builtin, name, filepath.Dir(name), data)
}

// GameDays returns the ids of the built-in game days.
func GameDays(builtin fs.FS) []string {
	sub, err := fs.Sub(builtin, "books")
	if err != nil {
		return nil
	}
	return ids(sub)
}

func parseGameDay(builtin fs.FS, file, dir string, data []byte) (GameDay, []Scenario, error) {
	var b GameDay
	doc, found, err := document(file, data, &b, "metadata, drills")
	if err != nil {
		return b, nil, err
	}
	if len(found) > 0 {
		return b, nil, doc.Error(found)
	}
	found = b.settle()
	var all []Scenario
	var errs []error
	for i, name := range b.Drills {
		drills, err := drillsNamed(builtin, dir, name)
		if in := new(strictyaml.Error); errors.As(err, &in) {
			errs = append(errs, err) // of the drill's own file
		} else if err != nil {
			found = append(found, problem{Key: fmt.Sprintf("drills[%d]", i), Text: err.Error()})
		}
		all = append(all, drills...)
	}
	slices.SortFunc(all, func(x, y Scenario) int { return strings.Compare(x.Metadata.ID, y.Metadata.ID) })
	all = slices.CompactFunc(all, func(x, y Scenario) bool { return x.Metadata.ID == y.Metadata.ID && x.File == y.File })
	for i := 1; i < len(all); i++ {
		if all[i].Metadata.ID == all[i-1].Metadata.ID {
			found = append(found, problem{Key: "drills",
				Text: fmt.Sprintf("%s and %s are both called %s", all[i-1].File, all[i].File, all[i].Metadata.ID)})
		}
	}
	return b, all, errors.Join(append(errs, doc.Error(found))...)
}

// settle checks everything that does not depend on the drills.
func (b GameDay) settle() []problem {
	var c checker
	c.want(scenarioID().MatchString(b.Metadata.ID) && len(b.Metadata.ID) <= 48, "metadata.id",
		"%q: want lower-case letters, digits and dashes, at most 48", b.Metadata.ID)
	c.want(!strings.ContainsFunc(b.Metadata.Title, func(r rune) bool { return !unicode.IsGraphic(r) }), "metadata.title",
		"%q: want one line of text", b.Metadata.Title)
	c.want(0 <= b.Times && b.Times <= maxTimes, "times", "want 1 to %d", maxTimes)
	c.want(b.Pause >= 0, "pause", "is negative")
	c.want(len(b.Drills) > 0, "drills", "is missing: the game day has no drill")
	return c.found
}

// drillsNamed returns the drills that one line of a game day selects.
func drillsNamed(builtin fs.FS, dir, name string) ([]Scenario, error) {
	if strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return Find(builtin, name)
	}
	var all []Scenario
	for _, id := range ids(builtin) {
		if ok, err := path.Match(name, id); err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		} else if !ok {
			continue
		}
		found, err := Find(builtin, id)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, &NotFoundError{name, ids(builtin)}
	}
	return all, nil
}

// Order draws the order of n drills: numbers below n, each as often as the game day says. Every round contains
// each drill once.
func (b GameDay) Order(n int, seed uint64) []int {
	draw := rand.New(rand.NewPCG(seed, uint64(n)))
	var order []int
	for range max(1, b.Times) {
		order = append(order, draw.Perm(n)...)
	}
	return order
}
