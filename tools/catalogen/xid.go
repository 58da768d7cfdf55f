package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// xidFolder has the tables of NVIDIA's error codes, below the root of the repository.
const xidFolder = "gpu/xid/catalogue"

// xidTables is the parsed content of its files. Digest covers all of them.
type xidTables struct {
	words   words
	Digest  string
	Sources []xidSource
	Classes []xidClass
	Xids    []xidRow
	Sxids   []sxidRow
	Uncoded []uncodedRow
}

type xidSource struct {
	ID       string   `yaml:"id" of:"SourceID"`
	Title    string   `yaml:"title"`
	Edition  string   `yaml:"edition"`
	Address  string   `yaml:"address"`
	Licence  string   `yaml:"licence"`
	Digest   string   `yaml:"digest,omitempty"`
	Condemns []string `yaml:"condemns,omitempty"`
	Spares   []string `yaml:"spares,omitempty"`
}

type xidClass struct {
	ID       string   `yaml:"id" of:"Class"`
	Of       string   `yaml:"of"`
	Means    string   `yaml:"means"`
	Condemns string   `yaml:"condemns" of:"Scope"`
	Do       []string `yaml:"do"`
}

type xidRow struct {
	Code  int       `yaml:"code"`
	Title string    `yaml:"title"`
	Class string    `yaml:"class" of:"Class"`
	Why   string    `yaml:"why,omitempty"`
	Do    []string  `yaml:"do,omitempty"`
	Views []xidView `yaml:"views"`
}

type xidView struct {
	Source string `yaml:"source" of:"SourceID"`
	Says   string `yaml:"says"`
}

type sxidRow struct {
	Code   int    `yaml:"code"`
	Symbol string `yaml:"symbol"`
	Class  string `yaml:"class" of:"Class"`
}

type uncodedRow struct {
	ID    string   `yaml:"id"`
	Title string   `yaml:"title"`
	Class string   `yaml:"class" of:"Class"`
	Why   string   `yaml:"why"`
	Do    []string `yaml:"do,omitempty"`
}

// readXids reads every file.
func readXids(root string) (*xidTables, error) {
	x := &xidTables{words: words{}}
	if err := x.words.constants(filepath.Join(root, "gpu", "xid")); err != nil {
		return nil, err
	}
	sum := sha256.New()
	var found []error
	for _, f := range [...]struct {
		file string
		rows any
	}{{"sources.yaml", &x.Sources}, {"classes.yaml", &x.Classes}, {"xids.yaml", &x.Xids}, {"sxids.yaml", &x.Sxids},
		{"uncoded.yaml", &x.Uncoded}} {
		r := &reader{file: path.Join(xidFolder, f.file), words: x.words}
		nodes := r.sequence(root)
		r.rows(nodes, f.rows)
		r.ascending(nodes)
		found = append(found, r.found...)
		data, _ := os.ReadFile(filepath.Join(root, r.file)) // the file was already read above
		sum.Write(data)
	}
	x.Digest = hex.EncodeToString(sum.Sum(nil))[:12]
	return x, inOrder(append(found, x.check()...))
}

// ascending requires that rows are sorted by code, since a row is found by binary search.
func (r *reader) ascending(nodes []*yaml.Node) {
	last := 0
	for _, n := range nodes {
		code, number := child(n, "code"), 0
		if code == nil {
			continue
		}
		if _, err := fmt.Sscan(code.Value, &number); err == nil && number <= last {
			r.bad(code, "code %d is behind %d", number, last)
		}
		last = number
	}
}

// check finds mistakes that no single value shows: a constant without a row, a row whose class is of another kind.
func (x *xidTables) check() (found []error) {
	of := map[string]string{}
	for _, c := range x.Classes {
		of[c.ID] = c.Of
		if c.Of != "xid" && c.Of != "sxid" {
			found = append(found, fmt.Errorf("%s/classes.yaml: %s: want xid or sxid, not %q", xidFolder, c.ID, c.Of))
		}
	}
	for class := range x.words["Class"] {
		if of[class] == "" {
			found = append(found, fmt.Errorf("%s/classes.yaml: lacks %q", xidFolder, class))
		}
	}
	for id := range x.words["SourceID"] {
		if !slices.ContainsFunc(x.Sources, func(s xidSource) bool { return s.ID == id }) {
			found = append(found, fmt.Errorf("%s/sources.yaml: lacks %q", xidFolder, id))
		}
	}
	for _, r := range x.Xids {
		if of[r.Class] != "xid" {
			found = append(found, fmt.Errorf("%s/xids.yaml: %d: %s is no class of XIDs", xidFolder, r.Code, r.Class))
		}
	}
	for _, r := range x.Uncoded {
		if of[r.Class] != "xid" {
			found = append(found, fmt.Errorf("%s/uncoded.yaml: %s: %s is no class of XIDs", xidFolder, r.ID, r.Class))
		}
	}
	for _, r := range x.Sxids {
		if of[r.Class] != "sxid" {
			found = append(found, fmt.Errorf("%s/sxids.yaml: %d: %s is no class of SXIDs", xidFolder, r.Code, r.Class))
		}
	}
	return found
}

// Stance returns the constant of a view's stance, by the view's first word.
func (x *xidTables) Stance(v xidView) string {
	first := strings.TrimRight(strings.SplitN(v.Says, " ", 2)[0], ",;")
	for _, s := range x.Sources {
		switch {
		case s.ID != v.Source:
		case slices.Contains(s.Condemns, first):
			return "Condemns"
		case slices.Contains(s.Spares, first):
			return "Spares"
		}
	}
	return "Neither"
}

// Name returns the Go constant of a word.
func (x *xidTables) Name(typ, word string) string { return x.words[typ][word] }
