package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// text is the catalogue's description of a node for operators, or for its users: clauses of wordings. In a file it is
// one sentence, a list of wordings, or a mapping with a list of such lists under "clauses".
type text [][]wording

// wording is a sentence, and what must have been measured before it applies.
type wording struct {
	Says  string `yaml:"says"`
	Needs facts  `yaml:"measured"`
}

// facts are names of facts, each with its result, pass or fail, in the order of the file.
type facts [][2]string

// span is a time such as 30s, 5m or 1h.
type span time.Duration

func (t *text) read(r *reader, n *yaml.Node) {
	switch {
	case n.Kind == yaml.SequenceNode:
		*t = text{wordings(r, n)}
	case n.Kind != yaml.MappingNode:
		*t = text{{{Says: r.text(n, "")}}}
	case len(n.Content) != 2 || n.Content[0].Value != "clauses" || n.Content[1].Kind != yaml.SequenceNode:
		r.bad(n, "want a text, a list of wordings, or clauses with a list of such lists")
	default:
		for _, c := range n.Content[1].Content {
			*t = append(*t, wordings(r, c))
		}
	}
}

// wordings reads one clause. Only its last wording may lack facts: later ones would never be used.
func wordings(r *reader, n *yaml.Node) []wording {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.bad(n, "want a list of wordings")
		return nil
	}
	var all []wording
	for i, c := range n.Content {
		var w wording
		if c.Kind == yaml.MappingNode {
			r.mapping(c, reflect.ValueOf(&w).Elem())
		} else {
			w.Says = r.text(c, "")
			if i < len(n.Content)-1 {
				r.bad(c, "needs no fact, so that nothing after it is ever said")
			}
		}
		all = append(all, w)
	}
	return all
}

func (f *facts) read(r *reader, n *yaml.Node) {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		r.bad(n, "want facts with pass or fail, as heartbeat_current: pass")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fact, mark := n.Content[i].Value, n.Content[i+1].Value
		if r.words["PointID"][fact]+r.words["HopID"][fact]+r.words["Fact..."][fact] == "" {
			r.bad(n.Content[i], "unknown fact %q", fact)
		}
		if mark != "pass" && mark != "fail" {
			r.bad(n.Content[i], "%s: want pass or fail, not %q", fact, mark)
		}
		*f = append(*f, [2]string{fact, mark})
	}
}

func (s *span) read(r *reader, n *yaml.Node) {
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 || d%time.Second != 0 {
		r.bad(n, "want a time of whole seconds, as 30s, 5m or 1h")
	}
	*s = span(d)
}

// literal returns the Go literal of a diag.Text.
func (t text) literal() string {
	var clauses []string
	for _, c := range t {
		var all []string
		for _, w := range c {
			one := "Says: " + strconv.Quote(w.Says)
			if len(w.Needs) > 0 {
				var needs []string
				for _, n := range w.Needs {
					mark := map[string]string{"pass": "MarkPass", "fail": "MarkFail"}[n[1]]
					needs = append(needs, fmt.Sprintf("{%q, %s}", n[0], mark))
				}
				one += ", Needs: []Need{" + strings.Join(needs, ", ") + "}"
			}
			all = append(all, "{"+one+"}")
		}
		clauses = append(clauses, "{"+strings.Join(all, ", ")+"}")
	}
	return "Text{" + strings.Join(clauses, ", ") + "}"
}

// literal returns the Go literal of a duration.
func (s span) literal() string {
	n, unit := time.Duration(s)/time.Second, "time.Second"
	switch {
	case n%3600 == 0:
		n, unit = n/3600, "time.Hour"
	case n%60 == 0:
		n, unit = n/60, "time.Minute"
	}
	return strings.TrimPrefix(fmt.Sprintf("%d * %s", n, unit), "1 * ")
}
