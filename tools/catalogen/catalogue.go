package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// folder has the catalogue, below the root of the repository.
const folder = "diag/catalogue"

// catalogue is the parsed content of the catalogue's files.
type catalogue struct {
	words     words
	Hops      []hop
	Reasons   []reason
	Scenarios []scenario
	Signals   []signal
	Lacks     []lack
	Failures  []failure
	Causes    []cause
	Exits     []exit
	Claims    []claim
	Remedies  []remedy

	Vocabs     []vocab
	FieldTexts []fieldText
	Fields     []field
	Examples   []example
}

// vocabulary is one file: the destination of its rows, and the Go type of its constants ("" for rows without).
type vocabulary struct {
	file, typ string
	rows      any
}

// readCatalogue reads every file. Rows refer to rows of other files, so it collects all names first.
func readCatalogue(root string) (*catalogue, error) {
	c := &catalogue{words: words{}}
	for _, of := range [...]string{"diag", "diag/trust", "chaos/drill"} {
		if err := c.words.constants(path.Join(root, of)); err != nil {
			return nil, err
		}
	}
	all := []vocabulary{
		{"hops.yaml", "HopID", &c.Hops},
		{"reasons.yaml", "ReasonCode", &c.Reasons},
		{"scenarios.yaml", "scenario", &c.Scenarios},
		{"signals.yaml", "Signal", &c.Signals},
		{"lacks.yaml", "Lack", &c.Lacks},
		{"failures.yaml", "Failure", &c.Failures},
		{"exits.yaml", "exit", &c.Exits},
		{"claims.yaml", "claim", &c.Claims},
		{"causes.yaml", "Cause", &c.Causes},
		{"steps.yaml", "step", &c.Remedies},
		{"words.yaml", "vocab", &c.Vocabs},
		{"fields.yaml", "field", &c.FieldTexts},
	}
	var found []error
	readers, nodes := make([]*reader, len(all)), make([][]*yaml.Node, len(all))
	for i, v := range all {
		readers[i] = &reader{file: path.Join(folder, v.file), words: c.words}
		nodes[i] = readers[i].sequence(root)
		for _, n := range nodes[i] {
			if id := child(n, "id"); id != nil {
				name := "-"
				if g := child(n, "go"); g != nil {
					name = g.Value
				}
				c.words.add(v.typ, id.Value, name)
			}
		}
	}
	c.owners(root, &found)
	for i, v := range all {
		readers[i].rows(nodes[i], v.rows)
		found = append(found, readers[i].found...)
	}
	steps := vocab{Kind: "step", About: "one measurement of a hop, as HOP/STEP in the ids of facts"}
	for _, h := range c.Hops {
		steps.Words = append(steps.Words, h.Steps...)
	}
	c.Vocabs = append(c.Vocabs, steps)
	if err := inOrder(append(found, c.checkWords()...)); err != nil {
		return nil, err
	}
	var err error
	if c.Fields, err = c.readFields(root); err != nil {
		return nil, err
	}
	c.Examples, err = readExamples(root)
	return c, err
}

// owners reads the list of teams that can be called: their names are words as well.
func (c *catalogue) owners(root string, found *[]error) {
	r := &reader{file: path.Join(folder, "owners.yaml"), words: c.words}
	for _, n := range r.sequence(root) {
		c.words.add("owner", r.text(n, ""), "-")
	}
	*found = append(*found, r.found...)
}

// NeedAllocation reports whether any of the hops is about an allocation.
func (c *catalogue) NeedAllocation(ids []string) bool {
	return slices.ContainsFunc(c.Hops, func(h hop) bool { return h.Allocation && slices.Contains(ids, h.ID) })
}

// Expanded returns the failures of a list of their ids, or of what the ids begin with: dns is each dns_ id.
func (c *catalogue) Expanded(list []string) ([]string, error) {
	var ids []string
	for _, of := range list {
		n := len(ids)
		for _, f := range c.Failures {
			if f.ID == of || strings.HasPrefix(f.ID, of+"_") {
				ids = append(ids, f.ID)
			}
		}
		if len(ids) == n {
			return nil, fmt.Errorf("%s/signals.yaml: failures: no failure is or begins with %q", folder, of)
		}
	}
	return ids, nil
}
