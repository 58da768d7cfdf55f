// Package explorer is a report as a screen to move in: its items on the left (of a walk: the hops), and on the right
// everything that the report has about the chosen one. It judges and measures nothing: what it shows are blocks of
// package page, which renderers make, and what a key does beyond moving is handed in.
//
// Its callers are the commands that have a report and a terminal. It knows no report but as a Document, so that another
// kind of report needs a function like Walk and nothing else. A report that changes is given as a new Document.
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
	"github.com/gpuaas/gpuaasctl/page"
)

// Document is a report to move in.
type Document struct {
	Title    string
	Noun     string // of an item: "hop"
	Whole    string // what the first item is about: "the walk"
	Pick     string // what the item First is: "the hop to blame"
	Items    []Item
	First    int      // the item that is chosen at the start
	Commands []string // to copy by their number, as the items show it
}

// Item is a row on the left and what is on the right while it is chosen.
type Item struct {
	ID    string // by which it is found in a newer document; "" is its name
	Name  string
	Mark  page.Cell // a symbol of one column
	Note  string    // a word behind the name, where there is room
	Words []string  // what `explain` has first
	// Sections are made for the width of the right side.
	Sections func(render.Options) []render.Section
	Again    string // what is walked again for it; "" is nothing
	// Open returns the document that this item is a row of; nil if the item has no document.
	Open func() (Document, error)

	report *Item // as it was before it was walked again
}

// Options configure where a document is drawn, and the keys besides those for moving.
type Options struct {
	In, Out *os.File
	Look    render.Options // colour and ASCII
	// Explain is what a word means, nil for one that has no meaning of its own.
	Explain func(word string) []page.Block
	// Again measures an item again, until ctx ends, and gives it as it is now. If it is nil, NoAgain is the reason.
	Again   func(ctx context.Context, what string) (*Item, error)
	NoAgain string
	// Follow shows newer documents until ctx ends; nil for a report that is finished.
	Follow func(ctx context.Context, show func(Document))

	drawn func(frame string) // for tests: each frame; may be nil
}

// Run shows a document until the key q, the end of ctx or the end of the terminal. It waits for what is measured again,
// and for what follows the report. What follows one is ended with nil by the key q alone: every other end is
// context.Canceled, as it is without a terminal.
func Run(ctx context.Context, d Document, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	m := newModel(d, o, func(item int, what string) (<-chan againMsg, func()) {
		end := make(chan againMsg, 1) // also where nothing takes it any more
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
