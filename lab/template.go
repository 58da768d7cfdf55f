//go:build linux

package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// values maps a template's {{NAME}} to its replacement.
type values map[string]string

func (v values) fill(text string) string {
	for name, value := range v {
		text = strings.ReplaceAll(text, "{{"+name+"}}", value)
	}
	return text
}

// render renders a template. Lines between {{each LIST}} and {{end LIST}} are repeated for each entry of the list,
// whose names hide outer ones. A name without a value, or an unterminated list, is an error.
//
// It does not use text/template, which calls methods by name: a program that links it keeps every exported method
// of every type, 2.4 MB of gpuaasctl, see TestToolCallsNoMethodByName.
func render(text string, all values, lists map[string][]values) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		for {
			before, rest, found := strings.Cut(text, "{{each "+name+"}}\n")
			body, after, ended := strings.Cut(rest, "{{end "+name+"}}\n")
			if !found || !ended {
				break
			}
			for _, entry := range lists[name] {
				before += entry.fill(body)
			}
			text = before + after
		}
	}
	text = all.fill(text)
	if _, rest, open := strings.Cut(text, "{{"); open {
		name, _, _ := strings.Cut(rest, "}}")
		return "", fmt.Errorf("template: nothing is known as %q", name)
	}
	return text, nil
}
