package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// vocab is a list of words without rows in another file.
type vocab struct {
	Kind  string    `yaml:"kind"`
	About string    `yaml:"about"`
	Type  string    `yaml:"type,omitempty"` // Go type of the words
	Words []meaning `yaml:"words"`
}

type meaning struct {
	Word  string `yaml:"word"`
	Means string `yaml:"means"`
}

// fieldText describes a field that has no comment.
type fieldText struct {
	Field string `yaml:"field"`
	Means string `yaml:"means"`
}

// field is one JSON field of a document: its name, its struct, and its meaning.
type field struct{ Name, In, Means string }

// example is an occurrence of a word in a recording.
type example struct{ Word, From, Text string }

// checkWords compares each list with its Go type: every constant needs a row, and every row a constant.
func (c *catalogue) checkWords() (found []error) {
	for _, v := range c.Vocabs {
		for _, m := range v.Words {
			if v.Type != "" && c.words[v.Type][m.Word] == "" {
				found = append(found, fmt.Errorf("%s/words.yaml: %s %q is no constant of %s", folder, v.Kind, m.Word, v.Type))
			}
		}
		for word := range c.words[v.Type] {
			has := slices.ContainsFunc(v.Words, func(m meaning) bool { return m.Word == word })
			if word != "" && v.Type != "" && !has {
				found = append(found, fmt.Errorf("%s/words.yaml: %s lacks %q", folder, v.Kind, word))
			}
		}
	}
	return found
}

// readFields collects the JSON fields of package diag's exported structs. The description of a field is its comment,
// else its entry in fields.yaml, else the comment of its type.
func (c *catalogue) readFields(root string) ([]field, error) {
	texts, used := map[string]string{}, map[string]bool{}
	for _, f := range c.FieldTexts {
		texts[f.Field] = f.Means
	}
	files, err := sources(filepath.Join(root, "diag"))
	if err != nil {
		return nil, err
	}
	var all []field
	var lacks []string
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			t, ok := n.(*ast.TypeSpec)
			if !ok || !t.Name.IsExported() {
				return true
			}
			s, ok := t.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range s.Fields.List {
				name := jsonName(f)
				if name == "" {
					continue
				}
				means := commentOf(f)
				if means == "" {
					means, used[name] = texts[name], true
				}
				if means == "" {
					lacks = append(lacks, name)
				}
				all = append(all, field{name, t.Name.Name, means})
			}
			return true
		})
	}
	slices.Sort(lacks)
	if lacks = slices.Compact(lacks); len(lacks) > 0 {
		return nil, fmt.Errorf("%s/fields.yaml: no comment and no row says what these mean: %s", folder,
			strings.Join(lacks, " "))
	}
	for name := range texts {
		if !used[name] {
			return nil, fmt.Errorf("%s/fields.yaml: %s is a field of nothing, or has its comment", folder, name)
		}
	}
	slices.SortStableFunc(all, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func jsonName(f *ast.Field) string {
	if f.Tag == nil || len(f.Names) == 0 {
		return ""
	}
	tag, _ := strconv.Unquote(f.Tag.Value)
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}

// commentOf returns the comment at the end of a field's line, else the one above it, on one line.
func commentOf(f *ast.Field) string {
	text := cmp.Or(f.Comment.Text(), f.Doc.Text())
	text = strings.TrimSpace(strings.ReplaceAll(text, "\n", " "))
	return strings.TrimSuffix(strings.TrimPrefix(text, f.Names[0].Name+" is "), ".")
}

var wordOnly = regexp.MustCompile(`^[a-z0-9_]+$`)

// readExamples finds the first line of a recording for each word, in golden/'s verdicts.
func readExamples(root string) ([]example, error) {
	var all []example
	seen := map[string]bool{}
	for _, name := range [...]string{"verdicts.txt", "drills.txt"} {
		data, err := os.ReadFile(filepath.Join(root, "golden", name))
		if err != nil {
			return nil, err
		}
		for section := range strings.SplitSeq(string(data), "\n== ") {
			from, body, _ := strings.Cut(strings.TrimPrefix(section, "== "), "\n")
			from = strings.TrimSuffix(strings.TrimPrefix(from, "reports/"), ".json")
			_, text, _ := strings.Cut(body, "\n  text")
			text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
			for line := range strings.Lines(body) {
				label, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				cells := strings.Split(strings.TrimSpace(rest), " | ")
				said := text
				if label == "hop" || label == "verdict" {
					said = cells[len(cells)-1]
				}
				if label == "next" || label == "" || said == "" || wordOnly.MatchString(said) {
					continue
				}
				for _, word := range cells {
					if wordOnly.MatchString(word) && !seen[word] {
						seen[word] = true
						all = append(all, example{word, from, said})
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b example) int { return strings.Compare(a.Word, b.Word) })
	return all, nil
}
