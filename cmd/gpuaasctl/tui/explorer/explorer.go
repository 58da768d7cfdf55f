// Package explorer is a screen for browsing a report: its items on the left (of a walk: the hops), and on the right
// everything that the report has about the selected item. It judges and measures nothing: it shows blocks of package
// page that renderers make, and callers provide the actions of keys other than those for moving.
//
// Its callers are the commands that have a report and a terminal. It only knows a Document, so another kind of report
// needs only a function like Walk. A report that changes is passed as a new Document.
package explorer

import (
	"context"
	"fmt"
	"os"
	"sync"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Document is a report to move in.
type Document struct {
	Title    string
	Noun     string // what an item is: "hop"
	Whole    string // what the first item is: "the walk"
	Pick     string // what the item First is: "the hop to blame"
	Items    []Item
	First    int      // index of the initially selected item
	Commands []string // to copy by their number, as the items show it
}

// Item is a row on the left, and the content on the right while it is selected.
type Item struct {
	ID    string // identifies it in a newer document; "": its name
	Name  string
	Mark  page.Cell // a symbol, one column wide
	Note  string    // text after the name, if there is room
	Words []string  // the words that `explain` offers first
	// Sections returns the content for the width of the right side.
	Sections func(render.Options) []render.Section
	Again    string // the hop to walk again for this item; "": none
	// Open returns the document of which this item is a row; nil if the item has no document.
	Open func() (Document, error)

	report *Item // the item before it was walked again
}

// Options configure where a document is drawn, and additional keys.
type Options struct {
	In, Out *os.File
	Display render.Options // colour and ASCII
	// Explain returns the meaning of a word, nil for a word without one.
	Explain func(word string) []page.Block
	// Again measures an item again, until ctx ends, and returns its new state. If it is nil, NoAgain is the reason.
	Again   func(ctx context.Context, what string) (*Item, error)
	NoAgain string
	// Follow shows newer documents until ctx ends; nil for a finished report.
	Follow func(ctx context.Context, show func(Document))

	drawn func(frame string) // for tests: called with each frame; may be nil
}

// Run shows a document until the key q, the end of ctx or the end of the terminal. It waits for a running repetition,
// and for Follow. With Follow, only the key q returns nil: every other end is context.Canceled, as it is without a
// terminal.
func Run(ctx context.Context, d Document, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	m := newModel(d, o, func(item int, what string) (<-chan againMsg, func()) {
		end := make(chan againMsg, 1) // buffered: nobody may receive it any more
		ctx, stop := context.WithCancel(ctx)
		work.Go(func() {
			defer stop()
			fresh, err := o.Again(ctx, what)
			end <- againMsg{item, fresh, err}
		})
		return end, stop
	})
	if w, h, err := term.GetSize(int(o.Out.Fd())); err == nil && w > 0 && h > 0 {
		m.resize(w, h)
	}
	in := &tui.Ending{File: o.In, End: cancel}
	program := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(o.Out), tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, program.Quit)
	defer stop()
	if o.Follow != nil {
		work.Go(func() { o.Follow(ctx, func(d Document) { program.Send(newerMsg{d}) }) })
	}
	_, err := program.Run()
	cancel()
	work.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("show the report: %w", err)
	}
	if o.Follow != nil && !m.left {
		return context.Canceled
	}
	return nil
}
