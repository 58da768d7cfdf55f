package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos"
)

// drillsPage is docs/drills.md: what may be in a drill's file. Fields and their words are those of the types.
func drillsPage(root string) (string, error) {
	all, err := chaos.Load(os.DirFS(filepath.Join(root, "scenarios")), "scenarios")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(
		"# Drills\n\nMade from the types and files of `chaos/` and `scenarios/` by `make picture`; change it there.\n\n" +
			"`gpuaasctl chaos show DRILL` prints a file as a pattern, `validate` checks one, `plan` says what it would do on " +
			"a machine.\n" +
			"[run-a-drill.md](run-a-drill.md) is about running them, [write-a-drill.md](write-a-drill.md) about writing " +
			"one.\n\n" +
			"## The drills\n\n| drill | what | faults | blame | within |\n|---|---|---|---|--:|\n")
	for _, s := range all {
		var kinds []string
		for _, f := range s.Faults {
			kinds = append(kinds, f.Kind)
		}
		fmt.Fprintf(&b, "| [`%s`](../scenarios/%s.yaml) | %s | %s | %s | %s |\n", s.Metadata.ID, s.Metadata.ID,
			s.Metadata.Title, codes(kinds), blamed(s.Expect.Blame), s.Expect.DetectWithin)
	}
	b.WriteString(
		"\n## The file\n\nAll that has no \"may be left out\" must be there. A duration has its unit: `90s`, `2m`.\n\n| " +
			"field | |\n|---|---|\n")
	fields(&b, reflect.TypeFor[chaos.Scenario](), "")
	b.WriteString(
		"\n`from`, `role` and `on` are `node` (that is walked), `peer` (another one) or `platform` (`platform_ssh` in the " +
			"profile); a\n" +
			"probe may also be from `operator`. In a probe with a `view`, `{main-pid}` is the number of the unit's main " +
			"process.\n" +
			"`expect.blame` may be the word `none`: then nothing may fail.\n\n" +
			"## Variables\n\nA text of `params` and of probes may have them.\n\n| | |\n|---|---|\n")
	for _, v := range chaos.Variables() {
		fmt.Fprintf(&b, "| `${%s}` | %s |\n", v.Name, v.About)
	}
	b.WriteString(
		"\n## Kinds of faults\n\nThe tier says what ends a fault by itself: T0 the kernel at the ttl, T1 the " +
			"end of the watchdog, T2 a\n" +
			"reboot, T3 only an undo, and therefore only on machines that may be lost.\n")
	for _, k := range chaos.Kinds() {
		fmt.Fprintf(&b, "\n### %s\n\n%s. %s, on %s. %s\n\n| parameter | |\n|---|---|\n", k.Name, upper(k.Title), k.Tier,
			codes(k.On), k.About)
		fields(&b, reflect.TypeOf(k.Params()).Elem(), "")
	}
	return b.String(), nil
}

func blamed(b chaos.Blame) string {
	if b.None {
		return "nothing"
	}
	return codes(b.Hop) + " " + codes(b.Signal)
}

// fields writes a row for every field of t, those of inner structs by dotted names.
func fields(b *strings.Builder, t reflect.Type, prefix string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if tag == "-" || !f.IsExported() {
			continue
		}
		if strings.Contains(rest, "inline") || (f.Anonymous && tag == "") {
			fields(b, f.Type, prefix)
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
			fields(b, inner, name+".")
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
	if len(all) == 0 {
		return ""
	}
	return codes(all)
}
