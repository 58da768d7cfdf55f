package cmdutil

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops/explain"
)

// Explainer returns a function that returns the page for a word's meaning, nil for an unknown word. It loads the words
// once, at the first call.
func Explainer() func(word string) []page.Block {
	entries := sync.OnceValue(func() map[string][]explain.Entry {
		all := map[string][]explain.Entry{}
		for _, e := range explain.All() {
			all[e.Word] = append(all[e.Word], e)
		}
		return all
	})
	return func(word string) (blocks []page.Block) {
		of := entries()[word]
		for i := range of {
			blocks = append(blocks, EntryPage(&of[i])...)
		}
		return blocks
	}
}

// EntryPage is one meaning of a word as a page.
func EntryPage(e *explain.Entry) []page.Block {
	title := e.Word
	if e.Number > 0 {
		title = fmt.Sprintf("%d %s", e.Number, e.Word)
	}
	fields := page.Fields{{Label: e.Kind, Text: e.Title}}
	add := func(label string, texts ...string) {
		for i, text := range texts {
			if i > 0 {
				label = ""
			}
			fields = append(fields, page.Field{Label: label, Text: text})
		}
	}
	add("for", e.For)
	add("means", e.Means...)
	add("measured", e.Measured)
	add("causes", e.Causes...)
	blocks := []page.Block{page.Heading{Text: title}, fields}
	if len(e.Do) > 0 {
		blocks = append(blocks, page.Steps{Label: "do", Texts: e.Do})
	}
	last := page.Fields{{Label: "verify", Command: e.Verify}}
	if e.Example != nil {
		last = append(last, page.Field{Label: "example", Text: e.Example.From + ": " + e.Example.Text})
	}
	last = append(last, page.Field{Label: "see", Text: strings.Join(e.See, ", ")})
	return append(blocks, last, page.Blank{})
}
