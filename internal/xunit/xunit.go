// Package xunit checks that a JUnit file is accepted by the strictest common reader: it has the rules of the Jenkins
// xUnit plugin's schema (model/xsd/junit-10.xsd) as a table, and checks that counts match the cases. Tests call it.
package xunit

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// element is what one element may have: attributes by name, children in any order and number, and text.
type element struct {
	required []string
	optional []string
	children []string
	text     bool
}

// elements are those of the schema, without its elements for repeated tests, which no file of ours has.
var elements = map[string]element{
	"testsuites": {optional: []string{"name", "time", "tests", "failures", "errors"}, children: []string{"testsuite"}},
	"testsuite": {
		required: []string{"name", "tests", "failures", "errors"},
		optional: []string{"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
		children: []string{"testsuite", "properties", "testcase", "system-out", "system-err"},
	},
	"properties": {children: []string{"property"}},
	"property":   {required: []string{"name", "value"}},
	"testcase": {
		required: []string{"name"}, optional: []string{"time", "classname", "group"},
		children: []string{"skipped", "error", "failure", "system-out", "system-err"},
	},
	"skipped":    {optional: []string{"type", "message"}, text: true},
	"error":      {optional: []string{"type", "message"}, text: true},
	"failure":    {optional: []string{"type", "message"}, text: true},
	"system-out": {text: true},
	"system-err": {text: true},
}

// seconds is a time: digits with commas between thousands, and a fraction. The schema requires it for suites.
var seconds = regexp.MustCompile(`^([0-9]+|[0-9]{1,3}(,[0-9]{3})+)?(\.[0-9]*)?$`)

// timed are the elements whose time has that form.
var timed = []string{"testsuites", "testsuite"}

// node is one element of a document.
type node struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []node     `xml:",any"`
	Text     string     `xml:",chardata"`
}

// Check returns all mistakes in a document; nil if there are none.
func Check(document []byte) error {
	var root node
	d := xml.NewDecoder(bytes.NewReader(document))
	if err := d.Decode(&root); err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	if rest := strings.TrimSpace(string(document[d.InputOffset():])); rest != "" {
		return fmt.Errorf("%q follows the document", rest)
	}
	if root.XMLName.Local != "testsuites" && root.XMLName.Local != "testsuite" {
		return fmt.Errorf("the document is a %s", root.XMLName.Local)
	}
	var wrong []error
	root.check(&wrong, "/"+root.XMLName.Local)
	root.count(&wrong, "/"+root.XMLName.Local)
	return errors.Join(wrong...)
}

// check compares each element with the table.
func (n *node) check(wrong *[]error, at string) {
	say := func(format string, args ...any) { *wrong = append(*wrong, fmt.Errorf(at+": "+format, args...)) }
	is, known := elements[n.XMLName.Local]
	if !known {
		say("no such element")
		return
	}
	seen := map[string]bool{}
	for _, a := range n.Attrs {
		name := a.Name.Local
		if seen[name] {
			say("attribute %s is there twice", name)
		}
		seen[name] = true
		if !slices.Contains(is.required, name) && !slices.Contains(is.optional, name) {
			say("attribute %s is not allowed", name)
		}
		if name == "time" && slices.Contains(timed, n.XMLName.Local) && !seconds.MatchString(a.Value) {
			say("time %q is none", a.Value)
		}
	}
	for _, name := range is.required {
		if !seen[name] {
			say("attribute %s is missing", name)
		}
	}
	if !is.text && strings.TrimSpace(n.Text) != "" {
		say("text %q is not allowed", strings.TrimSpace(n.Text))
	}
	for i := range n.Children {
		c := &n.Children[i]
		if !slices.Contains(is.children, c.XMLName.Local) {
			say("element %s is not allowed", c.XMLName.Local)
			continue
		}
		c.check(wrong, fmt.Sprintf("%s/%s[%d]", at, c.XMLName.Local, i+1))
	}
}

// count requires that the counts of each suite, and the totals, match the cases.
func (n *node) count(wrong *[]error, at string) {
	for attr, want := range map[string]int{"tests": n.cases(""), "failures": n.cases("failure"),
		"errors": n.cases("error"), "skipped": n.cases("skipped")} {
		got, ok := n.attr(attr)
		if !ok {
			continue
		}
		if v, err := strconv.Atoi(got); err != nil || v != want {
			*wrong = append(*wrong, fmt.Errorf("%s: %s is %q, and %d cases are", at, attr, got, want))
		}
	}
	for i := range n.Children {
		if n.Children[i].XMLName.Local == "testsuite" {
			n.Children[i].count(wrong, fmt.Sprintf("%s/testsuite[%d]", at, i+1))
		}
	}
}

// cases counts the cases below n that have the child, or all for "".
func (n *node) cases(child string) int {
	if n.XMLName.Local == "testcase" {
		if child == "" || slices.ContainsFunc(n.Children, func(c node) bool { return c.XMLName.Local == child }) {
			return 1
		}
		return 0
	}
	sum := 0
	for i := range n.Children {
		sum += n.Children[i].cases(child)
	}
	return sum
}

func (n *node) attr(name string) (string, bool) {
	for _, a := range n.Attrs {
		if a.Name.Local == name {
			return a.Value, true
		}
	}
	return "", false
}
