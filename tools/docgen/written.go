package main

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// pageText has the templates of every generated page and table.
//
//go:embed pages.tmpl
var pageText string

// written executes a template of pageText. Template and data are both this program's, so a failure is a mistake in one
// of them.
func written(name string, data any) string {
	t := template.Must(template.New("").Funcs(template.FuncMap{
		"inc": func(i int) int { return i + 1 }, "upper": upper, "codes": codes, "escaped": page.Escaped,
		"code": func(v any) string { return page.CodeSpan(reflect.ValueOf(v).String()) },
		"step": page.StepMarkdown, "line": meansLine,
		"span": diag.Span, "repair": repair, "row": meaning, "from": from, "asks": asks,
		"kinds": kinds, "needs": needs, "fields": fields,
		"params": func(k chaos.Kind) reflect.Type { return reflect.TypeOf(k.Params()).Elem() },
	}).Parse(pageText))
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return b.String()
}

// asks lists the paths and fields of the mapping that a step needs.
func asks(s hop.Step) string {
	asks := slices.Clone(s.Needs.Paths)
	for _, f := range s.Needs.Fields {
		asks = append(asks, strings.ReplaceAll(f, "|", " or "))
	}
	return codes(asks)
}

// meaning returns the hop's row in the catalogue.
func meaning(id diag.HopID) diag.HopRow {
	row, _ := diag.LookupHop(id)
	return row
}

func from(h hop.Hop) string {
	switch v := h.From(); {
	case len(v) == 0:
		return "-"
	case slices.Equal(v, []string{hop.Operator, hop.Node}):
		return "both"
	default:
		return strings.Join(v, "+")
	}
}

// codes lists names, of any string type, each as code; "-" if there are none.
func codes(names any) string {
	words := reflect.ValueOf(names)
	if words.Len() == 0 {
		return "-"
	}
	quoted := make([]string, words.Len())
	for i := range quoted {
		quoted[i] = "`" + words.Index(i).String() + "`"
	}
	return strings.Join(slices.Compact(quoted), ", ")
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
