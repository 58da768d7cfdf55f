package golden

import (
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/diag/trust"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

var (
	// angled is a placeholder that a shell takes for a redirection, or a template's own.
	angled = regexp.MustCompile(`<[a-z][a-z_ ]*>|\{[a-z_0-9]+\}|\[\W*\{`)
	// loose is what a whole page may have in no line.
	loose = regexp.MustCompile(`<(?:` + strings.Join(diag.Placeholders[:], "|") + `)>`)
)

// unfilled returns what is wrong with a command: a placeholder, a word that only a page without a report has, or an
// empty word.
func unfilled(command string) string {
	if found := angled.FindString(command); found != "" {
		return found
	}
	for word := range strings.FieldsSeq(command) {
		general := slices.ContainsFunc(diag.Placeholders[:], func(name string) bool { return word == diag.General(name) })
		if general || word == "''" || word == "FOLDER" {
			return word
		}
	}
	return ""
}

// checkCommands fails if a command of the report, or of the trust report made from its facts, is not complete, or a
// step's text has a placeholder.
func checkCommands(t *testing.T, name string, r *diag.Report) (commands int) {
	t.Helper()
	check := func(command string) {
		commands++
		if wrong := unfilled(command); wrong != "" {
			t.Errorf("%s: %q in the command %s", name, wrong, command)
		}
	}
	v := &r.Verdict
	for i := range v.Steps {
		for _, c := range v.Steps[i].Commands() {
			check(c)
		}
	}
	texts := slices.Clone(v.Recovery)
	for _, step := range trust.Explain(r.Subject, r.Facts).Verdict.Repair {
		texts = append(texts, step.Text)
	}
	for _, text := range texts {
		if found := angled.FindString(text); found != "" {
			t.Errorf("%s: %q in %q", name, found, text)
		}
		for _, m := range between.FindAllStringSubmatch(text, -1) {
			check(m[1])
		}
	}
	for _, c := range render.Commands(v) {
		check(c)
	}
	return commands
}

// TestNoPlaceholderInAReport: with every part of a recorded walk removed in turn, no command has a placeholder in it: a
// part of the subject, of the plan, a fact, a section or an attribute of all facts, or a value of the deciding fact.
func TestNoPlaceholderInAReport(t *testing.T) {
	commands, walked := 0, 0
	paths := recordings(t)
	older, err := filepath.Glob("before/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range some(append(paths, older...)) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at, r := range cuts(t, data, i%8 == 0) { // fields are nearly the same in every recording
			walked++
			commands += checkCommands(t, path+" without "+at, r)
		}
	}
	if walked < 500 || commands < 2000 {
		t.Errorf("only %d reports with %d commands", walked, commands)
	}
}

// TestNoPlaceholderOnAPage: without anything that is known of the node, no format of a page has a placeholder.
func TestNoPlaceholderOnAPage(t *testing.T) {
	for _, path := range some(recordings(t)) {
		r := recorded(t, path)
		r.Subject.Expected, r.Subject.NodeHost, r.Subject.NodeID = nil, "", ""
		r.Plan.Profile, r.Plan.Command, r.Subject.EnvironmentProfile = "", "", ""
		verdict.Judge(hops.BuiltIn(), r)
		for _, format := range render.Formats {
			if found := loose.FindString(walked(t, r, render.Options{Format: format})); found != "" {
				t.Errorf("%s: %q in %s", path, found, format)
			}
		}
	}
	paths, err := filepath.Glob("drills/*.ndjson")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range some(paths) {
		r := drilled(t, path)
		d := &r.Drills[0]
		r.Profile, d.Node, d.Run, d.Allocation = "", "", "", ""
		for _, c := range drillrender.Commands(r, d, "") {
			if wrong := unfilled(c); wrong != "" {
				t.Errorf("%s: %q in the command %s", path, wrong, c)
			}
		}
		for _, format := range drillrender.Formats {
			page := drillPage(t, r, render.Options{Format: format})
			if found := loose.FindString(page); found != "" || strings.Contains(page, " '' ") {
				t.Errorf("%s: %q in %s", path, found, format)
			}
		}
	}
}

// cuts yields the judged reports of a document that lack one part, with its name: a field of the subject or the plan, a
// fact, or with fields a field or a section's value in all facts.
func cuts(t *testing.T, data []byte, fields bool) iter.Seq2[string, *diag.Report] {
	t.Helper()
	var doc struct {
		Subject, Plan map[string]any
		Facts         []map[string]any
	}
	whole := &diag.Report{}
	if err := errors.Join(json.Unmarshal(data, &doc), json.Unmarshal(data, whole)); err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, *diag.Report) bool) {
		goes := true
		try := func(at string, r *diag.Report) {
			if goes {
				if judged, err := verdict.Replay(hops.BuiltIn(), r); err == nil { // else it is no report without this part
					goes = yield(at, judged)
				}
			}
		}
		for _, at := range names(doc.Subject) {
			r := *whole
			r.Subject = diag.Subject{}
			decodedWithout(t, doc.Subject, at, &r.Subject)
			try("subject."+at, &r)
		}
		for _, at := range names(doc.Plan) {
			r := *whole
			r.Plan = diag.Plan{}
			decodedWithout(t, doc.Plan, at, &r.Plan)
			try("plan."+at, &r)
		}
		seen := map[string]bool{}
		for i, f := range doc.Facts {
			r, id := *whole, whole.Facts[i].ID
			r.Facts = slices.DeleteFunc(slices.Clone(whole.Facts), func(f diag.Fact) bool { return f.ID == id })
			try("facts."+id, &r)
			for _, at := range names(f) {
				if seen[at] = seen[at] || !fields || at == "id"; seen[at] {
					continue
				}
				seen[at] = true
				r.Facts = make([]diag.Fact, len(doc.Facts))
				for k := range doc.Facts {
					decodedWithout(t, doc.Facts[k], at, &r.Facts[k])
				}
				try("facts.*."+at, &r)
			}
		}
	}
}

// names lists the fields of a document, and those of its fields that are documents, as "expected.ssh".
func names(doc map[string]any) (all []string) {
	for name, value := range doc {
		all = append(all, name)
		if inner, ok := value.(map[string]any); ok {
			for field := range inner {
				all = append(all, name+"."+field)
			}
		}
	}
	slices.Sort(all)
	return all
}

// decodedWithout reads a document into out, without one field.
func decodedWithout(t *testing.T, doc map[string]any, at string, out any) {
	t.Helper()
	doc = maps.Clone(doc)
	name, field, nested := strings.Cut(at, ".")
	if inner, ok := doc[name].(map[string]any); nested && ok {
		inner = maps.Clone(inner)
		delete(inner, field)
		doc[name] = inner
	} else if !nested {
		delete(doc, name)
	}
	text, err := json.Marshal(doc)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		t.Fatal(err)
	}
}
