package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

// drillsPage is docs/drills.md: the format of a drill's file. Fields and their allowed values come from the types.
func drillsPage(root string) (string, error) {
	all, err := chaos.Load(os.DirFS(filepath.Join(root, "scenarios")), "scenarios")
	if err != nil {
		return "", err
	}
	return written("drills", map[string]any{"Drills": all, "HopNeeds": ops.HopNeeds(hops.BuiltIn()),
		"EnvironmentNeeds": chaos.Needs(), "Scenario": reflect.TypeFor[chaos.Scenario](),
		"Variables": chaos.Variables(), "Kinds": chaos.Kinds()}), nil
}

// kinds returns the kinds of a scenario's faults.
func kinds(s chaos.Scenario) string {
	var kinds []string
	for _, f := range s.Faults {
		kinds = append(kinds, f.Kind)
	}
	return codes(kinds)
}

// needs returns what a drill needs beyond a node.
func needs(s chaos.Scenario, ofHops map[diag.HopID][]chaos.Need) string {
	return codes(s.Needs(ofHops))
}

// fields writes a row for every field of t, and for those of inner structs with dotted names.
func fields(t reflect.Type) string {
	var b strings.Builder
	fieldsBelow(&b, t, "")
	return b.String()
}

func fieldsBelow(b *strings.Builder, t reflect.Type, prefix string) {
	for f := range t.Fields() {
		tag, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if tag == "-" || !f.IsExported() {
			continue
		}
		if strings.Contains(rest, "inline") || (f.Anonymous && tag == "") {
			fieldsBelow(b, f.Type, prefix)
			continue
		}
		name := prefix + tag
		words := f.Tag.Get("jsonschema_description")
		if strings.Contains(rest, "omitempty") {
			words = strings.TrimSuffix("may be left out; "+words, "; ")
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Slice {
			inner, name = inner.Elem(), name+"[]"
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[chaos.Params]() {
			if words != "" {
				fmt.Fprintf(b, "| `%s` | %s |\n", name, words)
			}
			fieldsBelow(b, inner, name+".")
			continue
		}
		if enum := enums(f.Tag.Get("jsonschema")); enum != "" {
			words = strings.TrimPrefix(words+": "+enum, ": ")
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, words)
	}
}

func enums(tag string) string {
	var all []string
	for part := range strings.SplitSeq(tag, ",") {
		if v, ok := strings.CutPrefix(part, "enum="); ok {
			all = append(all, v)
		}
	}
	return strings.TrimPrefix(codes(all), "-")
}
